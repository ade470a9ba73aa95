package sim

import (
	"testing"
	"time"

	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/register"
)

// keptBy is a world without a shared store, with a cluster of three on these hosts and spare ones, whose record the first founded.
func (w *World) keptBy(names ...string) {
	for i, name := range names {
		m := w.Place(name)
		if i == 0 {
			w.FoundRecord(m, spec(3))
		}
		w.start(m)
		w.apart()
	}
	w.Load(100 * time.Millisecond)
	w.Await(3, soonEnough)
	w.Until("the voters keep the record", time.Minute, func() bool { return w.keepers() == 3 })
}

// keepers counts those who keep the record.
func (w *World) keepers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.register.newest == nil {
		return 0
	}
	return len(w.register.newest.Keepers)
}

// TestHostsKeepTheRecord: three hosts without a shared store form a cluster. Each may be lost, also the one that founded the record
// and the one that leads: another takes its place, as a voter and as a keeper, and no write is lost.
func TestHostsKeepTheRecord(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "b", "c"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{HostsKeep: true}, func(w *World) {
				w.keptBy("a", "b", "c")
				m := w.Host(name)
				if !w.keptWithout(m) {
					w.violate("without %s nobody keeps the record", name)
				}
				w.Leave(m)
				w.Add("d")
				w.Await(3, soonEnough)
				w.Until("the voters keep the record", time.Minute, func() bool {
					return w.keepers() == 3 && w.keptWithout(m)
				})
			})
		})
	}
}

// TestWipedKeeperIsAnother: a host whose disk was wiped comes back as another keeper, under its name.
func TestWipedKeeperIsAnother(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{HostsKeep: true}, func(w *World) {
		w.keptBy("a", "b", "c")
		for _, name := range []string{"a", "b"} {
			m := w.Host(name)
			w.Halt(m)
			w.Wipe(m)
			if w.keptWithout(w.Host("c")) {
				w.violate("with one of three disks wiped another may be lost")
			}
			w.run(5 * time.Second)
			w.Start(m)
			w.Await(3, soonEnough)
			w.Until("all keep the record", time.Minute, func() bool {
				return w.keepers() == 3 && w.keptWithout(w.Host("a")) && w.keptWithout(w.Host("c"))
			})
		}
	})
}

// TestRecordOutlivesItsDaemons: every daemon is killed, and two of three come back: what was written is there, and the spec can
// be written. One of three writes nothing.
func TestRecordOutlivesItsDaemons(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{HostsKeep: true}, func(w *World) {
		w.keptBy("a", "b", "c")
		for _, m := range w.hosts() {
			w.Halt(m)
		}
		w.Start(w.Host("a"))
		w.run(10 * time.Second)
		w.Spec(spec(1))
		w.run(30 * time.Second)
		if w.deskDone() {
			w.violate("one of three hosts wrote the record")
		}
		w.Start(w.Host("b"))
		w.Until("the spec is written", time.Minute, w.deskDone)
		w.Start(w.Host("c"))
		w.Await(1, soonEnough)
		w.Until("one host keeps the record", time.Minute, func() bool { return w.keepers() == 1 })
	})
}

// TestKeeperGoesBack: a keeper whose disk went back has forgotten promises. It goes on as another keeper, which promised nothing.
func TestKeeperGoesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{HostsKeep: true}, func(w *World) {
		w.keptBy("a", "b", "c")
		m := w.Host("c")
		seat := func() register.Seat {
			data, err := medium{m}.Read(keeper.FileName)
			if err != nil {
				return register.Seat{}
			}
			state, err := keeper.Decode(data)
			if err != nil {
				w.violate("the keeper of c: %v", err)
			}
			return state.Seat
		}
		w.Snapshot(m)
		before := seat()
		for _, n := range []int{1, 3} { // the record goes on
			w.Spec(spec(n))
			w.run(5 * time.Second)
			w.Await(n, soonEnough)
		}
		w.run(15 * time.Second) // the others hear of a later epoch of its disk, which is how they know
		w.Halt(m)
		w.RollBack(m, 5*time.Second)
		w.Start(m)
		w.Await(3, soonEnough)
		w.Until("the voters keep the record", time.Minute, func() bool {
			return w.keepers() == 3 && w.keptWithout(w.Host("a"))
		})
		if now := seat(); now == before {
			w.violate("c goes on as keeper %s, which forgot what it promised", now.Keeper)
		}
	})
}
