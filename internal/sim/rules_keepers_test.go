package sim

import (
	"testing"
	"time"
)

// TestRule29KeeperThatWasPutBack: the disk of one keeper is put back, and the only other one in sight was away when it was written. They
// decide nothing together, though they are two of three; the third knows what was decided.
func TestRule29KeeperThatWasPutBack(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{HostsKeep: true}, func(w *World) {
		w.formKept(3, "a", "b", "c")
		a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
		w.run(15 * time.Second)
		w.Halt(b)
		w.run(20 * time.Minute)
		w.Snapshot(a)
		w.Spec(spec(3))
		w.Until("the spec is written", time.Minute, w.deskDone)
		w.run(30 * time.Second) // c hears a later epoch of that disk
		w.Halt(a)
		w.Halt(c)
		w.RollBack(a, 20*time.Second)
		w.Start(a)
		w.Start(b)
		w.run(10 * time.Second)
		w.Spec(spec(3))
		w.run(time.Minute)
		if w.deskDone() {
			w.violate("two keepers decide, one of which forgot, and the other one was away")
		}
		w.Start(c)
		w.Until("the spec is written", 2*time.Minute, w.deskDone)
	})
}

// TestRule29PowerCut: a cluster of one host, and one of three, go on by themselves within seconds after all power was gone.
func TestRule29PowerCut(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"a"}, {"a", "b", "c"}} {
		inWorld(t, Options{HostsKeep: true}, func(w *World) {
			w.formKept(len(names), names...)
			w.run(15 * time.Second)
			for range 2 {
				for _, m := range w.hosts() {
					w.Halt(m)
				}
				w.run(10 * time.Second)
				for _, m := range w.hosts() {
					w.Start(m)
				}
				w.run(10 * time.Second)
				w.Spec(spec(len(names)))
				w.Until("the spec is written", 5*time.Second, w.deskDone)
			}
		})
	}
}

// formKept forms a cluster whose hosts keep the record, without clients.
func (w *World) formKept(count int, names ...string) {
	for i, name := range names {
		m := w.Place(name)
		if i == 0 {
			w.FoundRecord(m, spec(count))
		}
		w.start(m)
		w.apart()
	}
	w.Await(count, soonEnough)
	w.Until("the voters keep the record", time.Minute, func() bool { return w.keepers() == count })
}
