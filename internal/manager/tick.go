package manager

import (
	"context"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
)

// lead leads whenever it is this host's turn, until ctx ends.
func (m *Manager) lead(ctx context.Context) {
	var before cluster.HostID
	for ctx.Err() == nil {
		leader, _, turned := m.gossip.Leader()
		if leader != before {
			m.log.Info("leader of the daemons changed", "leader", leader, "self", m.self)
			before = leader
		}
		select {
		case <-ctx.Done():
			return
		case <-turned:
			continue
		case <-m.gossip.Leads():
			if wake.Ready(turned) { // it is said before it is done
				wake.Up(m.gossip.Leads())
				continue
			}
		}
		if term, stop := m.gossip.Lead(ctx); term != nil {
			m.leadership(term)
			stop()
		}
	}
}

// reign ticks until ctx, which is this host's leadership, ends.
func (m *Manager) leadership(ctx context.Context) {
	seen := higher(m.gossip.TopFence(), m.o.Local.Identity().Promised)
	t := &term{m: m, fence: newFencing(m.self, seen, m.o.Rand), speaker: speaker{log: m.log}}
	var scribe sync.WaitGroup
	scribe.Go(func() { m.report.Run(ctx) })
	scribe.Go(func() { m.watchAlarms(ctx) })
	defer scribe.Wait()
	defer t.drop()
	defer m.report.Ended()
	defer m.gossip.Led(false, nil)
	m.watch.ForgetPauses()
	m.watch.ForgetManual()
	m.watch.Now()
	wake.Ready(m.wake) // by what the first look sees as well
	timer := time.NewTimer(0)
	defer timer.Stop()
	stepped := false
	for {
		why := t.next(ctx, timer.C, !stepped)
		stepped = why == aStep
		switch why {
		case theEnd:
			return
		case woken:
			// The end of an op wakes the loop too, the op just paced included.
			if wait := t.pace.hold(time.Now()); wait > 0 {
				timer.Reset(wait)
				continue
			}
		}
		timer.Reset(t.tick(ctx))
	}
}

// cause is why the leader's loop looks.
type cause int

const (
	theEnd cause = iota // of this host's leadership: it does not look
	aStep               // a person's, now under way
	itsTime
	woken
)

// next waits for a reason to look. Where there are several it goes by their order,
// and not by chance: a person's step before a look that is due, if stepFirst, but not
// one step after the other, since meanwhile nothing is mended.
func (t *term) next(ctx context.Context, due <-chan time.Time, stepFirst bool) cause {
	steps, overdue, woke := t.accepts(), t.overdue(), t.m.wake
	if ctx.Err() != nil {
		return theEnd
	}
	if stepFirst {
		select {
		case t.request = <-steps:
			return aStep
		default:
		}
	}
	switch {
	case wake.Ready(overdue):
		return itsTime
	case wake.Ready(due):
		return itsTime
	case wake.Ready(woke):
		return woken
	}
	select {
	case <-ctx.Done():
		return theEnd
	case t.request = <-steps:
		return aStep
	case <-overdue:
		return itsTime
	case <-due:
		return itsTime
	case <-woke:
		return woken
	}
}

// tick looks once, decides, says so, and takes at most one step. It returns
// when to look again if nothing happens before.
func (t *term) tick(ctx context.Context) time.Duration {
	m := t.m
	o, l := t.observe(ctx)
	if ctx.Err() != nil {
		return m.o.Intervals.Tick
	}
	if t.rival(o, l) || t.claim(ctx, o, l) {
		return time.Nanosecond // to look again, under a fence or over a record that is another now
	}
	t.settled = true
	duel := t.fence.refused(t.refused, m.gossip.Follows, time.Now(), m.o.Rand)
	m.watch.Remembered(o, l)
	goal := t.goal(o)
	d := m.o.Planner(goal, o)
	if t.request != nil && t.request.asked.DryRun {
		// What only might be done is no state of the cluster: who asked is told.
		m.log.Info("planned for a person, and not done", "goal", goal, "rule", d.Rule, "reason", d.Reason)
		t.serve(d)
		return m.o.Intervals.Tick // it wakes the loop to converge again
	}
	now := time.Now()
	news := t.speaker.say(d, now)
	m.report.Publish(o, d, t.speaker.since, news)
	m.o.Decided(o, d)
	again := m.o.Intervals.Tick
	if d.Again > 0 {
		again = min(again, d.Again)
	}
	if duel > 0 {
		again = min(again, duel)
	}
	if d.Action == nil || d.Action.Kind != plan.ActIntent {
		m.report.Unwanted("intent")
	}
	if t.serve(d) && d.Action != nil && ctx.Err() == nil {
		err := t.holdFirst(ctx)
		m.said.Say("hold", "a person's step waits", err)
		took := err == nil && t.act(ctx, d.Action, l)
		pace := max(t.pace.after(d.Action, took), time.Nanosecond)
		if again = min(again, pace); !took {
			again = pace // whatever the planner expected, it did not happen
		}
	} else if d.Action == nil {
		t.pace = pace{}
	}
	if t.request != nil { // it is told in time that its time is up
		again = min(again, max(time.Until(t.request.deadline), time.Nanosecond))
	}
	return again
}

// goal is a person's step, or to converge.
func (t *term) goal(o *cluster.Observation) plan.Goal {
	if t.request != nil {
		t.request.asked.Goal = t.request.asked.Goal.Noted(o)
		return t.request.asked.Goal
	}
	return plan.Goal{Kind: plan.Converge}
}
