package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules of docs/adr/017-any-version.md.

// overALine forms a cluster whose machines lack the release in between, and asks
// for the one beyond it, with a person's approval.
func (w *World) overALine(from, to cluster.Version, names ...string) {
	for _, name := range names {
		m := w.Place(name)
		m.releases = []cluster.Version{sim35, sim37}
		w.Start(m)
	}
	w.Spec(specOf(len(names), from))
	w.Load(100 * time.Millisecond)
	w.Await(len(names), soonEnough)
	w.run(10 * time.Second)
	w.askOutage(to, len(names))
}

func (w *World) askOutage(to cluster.Version, n int) {
	s := specOf(n, to)
	s.AcceptOutage = cluster.Consent(to, time.Now())
	w.Spec(s)
}

// TestHaltUpAndDown: over a line and back, undisturbed, and with every daemon
// killed now and then: nothing that was acknowledged is lost, no revision goes
// back, and no two generations serve.
func TestHaltUpAndDown(t *testing.T) {
	t.Parallel()
	for _, kill := range []time.Duration{0, 700 * time.Millisecond, 2 * time.Second} {
		inWorld(t, Options{}, func(w *World) {
			w.overALine(sim35, sim37, "a", "b", "c")
			for i := range 6 {
				if kill == 0 {
					break
				}
				m := w.hosts()[i%3]
				w.run(kill)
				w.KillDaemon(m)
				w.run(kill / 2)
				w.Start(m)
			}
			w.Await(3, 5*soonEnough)
			if n := w.running(sim37); n != 3 && w.recorded().Halt.Ended == "" {
				w.violate("%d members run %s", n, sim37)
			}
			w.askOutage(sim35, 3)
			w.Await(3, soonEnough)
			if n := w.running(sim35); n != 3 {
				w.violate("%d members run %s", n, sim35)
			}
			w.noneRefused()
		})
	}
}
