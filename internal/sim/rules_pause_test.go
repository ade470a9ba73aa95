package sim

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// TestRule4PausedHostIsNotReplaced: the host of the leading daemon is paused and off for
// longer than a silence may last, and the next leader has a spare at hand; the store is
// silent for a while, and the next leader dies too. Nobody goes before the pause is over.
func TestRule4PausedHostIsNotReplaced(t *testing.T) {
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e", "f")
		const long = 5 * time.Minute
		deadAfter := spec(5).DeadAfterOrDefault()
		off := w.leader()
		w.typed(off, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Pause, Host: off.ID(), Pause: &plan.PauseAsked{For: long, Reason: "maintenance"}}, Within: 30 * time.Second})
		w.happened(t, "pause: done")
		began := time.Now()
		w.step()
		before, _ := w.voters()
		w.Halt(off)
		w.run(3 * deadAfter)
		next := w.leader()
		w.KillDaemon(next)
		w.run(3 * deadAfter)
		w.Start(next)
		same := func() bool {
			w.step()
			now, learners := w.voters()
			return len(learners) == 0 && slices.EqualFunc(before, now, func(a, b cluster.Member) bool { return a.ID == b.ID })
		}
		for time.Since(began) < long {
			if !same() {
				w.violate("the members changed %s after the pause began", time.Since(began))
				return
			}
			w.run(5 * time.Second)
		}
		w.Until("it is replaced", soonEnough, func() bool { return !w.votes(off) })
		if took := time.Since(began); took < long+deadAfter-time.Second { // a pause begins at a full second
			w.violate("it was replaced %s after the pause began", took)
		}
		w.Start(off)
		w.Await(5, soonEnough)
	})
}

// TestPausesAskedFor: a person pauses hosts and takes that back, at any daemon.
func TestPausesAskedFor(t *testing.T) {
	inWorld(t, Options{}, func(w *World) {
		g := actorWith(w, "d")
		g.pauses.begin(g.seed, pausesBegin, 1)
		for range 12 {
			g.askPause()
			w.run(30 * time.Second)
		}
		w.Await(3, soonEnough)
		w.happened(t, "pause: done", "resume: done", "pause: refused")
	})
}
