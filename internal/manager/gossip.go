package manager

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/discovery"
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
func (m *Manager) gossip(ctx context.Context) {
	var pings sync.WaitGroup
	defer pings.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
			ready(m.pingNow) // one round is for both
		case <-m.pingNow:
		}
		if ctx.Err() != nil {
			return
		}
		m.judgeFitness()
		due, pause := m.round()
		for _, t := range due {
			pings.Go(func() { m.ping(ctx, t) })
		}
		timer.Reset(pause)
	}
}

// round lets time pass for the election, and returns the targets that are due,
// marked busy, and how long until something is due again.
func (m *Manager) round() (due []*target, pause time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stepLocked(election.Tick{})
	now := time.Now()
	if m.lateLocked(now) {
		m.deaf = now.Add(m.o.Intervals.Silent)
	}
	defer func() { m.roundDue = now.Add(pause) }()
	m.noticeSilenceLocked(now)
	pause = 2 * m.o.Intervals.Idle // a ping is due, or comes, well before
	beat := false
	for endpoint, t := range m.targets {
		if m.forgottenLocked(t, now) {
			delete(m.targets, endpoint)
			continue
		}
		beat = beat || !t.busy && !t.due.After(now)
	}
	if beat {
		m.inStepLocked(now)
	}
	for _, t := range m.targets {
		if !t.busy && !t.due.After(now) {
			t.busy, t.again, t.due = true, false, now.Add(m.cadenceLocked(t, now))
			t.mine, t.asked = true, now
			due = append(due, t)
		}
		if t.due.After(now) { // one that is busy and due again is seen to when its ping ends
			pause = min(pause, t.due.Sub(now))
		}
		if t.busy {
			pause = min(pause, m.boundLocked(t, now))
		}
	}
	slices.SortFunc(due, func(a, b *target) int { return cmp.Compare(a.endpoint, b.endpoint) })
	if next := m.election.Next(); !next.IsZero() {
		pause = min(pause, next.Sub(now))
	}
	return due, max(pause, time.Millisecond)
}

// deafLocked: this daemon was stopped, or so busy that it pinged nobody, until a moment ago.
// What it has not heard since says nothing about the others.
func (m *Manager) deafLocked(now time.Time) bool {
	return now.Before(m.deaf) || m.lateLocked(now)
}

// lateLocked: a round of pings should have been made a while ago.
func (m *Manager) lateLocked(now time.Time) bool {
	return !m.roundDue.IsZero() && cluster.Age(m.roundDue, now) > deafAfter
}

func (m *Manager) isDeaf() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deafLocked(time.Now())
}

// noticeSilenceLocked wakes the leader's loop when a daemon has just stopped
// counting as live, or a host as one that two daemons say they are: what is a
// gap has changed.
func (m *Manager) noticeSilenceLocked(now time.Time) {
	for id, p := range m.peers {
		silent, two := !m.election.Live(id, now), p.twin(now) != ""
		if silent && !p.silent || two != p.two {
			poke(m.wake)
		}
		p.silent, p.two = silent, two
	}
}

func (m *Manager) cadenceLocked(t *target, now time.Time) time.Duration {
	p, known := m.peers[t.host]
	alias := known && p.contact.Endpoint != t.endpoint && m.election.Live(t.host, now)
	switch {
	case alias || t.host == m.self || !t.since.IsZero() && now.Sub(t.since) > silentAfter:
		return m.o.Intervals.Silent
	case now.Before(m.quick):
		return m.o.Intervals.Quick
	}
	return m.o.Intervals.Idle
}

// forgottenLocked reports whether a target is silent and nobody names it.
func (m *Manager) forgottenLocked(t *target, now time.Time) bool {
	if t.seed || t.busy || t.since.IsZero() || now.Sub(t.since) <= silentAfter {
		return false
	}
	p, ok := m.peers[t.host]
	return t.host != "" && (!ok || p.contact.Endpoint != t.endpoint) || t.host == "" && now.Sub(t.since) > 10*silentAfter
}

// ping exchanges one ping with a target.
func (m *Manager) ping(ctx context.Context, t *target) {
	ctx, cancel := context.WithCancel(ctx) // at its bound a round ends it
	defer cancel()
	m.mu.Lock()
	to, endpoint := t.host, t.endpoint
	if t.since.IsZero() {
		t.since = time.Now()
	}
	t.end = cancel
	m.mu.Unlock()
	mine := m.say(to, "")
	sent := time.Now()
	reply, err := m.o.Network.Ping(ctx, endpoint, mine)
	trip := time.Since(sent)
	if err == nil {
		m.skew(reply, sent, trip)
		m.hear(reply)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.busy, t.end = false, nil
	if err == nil {
		t.answered, t.since, t.host = true, time.Now(), reply.Host
		m.countSeedsLocked()
		m.toldLocked(reply)
		m.answeredLocked(t, reply, t.since)
	}
	m.refusedLocked(t, err)
	if err != nil && t.host != "" && m.election.Live(t.host, time.Now()) {
		// One lost ping is no silence: ask again before it counts as one.
		if soon := time.Now().Add(m.o.Intervals.Quick); soon.Before(t.due) {
			t.due = soon
		}
	}
	if t.again {
		t.due = time.Now()
	}
	poke(m.pingNow) // it is due at another time now, and has no bound any more
}

// toldLocked notes that a daemon has answered a ping of this host: an answer is
// for who asked, so it has what its daemon remembers of this host, unless that
// one has not read its own state yet.
func (m *Manager) toldLocked(reply cluster.Ping) {
	if q := m.peers[reply.Host]; q != nil && !q.told && reply.Disk != "" {
		q.told = true
		m.ringLocked()
	}
}

// pinged notes that another daemon has just talked to this one: both know what
// they would learn by a ping the other way, so that one is put off. Who of the
// two pings is settled by chance, and by their IDs when they ping at once.
func (m *Manager) pinged(p cluster.Ping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.targets[p.Endpoint]
	if t == nil || t.host != "" && t.host != p.Host {
		return
	}
	now := time.Now()
	t.answered, t.since, t.host, t.refusal = true, now, p.Host, refusal{}
	m.countSeedsLocked()
	if q := m.peers[p.Host]; q == nil || !q.told {
		return // an answer says more: what is remembered of this host
	}
	t.mine = false
	m.inStepLocked(now)
	poke(m.pingNow)
	if t.calledAgain(now) {
		t.due = now
		return
	}
	put := m.cadenceLocked(t, now)
	if m.self < p.Host {
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
func (m *Manager) say(to cluster.HostID, disk cluster.DiskID) cluster.Ping {
	id := m.o.Local.Identity()
	p := cluster.Ping{
		Cluster: m.o.ClusterName, Host: m.self, Endpoint: m.o.Contact.Endpoint, Disk: id.Disk, Beat: id.Beat,
		Generation: id.Generation, Promised: id.Promised, Changes: id.Changes, Clock: time.Now().UTC().Round(0),
	}
	if to != "" {
		p.RememberedDisk, p.Remembered = m.o.Local.Remembered(to, disk)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.election.Stand(&p)
	p.Store = m.sight
	now := time.Now()
	p.Reaches = m.reachesLocked(now)
	for _, q := range m.peers {
		if m.election.Live(q.contact.Host, now) {
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
func (m *Manager) hasten(h cluster.HostID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.peers[h]
	if !ok {
		return
	}
	if t := m.targets[p.contact.Endpoint]; t != nil {
		t.due, t.again = time.Now(), true
		poke(m.pingNow)
	}
}

func (m *Manager) hastenAllLocked(now time.Time) {
	for _, t := range m.targets {
		t.due, t.again = now, true
	}
	poke(m.pingNow)
}

// learn takes in an endpoint that somebody named.
func (m *Manager) learn(endpoint string, h cluster.HostID, seed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnLocked(endpoint, h, seed)
}

func (m *Manager) learnLocked(endpoint string, h cluster.HostID, seed bool) {
	if endpoint == "" || endpoint == m.o.Contact.Endpoint || h == m.self {
		return
	}
	t, ok := m.targets[endpoint]
	if !ok {
		if len(m.targets) >= maxTargets && !seed {
			return
		}
		t = &target{endpoint: endpoint}
		m.targets[endpoint] = t
		poke(m.pingNow)
	}
	t.seed = t.seed || seed
	if t.host == "" {
		t.host = h
	}
}

// discover looks for seeds until ctx ends.
func (m *Manager) discover(ctx context.Context) {
	if m.o.Seeds == nil {
		m.seedsFound(nil)
		return
	}
	var changed <-chan struct{}
	if w, ok := m.o.Seeds.(discovery.Watcher); ok {
		changed = w.Watch(ctx)
	}
	began := time.Now()
	for {
		m.findSeeds(ctx)
		pause := m.o.Intervals.Discovery
		if time.Since(began) < pause {
			pause = min(pause, m.o.Intervals.Idle) // others are starting now as well
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

func (m *Manager) findSeeds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if a, ok := m.o.Seeds.(discovery.Announcer); ok {
		err := a.Announce(ctx, discovery.Seed{ID: string(m.self), Endpoint: m.o.Contact.Endpoint})
		m.sayOnce("announce", "cannot announce this host to others", err)
	}
	seeds, err := m.o.Seeds.Seeds(ctx)
	m.sayOnce("discovery", "cannot look for other daemons", err)
	m.seedsFound(seeds)
}

// discoveryTimeout bounds one look for seeds, all sources together, and the
// announcement before it.
const discoveryTimeout = 10 * time.Second

func (m *Manager) seedsFound(seeds []discovery.Seed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.targets {
		t.seed = false
	}
	for _, s := range seeds {
		m.learnLocked(s.Endpoint, cluster.HostID(s.ID), true)
	}
	m.seeded = true
	m.countSeedsLocked()
}

// countSeedsLocked tells the election how many seeds were not heard yet.
func (m *Manager) countSeedsLocked() {
	missing := election.Unheard
	if m.seeded {
		missing = 0
		for _, t := range m.targets {
			if t.seed && !t.answered {
				missing++
			}
		}
	}
	if missing != m.election.Missing {
		m.stepLocked(election.Seeds{Missing: missing})
		m.ringLocked()
	}
}

// leave hands leadership over, and tells everybody who listens.
func (m *Manager) leave(ctx context.Context) {
	m.step(election.Leave{})
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.PingTimeout)
	defer cancel()
	var pings sync.WaitGroup
	for _, p := range m.known() {
		if p.live {
			pings.Go(func() {
				_, _ = m.o.Network.Ping(ctx, p.contact.Endpoint, m.say(p.contact.Host, "")) // who does not hear it will miss us
			})
		}
	}
	pings.Wait()
}
