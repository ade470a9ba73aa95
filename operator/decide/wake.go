package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Why does no pod of this cluster start? wakes is all that certificates have to do with it: nobody is started with what nobody takes.

// Rests says that no pod of the cluster runs, and none is to, so that nobody shows or trusts anything.
func (w *World) Rests() bool {
	return !w.Adopting() && !slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Running || h.Pod })
}

// wakes decides about authorities that nothing can be issued by, before the first pod of a cluster starts, founded or not: others are
// made at once, or no host starts. It says whether that is decided.
func (a rotation) wakes() bool {
	w := a.w
	switch {
	case !w.Rests():
		return false
	case a.ended(w.Now) && a.asked():
		a.replace(false, "the authorities have ended, and others are asked for")
	case a.ended(w.Now) && a.ended(w.Stamped): // by the operator's clock alone no cluster ends
		a.replace(true, "the authorities ended while no pod ran")
	case a.ended(w.Now) && w.Stamped.IsZero():
		a.holds()
		a.d.Waits = append(a.d.Waits, w.Renewed(AuthorityEnded, fmt.Sprintf("by the operator's clock the authorities ended at %s while no pod ran, and %s. No host starts before it does", a.Ends.UTC().Format(time.RFC3339), w.unstamped())))
	case a.ended(w.Now):
		a.hasEnded(false)
	default:
		return a.keyless() && a.wakesWithout()
	}
	return true
}

// keyless: the keys of those that hosts trust are lost, so that nobody gets certificates of them.
func (a *Authorities) keyless() bool {
	return !a.There || a.Phase == cluster.RotateTrust && a.Ends.IsZero()
}

// Keyless says that nothing is issued in place of certificates that end, before other authorities sign.
func (w *World) Keyless() bool {
	return w.Authorities != nil && !w.Authorities.Unmade && w.Authorities.keyless()
}

// wakesWithout is wakes where nothing can be issued and a host has nothing to show any more. A rotation that begins with those that run
// would wait for that host for ever: all begin at once with others, by a person's word.
func (a rotation) wakesWithout() bool {
	w := a.w
	bare := a.starting(func(h Host) bool { return !h.Leaves })
	ended := a.starting(func(h Host) bool { return lapsed(h, w.Now) && (w.Stamped.IsZero() || lapsed(h, w.Stamped)) })
	switch {
	case (a.asked() || a.There) && len(ended)+len(bare) > 0: // in trust they were
		a.replace(false, "the authorities' keys are lost, and hosts have no certificates that last")
	case len(ended) > 0:
		a.holds()
		lost := fmt.Sprintf("the keys of the authorities are lost, and the certificates of %s have ended", strings.Join(ended, ", "))
		if w.Stamped.IsZero() {
			lost += " by the operator's clock, and " + w.unstamped()
		}
		a.d.Waits = append(a.d.Waits, w.Renewed(AuthorityGone, lost+". No host starts with them. Put the Secret with the keys back if there is a backup"))
	default:
		return false
	}
	return true
}

// lapsed: by a clock the certificates of a host have ended. What is not known has not.
func lapsed(h Host, now time.Time) bool { return !h.LeavesEnd.IsZero() && now.After(h.LeavesEnd) }

// starting are those of the hosts that are there, and are to start.
func (a rotation) starting(are func(Host) bool) (names []string) {
	for _, h := range a.w.Hosts {
		starts := func(s Step) bool { return s.N == h.N && (s.Kind == StartHost || s.Kind == MakeHost) }
		if are(h) && slices.ContainsFunc(a.d.Steps, starts) {
			names = append(names, h.Name)
		}
	}
	return names
}

// holds takes out the steps by which a host starts.
func (a rotation) holds() {
	a.d.Steps = slices.DeleteFunc(a.d.Steps, func(s Step) bool { return s.Kind == StartHost || s.Kind == MakeHost })
}

// unstamped says that nobody knows the time by the API server's clock.
func (w *World) unstamped() string {
	if w.Unstamped == "" {
		return "the API server does not say the time"
	}
	return "the API server does not say the time: " + w.Unstamped
}
