package decide

import (
	"fmt"
	"slices"
	"time"
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
		return false
	}
	return true
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
