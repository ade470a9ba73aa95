package plan

import (
	"cmp"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// seedCommand is what asks for the cluster that the spec asks for.
func (v *view) seedCommand() string {
	return fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.store(), v.spec.EtcdVersion, v.spec.MemberCount)
}

// seedLike is what asks for a count of members, with the release that is there.
func (v *view) seedLike(members int) string {
	return fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.store(), v.commonRelease(), members)
}

// store is the store as a person names it in a command.
func (v *view) store() string { return ShellWord(cmp.Or(v.obs.Store.URL, "STORE")) }

// ShellWord is cluster.ShellWord.
func ShellWord(text string) string { return cluster.ShellWord(text) }

// commonRelease is the release that the members run or else the newest that
// every host in sight can run, or the word for it.
func (v *view) commonRelease() string {
	if run := v.version(); !run.IsZero() {
		return run.String()
	}
	var best cluster.Version
	for i := range v.obs.Hosts {
		for _, r := range v.obs.Hosts[i].Releases {
			lacks := slices.ContainsFunc(v.obs.Hosts, func(h cluster.HostReport) bool { return !h.CanRun(r) })
			if !lacks && r.Compare(best) > 0 {
				best = r
			}
		}
	}
	if best.IsZero() {
		return "VERSION"
	}
	return best.String()
}
