package manager

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/wake"
)

const (
	// quickFor is how long pings come quickly after a start or a change.
	quickFor = 3 * time.Second
	// silentAfter is when a target that does not answer is asked seldom, and
	// one that nobody names any more is dropped.
	silentAfter = 30 * time.Second
	// deafAfter is how late a round of pings may be before its daemon counts as deaf.
	deafAfter = time.Second
	// maxTargets bounds what others' views can make this daemon talk to.
	maxTargets = 128
)

// target is an endpoint that is pinged.
type target struct {
	endpoint string
	host     cluster.HostID // who answered there last, or is said to; may be empty
	seed     bool           // discovery names it
	answered bool
	since    time.Time // of the last answer, or of the first ping
	due      time.Time
	end      context.CancelFunc // of the ping under way; nil before it begins
	mine     bool               // the last ping was this daemon's, not the other's
	asked    time.Time          // when this daemon pinged it last
	busy     bool               // a ping is under way
	again    bool               // it was hastened while busy
	refusal  refusal            // why it does not talk with this daemon, if it runs
	refused  string             // the hint of the refusal that was logged last; empty once a ping of this daemon's own was no refusal
}

// gossip pings every daemon that is known of until ctx ends.
func (g *Gossip) gossip(ctx context.Context) {
	var pings sync.WaitGroup
	defer pings.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
			wake.Ready(g.pingNow) // one round is for both
		case <-g.pingNow:
		}
		if ctx.Err() != nil {
			return
		}
		g.Judge()
		due, pause := g.round()
		for _, t := range due {
			pings.Go(func() { g.ping(ctx, t) })
		}
		timer.Reset(pause)
	}
}

// round lets time pass for the election, and returns the targets that are due,
// marked busy, and how long until something is due again.
func (g *Gossip) round() (due []*target, pause time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stepLocked(election.Tick{})
	g.countSeedsLocked()
	now := time.Now()
	if g.hearing.late(now) {
		g.hearing.deaf = now.Add(g.Intervals.Silent)
	}
	defer func() { g.hearing.roundDue = now.Add(pause) }()
	g.noticeSilenceLocked(now)
	pause = 2 * g.Intervals.Idle // a ping is due, or comes, well before
	beat := false
	for endpoint, t := range g.targets {
		if g.forgottenLocked(t, now) {
			delete(g.targets, endpoint)
			continue
		}
		beat = beat || !t.busy && !t.due.After(now)
	}
	if beat {
		g.inStepLocked(now)
	}
	for _, t := range g.targets {
		if !t.busy && !t.due.After(now) {
			t.busy, t.again, t.due = true, false, now.Add(g.cadenceLocked(t, now))
			t.mine, t.asked = true, now
			due = append(due, t)
		}
		if t.due.After(now) { // one that is busy and due again is seen to when its ping ends
			pause = min(pause, t.due.Sub(now))
		}
		if t.busy {
			pause = min(pause, g.boundLocked(t, now))
		}
	}
	slices.SortFunc(due, func(a, b *target) int { return cmp.Compare(a.endpoint, b.endpoint) })
	if next := g.election.Next(); !next.IsZero() {
		pause = min(pause, next.Sub(now))
	}
	return due, max(pause, time.Millisecond)
}

// hearing is whether this daemon listens: it may have been stopped, or so busy that it
// pinged nobody.
type hearing struct {
	roundDue time.Time // when the next round of pings is due
	deaf     time.Time // until when silence says nothing, since nobody listened
}

// late: a round of pings should have been made a while ago.
func (h hearing) late(now time.Time) bool {
	return !h.roundDue.IsZero() && cluster.Age(h.roundDue, now) > deafAfter
}

// gone: this daemon did not listen until a moment ago. What it has not heard since says
// nothing about the others.
func (h hearing) gone(now time.Time) bool { return now.Before(h.deaf) || h.late(now) }

func (g *Gossip) Deaf() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hearing.gone(time.Now())
}

// noticeSilenceLocked wakes the leader's loop when a daemon has just stopped
// counting as live, or a host as one that two daemons say they are: what is a
// gap has changed.
func (g *Gossip) noticeSilenceLocked(now time.Time) {
	for id, p := range g.peers {
		silent, two := !g.election.Live(id, now), p.twin(now) != ""
		if silent && !p.silent || two != p.two {
			g.Wake()
		}
		p.silent, p.two = silent, two
	}
}

func (g *Gossip) cadenceLocked(t *target, now time.Time) time.Duration {
	p, known := g.peers[t.host]
	alias := known && p.contact.Endpoint != t.endpoint && g.election.Live(t.host, now)
	switch {
	case alias || t.host == g.self || !t.since.IsZero() && now.Sub(t.since) > silentAfter:
		return g.Intervals.Silent
	case now.Before(g.quick):
		return g.Intervals.Quick
	}
	return g.Intervals.Idle
}

// forgottenLocked reports whether a target is silent and nobody names it.
func (g *Gossip) forgottenLocked(t *target, now time.Time) bool {
	if t.seed || t.busy || t.since.IsZero() || now.Sub(t.since) <= silentAfter {
		return false
	}
	p, ok := g.peers[t.host]
	return t.host != "" && (!ok || p.contact.Endpoint != t.endpoint) || t.host == "" && now.Sub(t.since) > 10*silentAfter
}

// ping exchanges one ping with a target.
func (g *Gossip) ping(ctx context.Context, t *target) {
	ctx, cancel := context.WithCancel(ctx) // at its bound a round ends it
	defer cancel()
	g.mu.Lock()
	to, endpoint := t.host, t.endpoint
	if t.since.IsZero() {
		t.since = time.Now()
	}
	t.end = cancel
	g.mu.Unlock()
	mine := g.say(to, "")
	sent := time.Now()
	reply, err := g.Network.Ping(ctx, endpoint, mine)
	trip := time.Since(sent)
	if err == nil {
		g.skew(reply, sent, trip)
	}
	if err == nil || reply.Refused != "" {
		g.doubles.told(endpoint, reply.Elsewhere, time.Now())
		g.hear(reply)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.busy, t.end = false, nil
	switch {
	case err == nil:
		t.answered, t.since, t.host = true, time.Now(), reply.Host
		g.toldOfLocked(reply.Left, t.since)
		g.countSeedsLocked()
		g.answeredLocked(t, reply, t.since)
	case reply.Refused != "": // it is there, and what it remembers of this disk is told in time only if it is asked as the others are
		t.since = time.Now()
	}
	g.refusedLocked(t, err)
	if err != nil && t.host != "" && g.election.Live(t.host, time.Now()) {
		// One lost ping is no silence: ask again before it counts as one.
		if soon := time.Now().Add(g.Intervals.Quick); soon.Before(t.due) {
			t.due = soon
		}
	}
	if t.again {
		t.due = time.Now()
	}
	wake.Up(g.pingNow) // it is due at another time now, and has no bound any more
}

// pinged notes that another daemon has just talked to this one: both know what
// they would learn by a ping the other way, so that one is put off. Who of the
// two pings is settled by chance, and by their IDs when they ping at once.
func (g *Gossip) pinged(p cluster.Ping) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.targets[p.Endpoint]
	if t == nil || t.host != "" && t.host != p.Host {
		return
	}
	now := time.Now()
	t.answered, t.since, t.host, t.refusal = true, now, p.Host, refusal{}
	g.countSeedsLocked()
	if q := g.peers[p.Host]; q == nil || !q.told {
		return // an answer says more: what is remembered of this host
	}
	t.mine = false
	g.inStepLocked(now)
	wake.Up(g.pingNow)
	if t.calledAgain(now) {
		t.due = now
		return
	}
	put := g.cadenceLocked(t, now)
	if g.self < p.Host {
		put += put / 4
	} else {
		put += put / 4 * 3
	}
	if due := now.Add(put); !t.again && t.due.Before(due) {
		t.due = due
	}
}

// say is what this daemon tells another one: of the disk that it has shown, or
// of the one that it had last.
func (g *Gossip) say(to cluster.HostID, disk cluster.DiskID) cluster.Ping {
	id := g.Local.Identity()
	p := cluster.Ping{
		Cluster: g.ClusterName, Host: g.self, Endpoint: g.Contact.Endpoint, Disk: id.Disk, Epoch: id.Epoch,
		Generation: id.Generation, Promised: id.Promised, Changes: id.Changes, Place: g.Place, Asks: id.Asks, Clock: time.Now().UTC().Round(0),
	}
	if to != "" {
		p.RememberedDisk, p.Remembered = g.Local.Remembered(to, disk)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.election.Stand(&p)
	p.Store = g.sight
	now := time.Now()
	p.Reaches = g.reachesLocked(now)
	for _, q := range g.peers {
		if g.election.Live(q.contact.Host, now) {
			p.View = append(p.View, q.contact)
			if other := q.twin(now); other != "" && now.Sub(q.proved) < disputedFor { // so that both of the two hear of it
				p.View = append(p.View, cluster.Contact{Host: q.contact.Host, Endpoint: other})
			}
		}
	}
	slices.SortFunc(p.View, func(a, b cluster.Contact) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return p
}

// hasten pings one host at once.
func (g *Gossip) hasten(h cluster.HostID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.peers[h]
	if !ok {
		return
	}
	if t := g.targets[p.contact.Endpoint]; t != nil {
		t.due, t.again = time.Now(), true
		wake.Up(g.pingNow)
	}
}

// hastenSilent pings at once whoever has not told yet what it remembers of this host.
func hastenSilent(g *Gossip) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.targets {
		if q := g.peers[t.host]; q == nil || !q.told {
			t.due = time.Now()
		}
	}
	wake.Up(g.pingNow)
}

// learn takes in an endpoint that somebody named.
func (g *Gossip) learn(endpoint string, h cluster.HostID, seed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learnLocked(endpoint, h, seed)
}

func (g *Gossip) learnLocked(endpoint string, h cluster.HostID, seed bool) {
	if endpoint == "" || endpoint == g.Contact.Endpoint || h == g.self {
		return
	}
	t, ok := g.targets[endpoint]
	if !ok {
		if len(g.targets) >= maxTargets && !seed {
			return
		}
		t = &target{endpoint: endpoint}
		g.targets[endpoint] = t
		wake.Up(g.pingNow)
	}
	t.seed = t.seed || seed
	t.host = cmp.Or(t.host, h)
}

// Leave hands leadership over, and tells everybody who listens.
func (g *Gossip) Leave(ctx context.Context) {
	g.mu.Lock()
	g.stepLocked(election.Leave{})
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, g.Intervals.PingTimeout)
	defer cancel()
	var pings sync.WaitGroup
	for _, p := range g.Known() {
		if p.live {
			pings.Go(func() {
				_, _ = g.Network.Ping(ctx, p.contact.Endpoint, g.say(p.contact.Host, "")) // who does not hear it will miss us
			})
		}
	}
	pings.Wait()
}
