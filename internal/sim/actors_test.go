package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// What the actors of random seeds rest on, alone.

// TestTLSTurnedOn: daemons that are restarted with TLS, one after the other, bring
// every member to it, also when one of them is set back in between.
func TestTLSTurnedOn(t *testing.T) {
	inWorld(t, Options{}, func(w *World) {
		for _, name := range []string{"a", "b", "c"} {
			m := w.Place(name)
			m.plain.Store(true)
			w.start(m)
		}
		w.Spec(spec(3))
		w.Load(100 * time.Millisecond)
		w.Await(3, soonEnough)
		for i, m := range []*machine{w.Host("a"), w.Host("b"), w.Host("c"), w.Host("c"), w.Host("c")} {
			w.restartWith(m, i == 3, i == 0, time.Second)
			w.run(5 * time.Second)
		}
		w.Await(3, soonEnough)
		for _, m := range w.hosts() {
			if s, _ := m.state(); !m.trusts || s.Launch == nil || s.Launch.URLs.Peer[0] != m.urls().Peer[0] {
				w.violate("the member of %s listens at %v", m.name, s.Launch.URLs.Peer)
			}
		}
	})
}

// TestMisreadHashConvictsNobody: one hash that is wrong is looked at again, and
// nobody is taken for odd.
func TestMisreadHashConvictsNobody(t *testing.T) {
	inWorld(t, Options{Upkeep: cluster.Upkeep{HashInterval: time.Minute}}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.etcd.Misread("b")
		before := w.changed()
		w.run(6 * time.Minute)
		if n := w.changed() - before; n > 0 {
			w.violate("the voters changed %d times", n)
		}
	})
}
