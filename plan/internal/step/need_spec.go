package step

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// NeedSpec blocks what cannot be done without a spec that makes sense.
func NeedSpec(v *View) *decision.Decision {
	switch {
	case v.Spec != nil:
		return nil
	case v.Obs.Spec != nil:
		return decision.Wait(false, "spec-refused", "", "{error}", v.Obs.Spec.Validate().Error())
	}
	for _, g := range v.Obs.Gaps {
		if g.Kind == cluster.GapSpec {
			return decision.Wait(false, "spec-refused", "", "{detail}", g.Detail)
		}
	}
	if n := votersKnown(v); n > 0 {
		// An even count is one in the middle of a change, which no spec may ask for.
		return decision.Wait(false, "no-spec", seedLike(v, min(n|1, cluster.MaxMembers)), "the store has no spec of the cluster that exists. Check that it is the right store (mount, bucket, prefix): into an empty one the hosts write their record again, and only the spec is missing. If it is the right one, seed the spec again")
	}
	return decision.Wait(false, "no-spec", seedLike(v, 3), "the store has no spec yet: seed one, with the member count and the etcd version")
}

// SeedCommand is what asks for the cluster that the spec asks for.
func SeedCommand(v *View) string {
	return fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.Store(), v.Spec.EtcdVersion, v.Spec.MemberCount)
}

// seedLike is what asks for a count of members, with the release that is there.
func seedLike(v *View, members int) string {
	return fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.Store(), commonRelease(v), members)
}

// commonRelease is the release that the members run or else the newest that
// every host in sight can run, or the word for it.
func commonRelease(v *View) string {
	if run := v.Version(); !run.IsZero() {
		return run.String()
	}
	var best cluster.Version
	for i := range v.Obs.Hosts {
		for _, r := range v.Obs.Hosts[i].Releases {
			lacks := slices.ContainsFunc(v.Obs.Hosts, func(h cluster.HostReport) bool { return !h.CanRun(r) })
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

// votersKnown counts the voters of the cluster that the hosts show or have the
// record of; 0: none is known.
func votersKnown(v *View) int {
	switch {
	case v.Seen:
		return len(v.Roster.Voters())
	case v.Intent == nil:
		return 0
	case len(v.Intent.Voters) > 0:
		return len(v.Intent.Voters)
	}
	return len(v.Intent.Founders)
}
