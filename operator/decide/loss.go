package decide

import (
	"slices"

	"etcdadm.io/cluster"
)

// WayOut is what a person may ask for in an EtcdRestore where the quorum is lost. It has one source.
type WayOut struct {
	// Survivor is the host whose data goes furthest.
	Survivor string
	// Proven: no voter's data is left, and a proven backup is known. Backup is the newest one where none is proven.
	Proven bool
	Backup string
	// Lost are voters' hosts that are known not to answer.
	Lost []string
}

// Codes of the daemons' blockers: too few voters are up; all hosts of voters answer, and hold no data.
const (
	noQuorum  = "no-quorum"
	noMembers = "no-members"
)

// LosesQuorum says whether a blocker of the daemons is that the quorum is lost.
func LosesQuorum(code string) bool { return code == noQuorum || code == noMembers }

// WayOut is nil where the quorum is not known to be lost, where it is recovered by itself, and where nothing is known that
// would help. A backup is offered only where no voter's data is left: volumes that are there come back with all that was
// written.
func (w *World) WayOut() *WayOut {
	t := w.fresh()
	if t == nil || w.Intent == nil || w.Want.Spec.AutoRecoverAfter > 0 {
		return nil
	}
	out := &WayOut{Survivor: t.Survivor}
	switch none := slices.Contains(t.Blockers, noMembers); {
	case !slices.ContainsFunc(t.Blockers, LosesQuorum):
		return nil
	case out.Survivor != "":
	case !none && !w.allGone():
		return nil
	case t.ProvenName != "":
		out.Proven = true
	case t.BackedName != "":
		out.Backup = t.BackedName
	default:
		return nil
	}
	for _, name := range w.votersHosts() {
		if _, heard, known := w.Hears(name); known && !heard && w.silent(name) {
			out.Lost = append(out.Lost, name)
		}
	}
	return out
}

// silent says that a host which the daemons do not hear is known not to answer: nothing is left of it, its volume is gone, or
// it has been silent for longer than a host may be. One that a person paused comes back.
func (w *World) silent(name string) bool {
	if slices.Contains(w.Told.Paused, name) {
		return false
	}
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == name })
	return i < 0 || w.Hosts[i].volumeGone() || w.lost(w.Hosts[i])
}

// volumeGone says that there is no data of a host any more.
func (h Host) volumeGone() bool { return h.Claim == ClaimNone || h.Claim == ClaimLost }

// allGone says that no voter's data is left: each volume is gone.
func (w *World) allGone() bool {
	names := w.votersHosts()
	for _, name := range names {
		i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == name })
		if name == "" || i >= 0 && !w.Hosts[i].volumeGone() {
			return false
		}
	}
	return len(names) > 0
}

// votersHosts are the hosts of all voters that are written, sorted; empty names are of voters whose hosts are not.
func (w *World) votersHosts() (names []string) {
	for _, set := range w.Intent.VoterSets() {
		for _, v := range set {
			names = append(names, string(v.Host))
		}
	}
	if w.Intent.State == cluster.IntentFounding {
		for _, f := range w.Intent.Founders {
			names = append(names, string(f.Host))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
