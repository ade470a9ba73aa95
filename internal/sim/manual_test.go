package sim

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// TestManualNobodyIsReplacedUnasked: self-management is off, and a wiped host's voter stays, with
// this leader and the next one, until a person types what is offered. A process that ends starts again.
func TestManualNobodyIsReplacedUnasked(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		lead := w.leader()
		w.typed(lead, manager.GoalRequest{Goal: plan.Goal{Kind: plan.AutoManage, Manage: &plan.ManageAsked{}}, Within: 30 * time.Second})
		w.happened(t, "auto-manage: done")
		w.step()
		before, _ := w.voters()
		i := slices.IndexFunc(before, func(v cluster.Member) bool { return w.carrier(v.ID) != lead })
		off := w.carrier(before[i].ID)
		w.Halt(off)
		w.Wipe(off)
		w.Start(off)
		w.KillDaemon(lead)
		w.Start(lead)
		for range 12 {
			w.run(10 * time.Second)
			w.step()
			if now, learners := w.voters(); len(learners) > 0 || !slices.EqualFunc(before, now, func(a, b cluster.Member) bool { return a.ID == b.ID }) {
				w.violate("the members changed, and nobody asked for that")
				return
			}
		}
		g := &generator{w: w, seed: dice(mix(1)), spec: spec(3)}
		g.typeOffered()
		w.Await(3, soonEnough)
		w.happened(t, "apply: done")
	})
}

// TestManualAskedFor: a person turns self-management off and on at any daemon, and types what is offered.
func TestManualAskedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		g := actorWith(w, "d")
		g.manual.begin(g.seed, manualBegins, 1)
		for i := range 12 {
			g.askManual()
			w.run(20 * time.Second)
			if ms := g.up(); i%4 == 0 {
				w.Halt(ms[i%len(ms)])
				w.Wipe(ms[i%len(ms)])
				w.Start(ms[i%len(ms)])
			}
			w.Await(3, soonEnough)
		}
		w.happened(t, "auto-manage: done", "apply: done")
	})
}
