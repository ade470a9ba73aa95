package election

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// Event is something that happened: [Heard], [Seeds], [Fit], [Stands], [Leave] or [Tick].
type Event interface{ apply(*State, time.Time) }

// Heard is a ping, or the reply to one.
type Heard struct{ Ping cluster.Ping }

// Seeds says how many of the daemons that this one was told of have not been
// heard yet.
type Seeds struct{ Missing int }

// Fit says whether this host may lead: an empty reason means that it may.
type Fit struct{ Unfit string }

// Stands says how this host's leadership stands: what its host promised last,
// and whether its last look as the leader found a quorum.
type Stands struct {
	Fence cluster.Fence
	Well  bool
}

// Leave says that this daemon is shutting down.
type Leave struct{}

// Tick says that time has passed.
type Tick struct{}

// Effect is what a step changed, in the order in which it is to be acted on.
type Effect struct {
	Kind   EffectKind
	Leader cluster.HostID // LeaderChanged: who leads now; empty: nobody
}

// EffectKind names an effect.
type EffectKind string

const (
	// LeaderChanged: this host's view of who leads changed.
	LeaderChanged EffectKind = "leader-changed"
	// StartLeading: this host leads from now on.
	StartLeading EffectKind = "start-leading"
	// StopLeading: this host leads no more, and begins nothing new.
	StopLeading EffectKind = "stop-leading"
)

// Step takes one event. The state that it was given stays as it was.
func Step(s State, e Event, now time.Time) (State, []Effect) {
	before := s.Leader
	s.Peers = slices.Clone(s.Peers)
	e.apply(&s, now)
	s.expire(now)
	if !s.Settled && !now.Before(s.settles()) {
		s.Settled = true
	}
	s.Leader = s.leader(now)
	s.Well = s.Well && s.Leading()
	return s, effects(s.Self, before, s.Leader)
}

func effects(self, before, after cluster.HostID) []Effect {
	if before == after {
		return nil
	}
	var out []Effect
	if before == self {
		out = append(out, Effect{Kind: StopLeading})
	}
	out = append(out, Effect{Kind: LeaderChanged, Leader: after})
	if after == self {
		out = append(out, Effect{Kind: StartLeading})
	}
	return out
}

func (e Heard) apply(s *State, now time.Time) {
	p := e.Ping
	if p.Host == "" || p.Host == s.Self {
		return
	}
	peer := Peer{Host: p.Host, Heard: now, Leader: p.Leader, Unfit: p.Unfit, Leaving: p.Leaving, Fence: p.Promised, Well: p.LeadsWell}
	i, ok := s.find(p.Host)
	if ok {
		s.Peers[i] = peer
		return
	}
	s.Peers = slices.Insert(s.Peers, i, peer)
}

func (e Seeds) apply(s *State, _ time.Time) { s.Missing = e.Missing }
func (e Fit) apply(s *State, _ time.Time)   { s.Unfit = e.Unfit }
func (e Stands) apply(s *State, _ time.Time) {
	s.Fence, s.Well = e.Fence, e.Well && s.Leading()
}
func (Leave) apply(s *State, _ time.Time) { s.Leaving = true }
func (Tick) apply(*State, time.Time)      {}

// expire forgets when silent peers were heard, so that Next does not name
// times that have passed. That they exist is kept.
func (s *State) expire(now time.Time) {
	for i := range s.Peers {
		if !s.Peers[i].live(now) {
			s.Peers[i].Heard = time.Time{}
		}
	}
}

// stand is one host that could lead, as far as this view knows.
type stand struct {
	host     cluster.HostID
	unfit    string
	settling bool
	leads    bool          // it says of itself that it leads
	followed bool          // another one in sight names it
	well     bool          // it leads, and its last look found a quorum
	fence    cluster.Fence // the one by which it leads; zero: none is known
}

// leader applies the rule to the hosts in sight.
func (s *State) leader(now time.Time) cluster.HostID {
	if !s.Settled {
		return ""
	}
	in := s.standing(now)
	for _, excuse := range excuses {
		fit := only(in, func(c stand) bool { return c.unfit == excuse })
		if len(fit) == 0 {
			continue
		}
		if i := incumbent(fit); i >= 0 {
			return fit[i].host
		}
		if fit[0].settling {
			if i := slices.IndexFunc(fit, func(c stand) bool { return c.leads }); i >= 0 {
				return fit[i].host
			}
		}
		return fit[0].host
	}
	return ""
}

// incumbent is who goes on, of those that lead already; -1: nobody does. One
// that leads without a quorum in sight, and that nobody follows, is none: it led
// itself while it was cut off. Of two, as after a cut that has healed, the one
// that sees a quorum goes on, and then the one with the higher fence, as the
// hosts refuse the other one.
func incumbent(fit []stand) int {
	best := -1
	for i, c := range fit {
		if !c.leads || !c.well && !c.followed {
			continue
		}
		if best < 0 || c.well && !fit[best].well || c.well == fit[best].well && fit[best].fence.Less(c.fence) {
			best = i
		}
	}
	return best
}

// standing lists this host and its live peers that do not leave, lowest first.
func (s *State) standing(now time.Time) []stand {
	var out []stand
	add := func(c stand, promised cluster.Fence) {
		if promised.Host == c.host { // else it promised another's, and leads by none yet
			c.fence = promised
		}
		// Who promised it obeys it, whomever it names: a daemon of an earlier release
		// takes the lead by its ID alone.
		c.followed = c.host != s.Self && (s.Leader == c.host || s.Fence.Host == c.host) || slices.ContainsFunc(s.Peers, func(p Peer) bool {
			return p.Host != c.host && (p.Leader == c.host || p.Fence.Host == c.host) && p.live(now)
		})
		out = append(out, c)
	}
	self := func() {
		if !s.Leaving {
			add(stand{host: s.Self, unfit: s.Unfit, leads: s.Leading(), well: s.Well}, s.Fence)
		}
	}
	told := false
	for _, p := range s.Peers {
		if !told && p.Host > s.Self {
			self()
			told = true
		}
		if p.live(now) && !p.Leaving {
			// A fit host that has settled always names somebody, itself at least.
			add(stand{host: p.Host, unfit: p.Unfit, settling: p.Leader == "", leads: p.Leader == p.Host, well: p.Well}, p.Fence)
		}
	}
	if !told {
		self()
	}
	return out
}

func only(in []stand, keep func(stand) bool) []stand {
	var out []stand
	for _, c := range in {
		if keep(c) {
			out = append(out, c)
		}
	}
	return out
}
