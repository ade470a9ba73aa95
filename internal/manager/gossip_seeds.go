package manager

import (
	"context"
	"time"

	"etcdadm.io/cluster"
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
