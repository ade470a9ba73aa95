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
	t.Parallel()
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

// actorWith is a generator of which one actor acts, in a cluster of three.
func actorWith(w *World, names ...string) *generator {
	w.formed(3, append([]string{"a", "b", "c"}, names...)...)
	return &generator{w: w, seed: dice(mix(1)), spec: spec(3)}
}

// happened wants each of what actors count to have happened.
func (w *World) happened(t *testing.T, what ...string) {
	t.Helper()
	acts := w.actsSoFar()
	for _, x := range what {
		if acts[x] == 0 {
			t.Errorf("%q never happened: %v", x, acts)
		}
	}
}

// TestDefragmentationsAskedFor: a person has one database written anew, or all, and
// is told the truth about it.
func TestDefragmentationsAskedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		g := actorWith(w, "d")
		g.defragments.begin(g.seed, defragmentsBegin, 1)
		for range 12 {
			g.askDefragment()
			w.run(20 * time.Second)
		}
		w.Await(3, soonEnough)
		w.happened(t, "databases written anew", "defragment: done")
	})
}

// TestStepsWithoutTheStore: a person changes the voters while the store answers
// nobody, and it has their record once it answers.
func TestStepsWithoutTheStore(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		g := actorWith(w, "d", "e")
		g.storeless.begin(g.seed, storelessBegin, 1)
		before := w.changed()
		for range 8 {
			g.goStoreless()
			w.run(3 * time.Minute)
			g.liftHold()
			w.Await(3, soonEnough)
		}
		if w.changed() == before {
			w.violate("the voters never changed")
		}
		w.happened(t, "stores lost to all", "leave --no-store: done", "join --no-store: done")
	})
}

// TestNetworksLost: whichever network is lost as a whole, and comes back, the same
// members go on.
func TestNetworksLost(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		g := actorWith(w)
		g.networks.begin(g.seed, networksBegin, 1)
		before := w.changed()
		for range 6 {
			g.loseNetwork()
			w.run(2 * time.Minute)
		}
		w.Await(3, soonEnough)
		if n := w.changed() - before; n > 0 {
			w.violate("the voters changed %d times", n)
		}
		w.happened(t, "network of the members lost", "network of the daemons lost")
	})
}

// TestMisreadHashConvictsNobody: one hash that is wrong is looked at again, and
// nobody is taken for odd.
func TestMisreadHashConvictsNobody(t *testing.T) {
	t.Parallel()
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
