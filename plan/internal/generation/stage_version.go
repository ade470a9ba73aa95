package generation

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Wrote is the release that wrote the data.
func Wrote(v *step.View, c *cluster.Command, h *cluster.HostReport) cluster.Version {
	switch c.Kind {
	case cluster.CommandRestore:
		return c.Found.Version
	case cluster.CommandUndo: // what runs now may be another one
		for _, a := range h.SetAside {
			if a.Name() == c.Dir && !a.Version.IsZero() {
				return a.Version
			}
		}
	}
	if !h.Local.Version.IsZero() {
		return h.Local.Version
	}
	if v.Intent != nil {
		return v.Intent.Version
	}
	return cluster.Version{}
}

// GenerationVersion is the release that a host would run the new generation
// with: the one that was asked for, when it can read the data (the same minor
// or the next), else the newest of the data's own minor.
func GenerationVersion(v *step.View, c *cluster.Command, wrote cluster.Version, h *cluster.HostReport) (cluster.Version, string) {
	want := c.Version
	if want.IsZero() && v.Spec != nil {
		want = v.Spec.EtcdVersion
	}
	keys := byKeys(c, wrote)
	reads := readsData(want, wrote) || c.Kind == cluster.CommandChange || keys // by its tool, or key by key
	switch {
	case keys && !slices.ContainsFunc(h.Releases, wrote.SameMinor):
		return want, fmt.Sprintf("has no etcd %d.%d, which reads the backup (it has %s)", wrote.Major, wrote.Minor, words.Versions(h.Releases))
	case reads && h.CanRun(want):
		return want, ""
	case reads && !c.Version.IsZero():
		return want, fmt.Sprintf("has no etcd %s, only %s", want, words.Versions(h.Releases))
	case !c.Version.IsZero():
		return want, cannotRead(wrote, want)
	}
	var best cluster.Version
	for _, r := range h.Releases {
		if r.SameMinor(wrote) && r.Compare(best) > 0 {
			best = r
		}
	}
	if best.IsZero() {
		return best, fmt.Sprintf("has no etcd that reads data of %s (it has %s)", wrote, words.Versions(h.Releases))
	}
	return best, ""
}

// readsData: etcd serves data of its own line and of the one before.
func readsData(r, wrote cluster.Version) bool {
	return wrote.IsZero() || r.SameMinor(wrote) || r.Major == wrote.Major && r.Minor == wrote.Minor+1
}

// RestoringTool is the release whose tool a host restores with: the one that
// wrote the data, else the newest of its minor, else the one that is to run it.
func RestoringTool(h *cluster.HostReport, wrote, run cluster.Version) cluster.Version {
	best := run
	for _, r := range h.Releases {
		switch {
		case r == wrote:
			return r
		case r.SameMinor(wrote) && (!best.SameMinor(wrote) || r.Compare(best) > 0):
			best = r
		}
	}
	return best
}

// onExcerpt: the tool works on an excerpt, and the snapshot is used up. Source:
// ADR 013; of the tools before 3.5 and after 3.7 that is not so.
func onExcerpt(tool cluster.Version) bool {
	return tool.Major == 3 && tool.Minor >= 5 && tool.Minor <= 7
}

// ofVersion2: no tool reads such data, not even to its own release; they go key by key.
func ofVersion2(wrote cluster.Version) bool { return !wrote.IsZero() && !wrote.Has(cluster.V3API) }

// byKeys: the backup is of etcd 2, and a person asks for a release of version 3: no tool
// reads that, so every key is copied.
func byKeys(c *cluster.Command, wrote cluster.Version) bool {
	return c.Kind == cluster.CommandRestore && ofVersion2(wrote) && c.Version.Has(cluster.V3API)
}

// RestoresTo says why a backup cannot be restored to a release; empty: it can.
func RestoresTo(wrote, want cluster.Version) string {
	c := &cluster.Command{Kind: cluster.CommandRestore, Version: want}
	if readsData(want, wrote) || byKeys(c, wrote) {
		return ""
	}
	return cannotRead(wrote, want)
}

func cannotRead(wrote, want cluster.Version) string {
	return fmt.Sprintf("cannot restore data of etcd %s with etcd %s: etcd reads data of its own minor release and of the one before", wrote, want)
}

// CannotBegin says why a host cannot be the founder; empty: it can. What would
// keep it from being started later is looked at before anything is stopped.
func CannotBegin(v *step.View, h *cluster.HostReport) string {
	switch p := sight.Problem(h); {
	case !h.UnderFence:
		return "has not accepted this leader's fence"
	case v.Spec != nil && len(v.Spec.Hosts) > 0 && !slices.Contains(v.Spec.Hosts, h.Host):
		return "is not among the hosts that the spec names"
	case p != "":
		return p
	case len(h.Foreign) > 0:
		return sight.HoldsForeign(h)
	case len(h.URLs.Peer) == 0:
		return "has no peer URL"
	case h.Floor() > v.NextGeneration():
		return fmt.Sprintf("refuses generation %d", v.NextGeneration())
	case h.Process.State == cluster.ProcessForeign:
		return "has a process in the way that is not known to be ours"
	}
	return ""
}

// lacksKey says that a host cannot read an encrypted backup; empty: it can.
func lacksKey(c *cluster.Command, h *cluster.HostReport) string {
	if c.Found != nil && c.Found.Encrypted && !h.Decrypts {
		return "has no secret key for the encrypted backup (--backup-identity-file of its daemon names it)"
	}
	return ""
}
