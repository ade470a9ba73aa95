package sim

import (
	"fmt"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// TestRecordHandedOnNoMore: a restore is written down and followed, and then its leader and
// the store are cut off from the others, which serve for a quarter of an hour. They hear
// nothing of it when they are back: the person's word is over.
func TestRecordHandedOnNoMore(t *testing.T) {
	t.Parallel()
	longVariant(t)
	restoring(t, func(w *World, b string) {
		a, rest := w.Host("a"), []*machine{w.Host("b"), w.Host("c")}
		cut := false
		w.OnHold(func(at Held) Stall {
			in := w.recorded()
			if at.Decision == nil || at.Decision.Action == nil || at.Decision.Action.Kind != plan.ActHosts || in == nil || in.Generation != 2 {
				return Stall{}
			}
			w.OnHold(nil)
			cut = true
			w.Split([]*machine{a}, rest, daemons, members)
			for _, m := range rest {
				w.CutStore(m)
			}
			return Stall{For: 50 * time.Millisecond}
		})
		w.Queue(restore(b))
		w.Until("the others were cut off", soonEnough, func() bool { return cut })
		w.run(15 * time.Minute)
		w.Heal()
		w.run(2 * time.Minute)
		if in := w.recorded(); in.Generation != 2 || in.State != cluster.IntentFounding {
			w.violate("the store has generation %d, %s, so this shows nothing", in.Generation, in.State)
		}
		w.keepsAll()
	})
}

// TestRule13MachinesReplacedAtTheirAddresses: all machines are replaced at their addresses, and
// so have other host IDs and know of no fence. A restore is run all the same.
func TestRule13MachinesReplacedAtTheirAddresses(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, _ string) {
		for range 4 { // leaders come and go, so that the record has a high fence
			w.Halt(w.Host("a"))
			w.run(30 * time.Second)
			w.Start(w.Host("a"))
			w.run(30 * time.Second)
		}
		b := w.Backup()
		w.load.stop()
		w.load = nil // nobody is served for long, and what was is in the backup or is not
		for _, m := range w.hosts() {
			w.Halt(m)
		}
		for i, m := range w.hosts() {
			w.Rename(m, cluster.HostID(fmt.Sprintf("n%d", i)))
		}
		for _, m := range w.hosts() {
			w.Start(m)
			w.apart()
		}
		w.run(time.Minute)
		w.Queue(restore(b))
		w.Await(3, 2*soonEnough)
		w.only(2)
	})
}

// TestRecordSlowStore: a store that takes half a second for each call still has a restore
// run: what is read of it for one look is read side by side.
func TestRecordSlowStore(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.storeTakes.Store(int64(500 * time.Millisecond))
		w.Queue(restore(b, "gone"))
		w.generation(2, cluster.IntentFounded)
		w.storeTakes.Store(0)
		w.Await(3, soonEnough)
		w.only(2)
	})
}
