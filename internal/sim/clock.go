package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// clock is how far a machine's wall clock is off the world's, and was at each
// time: what a host wrote down before its clock jumped keeps the time of then.
// What a daemon measures by its monotonic clock does not jump.
type clock struct {
	mu    sync.Mutex // guards jumps
	jumps []jump     // oldest first
}

type jump struct {
	at  time.Time
	off time.Duration
}

// set puts the clock off by so much from a time on; the zero time: always.
func (c *clock) set(at time.Time, off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jumps = append(c.jumps, jump{at, off})
}

// off is how far the clock was off at a time.
func (c *clock) off(t time.Time) (off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jumps {
		if !j.at.After(t) {
			off = j.off
		}
	}
	return off
}

// wasOff: the clock was off at some time, or is.
func (c *clock) wasOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.jumps, func(j jump) bool { return j.off != 0 })
}

// Jump sets a machine's clock off by so much from now on.
func (w *World) Jump(m *machine, off time.Duration) {
	w.tracef(m.ID(), "the clock jumps: it is off by %s", off.Round(time.Millisecond))
	m.clock.set(time.Now(), off)
}

// ahead is how far a machine's clock is ahead of another one's now.
func (m *machine) ahead(of *machine) time.Duration {
	now := time.Now()
	return m.clock.off(now) - of.clock.off(now)
}

// told puts what a host says into the time of its clock, as one sees it who has
// another: all that a daemon compares is by its own clock, which the world takes
// for the right one.
func (m *machine) told(s *cluster.HostState, to *machine) {
	theirs := to.clock.off(time.Now())
	shift := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(m.clock.off(*t) - theirs)
		}
	}
	shift(&s.Clock)
	for _, t := range []**cluster.Taken{&s.Taken, &s.Drill} {
		if *t != nil {
			c := **t
			shift(&c.Began)
			shift(&c.Ended)
			*t = &c
		}
	}
	if s.Staged != nil {
		c := *s.Staged
		shift(&c.Since)
		s.Staged = &c
	}
	if s.Hash != nil {
		c := *s.Hash
		shift(&c.Began)
		shift(&c.Ended)
		s.Hash = &c
	}
	if s.Database != nil {
		c := *s.Database
		shift(&c.CompactedAt)
		shift(&c.Defragmented)
		s.Database = &c
	}
	s.SetAside = slices.Clone(s.SetAside)
	for i := range s.SetAside {
		shift(&s.SetAside[i].At)
	}
}

// simLocal is a daemon's own host. Its clock is the daemon's, but what it wrote
// down before that jumped is as old as it says.
type simLocal struct {
	*host.Host
	m *machine
}

// Observe implements manager.Local.
func (l simLocal) Observe(ctx context.Context, q cluster.ObserveRequest) cluster.ObserveReply {
	r := l.Host.Observe(ctx, q)
	if r.State != nil {
		l.m.told(r.State, l.m)
	}
	return r
}

// Apply implements manager.Local.
func (l simLocal) Apply(ctx context.Context, q cluster.ApplyRequest) cluster.ApplyReply {
	return l.m.w.carriedOut(l.m, q, func() cluster.ApplyReply { return l.Host.Apply(ctx, q) })
}

const (
	// withJumps is the share of the seeds in which clocks jump.
	withJumps = 0.35
	// jumpsBegin is where the numbers of a seed for them begin.
	jumpsBegin = 1 << 34
)

// jumpClock sets some machine's clock off by seconds or up to an hour, or right
// again; often while something is under way there.
func (g *generator) jumpClock() {
	x := &g.jumps
	m := g.up()[x.next().below(len(g.up()))]
	var off time.Duration
	switch most := []time.Duration{10 * time.Second, 5 * time.Minute, time.Hour}[x.next().below(3)]; x.next().below(4) {
	case 0:
	case 1:
		off = x.next().within(time.Second, most)
	case 2:
		off = -x.next().within(time.Second, most)
	case 3: // there and back
		off = x.next().within(-most, most)
		g.w.later(x.next().within(time.Second, time.Minute), func() { g.w.Jump(m, 0) })
	}
	wait := x.next().within(0, 5*time.Second)
	g.w.count("clock jumps")
	g.w.later(wait, func() { g.w.Jump(m, off) })
}
