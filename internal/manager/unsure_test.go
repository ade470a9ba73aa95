package manager

import (
	"testing"
	"time"

	"etcdadm.io/election"
)

// A host whose disk is not confirmed leads only while no other host can: where the hosts keep the record it writes
// nothing.
func TestUnsureHostLeadsLast(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.add("a"), w.add("b")
		unsure := func(n *node, is bool) {
			n.host.mu.Lock()
			n.host.unsure = is
			n.host.mu.Unlock()
			n.host.change()
		}
		unsure(a, true)
		w.run(a)
		w.untilLeads(5*time.Second, "a") // alone
		if s := a.Status(); s.Unfit != "" {
			t.Errorf("alone it says %q", s.Unfit)
		}
		w.run(b)
		w.untilLeads(15*time.Second, "b")
		if s := a.Status(); s.Unfit != election.UnfitDisk {
			t.Errorf("it says %q", s.Unfit)
		}
		unsure(b, true)
		unsure(a, false)
		w.untilLeads(15*time.Second, "a")
		unsure(a, true) // none is better: who leads goes on
		time.Sleep(time.Minute)
		w.untilLeads(time.Millisecond, "a")
	})
}
