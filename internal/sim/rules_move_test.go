package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// TestVotersMoveToNamedHosts: the spec names three other hosts; daemons that lead and one of
// the new machines die meanwhile. In the end the three named ones vote, and no other.
func TestVotersMoveToNamedHosts(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d", "e", "f")
		named := map[cluster.HostID]bool{}
		voting := func() (n, others int) {
			for _, m := range w.hosts() {
				switch {
				case w.votes(m) && named[m.ID()]:
					n++
				case w.votes(m):
					others++
				}
			}
			return n, others
		}
		s := spec(3)
		for _, m := range w.hosts() {
			if !w.votes(m) {
				s.Hosts = append(s.Hosts, m.ID())
				named[m.ID()] = true
			}
		}
		w.Spec(s)
		w.run(10 * time.Second)
		first := w.leader()
		w.KillDaemon(first)
		w.run(15 * time.Second)
		w.Start(first)
		for _, m := range w.hosts() {
			if named[m.ID()] && w.votes(m) {
				w.Halt(m)
				w.run(20 * time.Second)
				w.Start(m)
				break
			}
		}
		w.Until("the named hosts vote, and no others", soonEnough, func() bool {
			w.step()
			n, others := voting()
			return n == 3 && others == 0
		})
		w.Await(3, soonEnough)
	})
}
