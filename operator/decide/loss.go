package decide

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// WayOut is what a person may ask for in an EtcdRestore where the quorum is lost. It has one source.
type WayOut struct {
	// Survivor is the host whose data goes furthest.
	Survivor string
	// Proven: no voter's data is left, and a proven backup is known. Backup is the newest one where none is proven.
	Proven bool
	Backup string
	// GiveUp are the claims of all voters whose data may be there and that have been silent for too long, where only a person
	// knows whether their volumes are gone for good: once these claims are deleted, a backup is offered.
	GiveUp []string
	// Lost are voters' hosts that are known not to answer.
	Lost []string
}

// Codes of the daemons' blockers: too few voters are up; all hosts of voters answer, and hold no data.
const (
	NoQuorum  = "no-quorum"
	noMembers = "no-members"
)

// LosesQuorum says whether a blocker of the daemons is that the quorum is lost.
func LosesQuorum(code string) bool { return code == NoQuorum || code == noMembers }

// WayOut is nil where the quorum is not known to be lost, where it is recovered by itself, and where nothing is known that
// would help now. A survivor is offered once a quorum can be asked, or all the others are known not to answer. A backup is
// offered only where no voter's data is left, or a person has given it up: volumes that are there come back with all that was
// written.
func (w *World) WayOut() *WayOut {
	t := w.fresh()
	if t == nil || w.Intent == nil || w.Want.Spec.AutoRecoverAfter > 0 {
		return nil
	}
	out := &WayOut{Survivor: t.Survivor}
	silent, all := w.silentVolumes()
	switch none := slices.Contains(t.Blockers, noMembers); {
	case !slices.ContainsFunc(t.Blockers, LosesQuorum):
		return nil
	case out.Survivor != "":
	case !none && !all || t.ProvenName == "" && t.BackedName == "":
		return nil
	case !none && len(silent) > 0:
		out.GiveUp = silent
		return out
	case t.ProvenName != "":
		out.Proven = true
	default:
		out.Backup = t.BackedName
	}
	voters, asked := w.votersHosts(), 0
	for _, name := range voters {
		switch _, heard, known := w.Hears(name); {
		case heard:
			asked++
		case known && w.silent(name):
			out.Lost = append(out.Lost, name)
		}
	}
	if out.Survivor != "" && asked <= len(voters)/2 && asked+len(out.Lost) < len(voters) {
		return nil // it could not begin: so few can be asked, and of the others some may come back yet
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

// silentVolumes are the claims of voters that nobody has given up, where no voter's host has answered for too long; false: one
// has, or may be any. A claim that a person deleted is given up, although the finalizer keeps its volume: its host is a voter.
func (w *World) silentVolumes() (claims []string, all bool) {
	names := w.votersHosts()
	for _, name := range names {
		i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == name })
		switch {
		case name == "":
			return nil, false
		case i < 0 || w.Hosts[i].volumeGone():
		case !w.lost(w.Hosts[i]) || slices.Contains(w.Told.Paused, name):
			return nil, false
		case w.Hosts[i].Claim != ClaimLeaving:
			claims = append(claims, name)
		}
	}
	return claims, len(names) > 0
}

// Beats is how often daemons tell of themselves at least.
const Beats = 5 * time.Minute

// Stranded are the claims of all voters, where no daemon has told anything for longer than a host may be silent, and none of their
// pods runs for want of a machine or a volume, by Kubernetes' own word: only a person knows whether the volumes come back. Once these
// claims are deleted another host takes a place, whose daemon tells. Nil: a voter may run, or no backup would help; without those
// that are given up.
func (w *World) Stranded() (claims []string) {
	t := w.Told
	if t == nil || t.ProvenName == "" && t.BackedName == "" || w.Intent == nil || w.Want.Paused || w.Want.Hibernate || !w.Want.Deleted.IsZero() {
		return nil
	}
	if w.Now.Sub(t.when()) < Beats+w.Want.ReplaceAfter {
		return nil
	}
	for _, name := range w.votersHosts() {
		i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == name })
		switch {
		case name == "":
			return nil
		case i < 0 || w.Hosts[i].volumeGone():
		case !w.Hosts[i].lacksItsPlace():
			return nil
		case w.Hosts[i].Claim != ClaimLeaving:
			claims = append(claims, name)
		}
	}
	return claims
}

// What keeps a pod from its start that lacks a machine or its volume: no machine fits, by the scheduler; its kubelet, if there is
// one, has not begun for Slow.
const (
	Unschedulable = "Unschedulable"
	NotStarted    = "NotStarted"
)

// lacksItsPlace says that a host's pod does not run, and that what is wrong may be its machine or its volume: an image that cannot
// be had, or settings that a container cannot be made with, say nothing of them.
func (h Host) lacksItsPlace() bool {
	return !h.Pod || h.Going || h.Stuck == Unschedulable || h.Stuck == NotStarted
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
