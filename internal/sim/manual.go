package sim

import (
	"time"

	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

const (
	// withManual is the share of the seeds in which a person turns self-management off and on.
	withManual = 0.25
	// manualBegins is where the numbers of a seed for that begin.
	manualBegins = 1 << 52
	// typesEvery is how often a person looks at what is offered, and types it.
	typesEvery = 5 * time.Second
)

// beginManual draws whether self-management is off at times. What daemons do by the clock, or
// without a person, is held against that clock in other seeds.
func (g *generator) beginManual() {
	g.manual.begin(g.seed, manualBegins, withManual)
	g.manual.on = g.manual.on && g.w.every == 0 && g.spec.AutoRecoverAfter == 0 && !g.foreign.on
}

// askManual is etcdadm auto-manage off at some daemon, or on. From the first time on the person
// types what the leading daemon offers.
func (g *generator) askManual() {
	if g.joining() {
		return
	}
	x := &g.manual
	at := g.up()[x.next().below(len(g.up()))]
	wait, within := x.next().within(0, 10*time.Second), x.next().within(5*time.Second, 30*time.Second).Round(time.Millisecond)
	goal := plan.Goal{Kind: plan.AutoManage, Manage: &plan.ManageAsked{On: x.next().chance(0.3), By: "a person"}}
	g.w.later(wait, func() { g.w.typed(at, manager.GoalRequest{Goal: goal, Within: within}) })
	if !g.types {
		g.types = true
		g.typeOffered()
	}
}

// typeOffered has a person type what is offered, now and for as long as the world is there.
func (g *generator) typeOffered() {
	g.w.later(typesEvery, func() {
		if m, rule := g.w.offers(); m != nil {
			g.w.typed(m, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Apply, Rule: rule}, Within: 30 * time.Second})
		}
		g.typeOffered()
	})
}

// offers is what the leading daemon would do by itself, and offers; nil: nothing.
func (w *World) offers() (*machine, string) {
	for _, m := range w.hosts() {
		d := m.daemon.Load()
		if d == nil || m.gone.Load() || !d.manager.Status().Leading {
			continue
		}
		d.mu.Lock()
		p := d.decision
		d.mu.Unlock()
		for _, b := range p.Blockers {
			if b.Rule != "" {
				return m, b.Rule
			}
		}
	}
	return nil, ""
}
