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
	t.Parallel()
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
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		g := actorWith(w, "d")
		g.pauses.begin(g.seed, pausesBegin, 1)
		for range 12 {
			g.askPause()
			w.run(30 * time.Second)
		}
		w.Await(3, soonEnough)
		w.happened(t, "pause: done", "resume: done")
	})
}

// TestRule1NobodyElseIsTakenAwayBesideAPausedHost: a host may go; its daemon is killed and
// starts again, the leader's host too, the store is silent, and a change of the options waits
// to restart the members. Nobody else is restarted before the pause is ended. What is done is
// held against the disks of those that may go, in every run.
func TestRule1NobodyElseIsTakenAwayBesideAPausedHost(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		goes := w.leader()
		w.typed(goes, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Pause, Host: goes.ID(), Pause: &plan.PauseAsked{ID: "p1", For: 10 * time.Minute, Reason: "kernel"}}, Within: 30 * time.Second})
		w.happened(t, "pause: done")
		var other *machine
		for _, m := range w.hosts() {
			if m != goes {
				other = m
			}
		}
		w.Until("it may go", soonEnough, func() bool { return len(w.letGo(other)) == 1 })
		s := spec(3)
		s.Options = map[string]string{"snapshot-count": "20000"}
		w.Spec(s)
		for range 2 {
			w.KillDaemon(goes)
			w.run(3 * time.Second)
			w.Start(goes)
			w.run(20 * time.Second)
		}
		w.KillDaemon(w.leader())
		w.run(20 * time.Second)
		for _, m := range w.hosts() {
			w.Start(m)
		}
		w.run(40 * time.Second)
		if len(w.letGo(other)) != 1 {
			w.violate("the pause ended by itself")
		}
		w.typed(other, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Resume, Host: goes.ID()}, Within: 30 * time.Second})
		w.happened(t, "resume: done")
		w.Until("it has heard of the end", soonEnough, func() bool { return len(w.letGo(other)) == 0 })
		w.Await(3, soonEnough)
	})
}
