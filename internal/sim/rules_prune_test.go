package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules of SAFETY.md, 22: what is pruned by itself. Every world looks at
// each directory that is pruned; these look that there are such, and what stays.

// replaced has the member of host c replaced, and its data set aside there.
func (w *World) replaced() {
	w.formed(3, "a", "b", "c")
	w.run(2 * time.Second)
	c := w.Host("c")
	w.Halt(c)
	w.Add("d")
	w.Until("c is replaced", soonEnough, func() bool { return w.votes(w.Host("d")) && !w.votes(c) })
	w.Start(c)
	w.Until("its data is set aside", soonEnough, func() bool { return w.aside(c) != "" })
	w.Await(3, soonEnough)
}

// listedAgain is longer than a leader takes until it lists the backups anew.
const listedAgain = 6 * time.Minute

// TestRule22RemovedMember: the data of a removed member goes once a newer backup
// is proven, and not before.
func TestRule22RemovedMember(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{PruneAfter: time.Minute}, func(w *World) {
		w.replaced()
		w.run(12 * time.Second) // more than clocks may be apart
		b := w.Backup()
		w.run(2 * listedAgain)
		if n := w.prunedSoFar(); n > 0 {
			w.violate("%d directories were pruned without a proven backup", n)
		}
		w.Prove(b)
		w.Until("it is pruned", 2*listedAgain, func() bool { return w.aside(w.Host("c")) == "" })
		w.Await(3, soonEnough)
	})
}

// TestRule22BackupFromBefore: a proven backup from before it was removed proves
// nothing about what it had.
func TestRule22BackupFromBefore(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{PruneAfter: time.Minute}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(2 * time.Second)
		w.Prove(w.Backup())
		w.run(2 * time.Second)
		c := w.Host("c")
		w.Halt(c)
		w.Add("d")
		w.Until("c is replaced", soonEnough, func() bool { return w.votes(w.Host("d")) && !w.votes(c) })
		w.Start(c)
		w.Until("its data is set aside", soonEnough, func() bool { return w.aside(c) != "" })
		w.run(3 * listedAgain)
		if w.aside(c) == "" {
			w.violate("it was pruned on a backup from before")
		}
	})
}

// TestRule22SupersededStays: what a restore set aside is the way back, and what
// a quorum had removed before it may be as well.
func TestRule22SupersededStays(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{PruneAfter: time.Minute}, func(w *World) {
		w.replaced()
		w.run(12 * time.Second)
		b := w.Backup()
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.Await(3, soonEnough)
		w.run(12 * time.Second)
		w.Prove(w.Backup())
		w.run(3 * listedAgain)
		if n := w.prunedSoFar(); n > 0 {
			w.violate("%d directories of an earlier generation were pruned", n)
		}
	})
}

// TestRule22ForgottenDiskStays: what a disk set aside because it forgot
// something was not removed by anybody when that was written down.
func TestRule22ForgottenDiskStays(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{PruneAfter: time.Minute}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(2 * time.Second)
		c := w.Host("c")
		w.Snapshot(c)
		w.run(30 * time.Second)
		w.Halt(c)
		w.RollBack(c, time.Second)
		w.Start(c)
		w.Until("its data is set aside", soonEnough, func() bool { return w.aside(c) != "" })
		w.Await(3, soonEnough)
		w.run(12 * time.Second)
		w.Prove(w.Backup())
		w.run(3 * listedAgain)
		if w.aside(c) == "" {
			w.violate("data was pruned that no quorum had removed")
		}
	})
}

// TestRule22HostDiesWhilePruning: before it is back the cluster becomes another
// one, whose way back this may be.
func TestRule22HostDiesWhilePruning(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{PruneAfter: time.Minute}, func(w *World) {
		w.replaced()
		w.run(12 * time.Second)
		b := w.Backup()
		w.Prove(b)
		struck := false
		w.once(func(p Point) bool { return p.Kind == kindPrune && !p.After }, Strike{Crash: true}, func() { struck = true })
		w.run(2 * listedAgain)
		if !struck {
			w.violate("the schedule never struck")
		}
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.Start(w.Host("c"))
		w.Await(3, soonEnough)
		w.run(12 * time.Second)
		w.Prove(w.Backup())
		w.run(2 * listedAgain)
		if w.aside(w.Host("c")) == "" {
			w.violate("it was pruned after the restore")
		}
	})
}
