package manager

import (
	"cmp"
	"context"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/discovery"
)

// discover looks for seeds until ctx ends.
func (g *Gossip) discover(ctx context.Context) {
	if g.Seeds == nil {
		g.seedsFound(nil)
		return
	}
	var changed <-chan struct{}
	if w, ok := g.Seeds.(discovery.Watcher); ok {
		changed = w.Watch(ctx)
	}
	began := time.Now()
	for {
		g.findSeeds(ctx)
		pause := g.Intervals.Discovery
		if time.Since(began) < pause {
			pause = min(pause, g.Intervals.Idle) // others are starting now as well
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case _, ok := <-changed:
			if !ok {
				changed = nil
			}
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			drain(changed)
			return
		}
	}
}

// drain waits for a watcher to be gone; its context has ended.
func drain(c <-chan struct{}) {
	if c == nil {
		return
	}
	for range c {
	}
}

func (g *Gossip) findSeeds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if a, ok := g.Seeds.(discovery.Announcer); ok {
		err := a.Announce(ctx, discovery.Seed{ID: string(g.self), Endpoint: g.Contact.Endpoint})
		g.Say("announce", "cannot announce this host to others", err)
	}
	seeds, err := g.Seeds.Seeds(ctx)
	g.Say("discovery", "cannot look for other daemons", err)
	g.seedsFound(seeds)
}

// discoveryTimeout bounds one look for seeds, all sources together, and the
// announcement before it.
const discoveryTimeout = 10 * time.Second

func (g *Gossip) seedsFound(seeds []discovery.Seed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.targets {
		t.seed = false
	}
	for _, s := range seeds {
		g.learnLocked(s.Endpoint, cluster.HostID(s.ID), true)
	}
	g.seeded = true
	g.countSeedsLocked()
}

// countSeedsLocked tells the election how many seeds were not heard yet.
func (g *Gossip) countSeedsLocked() {
	missing, now := election.Unheard, time.Now()
	if g.seeded {
		missing = 0
		for _, t := range g.targets {
			if t.seed && !t.answered && !g.isLeftLocked(t, now) {
				missing++
			}
		}
	}
	if missing != g.election.Missing {
		g.stepLocked(election.Seeds{Missing: missing})
		g.ringLocked()
	}
}

// leftFor is how long a daemon waits for an answer at an address that a host has left. Most likely nobody is there. A second daemon
// under this host's ID may be, which nobody else hears, and half a second is enough for it to answer.
const leftFor = 500 * time.Millisecond

// leaver is who has left an address, and when somebody first said so.
type leaver struct {
	host cluster.HostID
	told time.Time
}

// leftBy are the addresses at which this daemon spoke with hosts that it hears elsewhere now. Who did not listen until now cannot say.
func (g *Gossip) leftBy() (out []cluster.Contact) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, there := time.Now(), map[string]bool{}
	if g.hearing.gone(now) {
		return nil
	}
	for _, p := range g.peers {
		there[p.contact.Endpoint] = true
	}
	for endpoint, t := range g.targets {
		if p := g.peers[t.host]; p != nil && p.twin(now) == "" && t.answered && !there[endpoint] {
			out = append(out, cluster.Contact{Host: t.host, Endpoint: endpoint})
		}
	}
	slices.SortFunc(out, func(a, b cluster.Contact) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	return out
}

// toldOfLocked takes in what another daemon told of addresses that hosts have left.
func (g *Gossip) toldOfLocked(left []cluster.Contact, now time.Time) {
	for _, c := range left {
		if was, is := g.left[c.Endpoint]; was.host != c.Host && (is || len(g.left) < maxTargets) {
			g.left[c.Endpoint] = leaver{c.Host, now}
		}
	}
}

// isLeftLocked: nobody answers at a seed's address, and it is one that this host has left, or another one that is heard elsewhere. A
// name service names such ones for a while. The first word of it shows that this host's own network lets calls through.
func (g *Gossip) isLeftLocked(t *target, now time.Time) bool {
	l := g.left[t.endpoint]
	if t.host != "" && t.host != l.host || t.since.IsZero() || now.Sub(t.since) < leftFor || now.Sub(l.told) < leftFor {
		return false
	}
	p := g.peers[l.host]
	return l.host == g.self || p != nil && p.twin(now) == ""
}
