package manager

import (
	"context"
	"errors"
	"maps"
	"slices"

	"etcdadm.io/cluster"
)

// refusal is why two daemons that both run do not talk with each other, as far as one
// of them knows: certificates, clocks, names, releases. It is not that one is silent.
type refusal struct{ why, hint string }

// refusalOf is that of an error for people who can do something about it.
func refusalOf(err error) refusal {
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		return refusal{}
	}
	return refusal{err.Error(), hinted.Hint()}
}

// refusedLocked notes, and says once, why the daemon at a target does not talk with
// this one. A ping that was given up says nothing new; one that nobody took ends what was
// known, since whoever refused before may be gone. So does a ping that comes in (pinged),
// but where one daemon refuses the other and not the other way round, one of either kind
// follows the other: what was said of that counts until a ping of this daemon's own is
// taken.
func (g *Gossip) refusedLocked(t *target, err error) {
	r := refusalOf(err)
	switch {
	case err == nil, r.hint == "" && !errors.Is(err, context.Canceled):
		t.refusal, t.refused = refusal{}, ""
	case r.hint != "" && r.hint != t.refusal.hint: // the rest may have a time in it
		t.refusal = r
		if r.hint != t.refused {
			t.refused = r.hint
			g.Log.Warn("cannot talk with another daemon", "endpoint", t.endpoint, "host", t.host, "err", r.why)
			g.Wake()
		}
	}
}

// RefusalBy is why the daemon of a host does not talk with this one; empty: nothing is
// known of that.
func (g *Gossip) RefusalBy(id cluster.HostID, endpoint string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.targets[endpoint]; t != nil {
		return t.refusal.why
	}
	for _, e := range slices.Sorted(maps.Keys(g.targets)) {
		if t := g.targets[e]; t.host == id && t.refusal.why != "" {
			return t.refusal.why
		}
	}
	return ""
}

// Neighbours are the daemons that do not talk with this one, at hosts that an observation
// has nothing of.
func (g *Gossip) Neighbours(o *cluster.Observation) []cluster.Neighbour {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []cluster.Neighbour
	for endpoint, t := range g.targets {
		if t.refusal.why == "" || t.host != "" && tellsOf(o, t.host) {
			continue
		}
		out = append(out, cluster.Neighbour{Host: t.host, Endpoint: endpoint, Why: t.refusal.why})
	}
	return out
}

// tellsOf reports whether an observation has a word of a host, if only that it was not
// seen. Gaps without a host are of the store.
func tellsOf(o *cluster.Observation, id cluster.HostID) bool {
	_, gap := o.HostGap(id)
	return gap || slices.ContainsFunc(o.Hosts, func(h cluster.HostReport) bool { return h.Host == id })
}
