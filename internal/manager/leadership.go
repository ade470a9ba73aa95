package manager

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/wake"
)

// listen passes on what happens on this host.
func (g *Gossip) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
		case <-g.Local.Changes():
		}
		if ctx.Err() != nil {
			return
		}
		g.Judge()
		if leader, leading, _ := g.Leader(); leading {
			g.Wake()
		} else {
			g.hasten(leader)
		}
	}
}

// stepLocked feeds the election one event and carries out what it changed.
func (g *Gossip) stepLocked(e election.Event) {
	now := time.Now()
	next, effects := election.Step(g.election, e, now)
	g.election = next
	for _, effect := range effects {
		switch effect.Kind {
		case election.StopLeading:
			if g.stop != nil {
				g.stop()
				g.stop = nil
			}
		case election.StartLeading:
			wake.Up(g.leads)
		case election.LeaderChanged:
			close(g.turned)
			g.turned = make(chan struct{})
			g.quick = now.Add(quickFor)
			for _, t := range g.targets {
				t.due, t.again = now, true
			}
			wake.Up(g.pingNow)
		}
	}
}

// Judge tells the election whether this host may lead.
func (g *Gossip) Judge() {
	g.judge(g.Local.Identity())
	g.Say("answered", "other hosts do not answer the calls of this one, which leaves the lead to one that they answer", g.unansweredWords())
}

func (g *Gossip) judge(id record.Identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	excuse := election.Worse(g.blindLocked(now), g.unansweredLocked(now))
	if id.Unsure && g.inSightLocked(now) {
		excuse = election.Worse(excuse, election.UnfitDisk)
	}
	unfit := id.Unfit
	switch {
	case unfit != "":
	case id.Disk == "" || id.Asks: // another daemon may be this host
		unfit = "its host is starting"
	case g.twin.disputes(now):
		unfit = "another daemon, at " + g.twin.endpoint + ", has its host ID"
	case g.lacking:
		unfit = election.UnfitStore
	default:
		unfit = excuse
	}
	g.topFence = higher(g.topFence, id.Promised)
	if unfit != g.election.Unfit {
		g.stepLocked(election.Fit{Unfit: unfit})
	}
	g.standLocked(id.Promised)
}

// inSightLocked reports whether another daemon is in sight: one that is alone leads whatever its disk is.
func (g *Gossip) inSightLocked(now time.Time) bool {
	for id := range g.peers { // any order: one is enough
		if g.election.Live(id, now) {
			return true
		}
	}
	return false
}

// standLocked tells the election how this host's leadership stands.
func (g *Gossip) standLocked(promised cluster.Fence) {
	well := g.wellLed && g.election.Leading()
	if promised != g.election.Fence || well != g.election.Well {
		g.stepLocked(election.Stands{Fence: promised, Well: well})
	}
}

// Follows reports whether a host is in sight, and says that this one leads.
func (g *Gossip) Follows(id cluster.HostID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.peers[id]
	return ok && g.election.Live(id, time.Now()) && p.last.Leader == g.self
}

// higher is the higher fence of those that a leader may bring: a damaged promise
// of one host must not carry away what all leaders pick.
func higher(seen, heard cluster.Fence) cluster.Fence {
	if !heard.OutOfReach() && seen.Less(heard) {
		return heard
	}
	return seen
}
