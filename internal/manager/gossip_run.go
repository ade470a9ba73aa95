package manager

import (
	"context"
	"sync"
	"time"

	"etcdadm.io/election"
)

// Run gossips until ctx ends, and tells the others that it leaves when leaving does.
func (g *Gossip) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){g.gossip, g.discover, g.listen, g.forgetUnseen} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
}

// Begin is for a daemon that starts.
func (g *Gossip) Begin() {
	now := time.Now()
	g.mu.Lock()
	g.election = election.New(g.self, now)
	g.quick = now.Add(quickFor)
	g.mu.Unlock()
	for _, p := range g.Local.Peers() {
		g.learn(p.Address, p.Host, false)
	}
}
