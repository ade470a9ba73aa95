package sim

import (
	"fmt"
	"time"

	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

const (
	// withPauses is the share of the seeds in which a person pauses hosts.
	withPauses = 0.3
	// pausesBegin is where the numbers of a seed for them begin.
	pausesBegin = 1 << 50
)

// askPause is etcdadm host pause at some daemon, or host resume. A host may be in the middle
// of anything then, and is left to what happens to it.
func (g *generator) askPause() {
	if g.joining() {
		return
	}
	x := &g.pauses
	at, on := g.up()[x.next().below(len(g.up()))], g.up()[x.next().below(len(g.up()))]
	wait, within := x.next().within(0, 10*time.Second), x.next().within(2*time.Second, 30*time.Second).Round(time.Millisecond)
	goal := plan.Goal{Kind: plan.Resume, Host: on.ID()}
	if x.next().chance(0.7) {
		long := x.next().within(5*time.Second, 2*time.Minute).Round(time.Second)
		goal.Kind, goal.Pause = plan.Pause, &plan.PauseAsked{For: long, Reason: "maintenance", Force: x.next().chance(0.3)}
		if !goal.Pause.Force {
			goal.Pause.ID = fmt.Sprintf("pause-%d", x.n)
		}
	}
	g.w.later(wait, func() { g.w.typed(at, manager.GoalRequest{Goal: goal, Within: within}) })
}
