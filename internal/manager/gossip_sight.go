package manager

import (
	"cmp"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
)

// blindLocked is the excuse of a daemon that has seen the store worse than another
// one for a while.
func (g *Gossip) blindLocked(now time.Time) string {
	worst := ""
	for id, p := range g.peers {
		if its := p.last.Store; its != nil && g.election.Live(id, now) {
			if e := excuse(g.sight, its); e == election.UnfitStore || worst == "" {
				worst = e
			}
		}
	}
	if worst == "" {
		g.blindSince = time.Time{}
		return ""
	}
	if g.blindSince.IsZero() {
		g.blindSince = now
	}
	if now.Sub(g.blindSince) < blindFor {
		return ""
	}
	return worst
}

// excuse is why whoever has one sight should leave the lead to who has the other.
func excuse(own, its *cluster.StoreSight) string {
	switch {
	case own == nil || its.Unread != "" || its.Foreign || !its.Marker:
		return ""
	case own.Unread != "":
		return election.UnfitStoreSilent
	case own.Foreign || !own.Marker:
		return election.UnfitStore
	}
	return ""
}

// Sights are what the other daemons told of the store.
func (g *Gossip) Sights() []cluster.HostSight {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []cluster.HostSight
	for id, p := range g.peers {
		if p.last.Store != nil && g.election.Live(id, time.Now()) {
			out = append(out, cluster.HostSight{Host: id, StoreSight: *p.last.Store})
		}
	}
	slices.SortFunc(out, func(a, b cluster.HostSight) int { return cmp.Compare(a.Host, b.Host) })
	return out
}
