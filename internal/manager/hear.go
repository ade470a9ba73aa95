package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/host/record"
)

// maxSkew is the difference between two clocks that a person is told of.
const maxSkew = 10 * time.Second

// ErrNotOurs is returned for a ping that is not from another daemon of this
// cluster.
var ErrNotOurs = errors.New("the ping is not from another daemon of this cluster")

// peerState is another daemon, as it was heard last.
type peerState struct {
	contact  cluster.Contact
	heard    time.Time
	last     cluster.Ping
	skew     time.Duration
	silent   bool      // it has not been heard for so long that it does not count as live
	answered time.Time // when it answered a call of this daemon's own last
	told     bool      // it has said what it remembers of this host, be it nothing
	// disputed is when another endpoint spoke for this host last while the
	// first was live, which is the other one of two.
	disputed time.Time
	other    string
	proved   time.Time // when the other one was heard again, so that it did not just move
	two      bool      // there were two of them at the last round
}

// known is a peer in a moment.
type known struct {
	contact cluster.Contact
	live    bool
	heard   time.Time
	skew    time.Duration
	other   string // the endpoint of a second daemon under the same host ID; empty: none
}

// disputedFor is how long a host is left alone after two endpoints spoke for
// it: longer than the former of them can count as live after it is gone.
const disputedFor = election.PeerTimeout + 2*time.Second

// twin is the endpoint of a second daemon under the same host ID; empty: none.
func (p *peerState) twin(now time.Time) string {
	if p.disputed.IsZero() || now.Sub(p.disputed) >= disputedFor {
		return ""
	}
	return p.other
}

// Ping takes in a ping from another daemon and answers with this one's.
func (m *Manager) Ping(_ context.Context, p cluster.Ping) (cluster.Ping, error) {
	if p.Cluster != m.o.ClusterName || p.Host == "" || p.Host == m.self && !m.echo(p) {
		return cluster.Ping{}, fmt.Errorf("answer ping of host %q of cluster %q: %w", p.Host, p.Cluster, ErrNotOurs)
	}
	m.hear(p)
	m.pinged(p)
	return m.say(p.Host, p.Disk), nil
}

// hear takes in what another daemon says, asked or not.
func (m *Manager) hear(p cluster.Ping) {
	if p.Cluster != m.o.ClusterName || p.Host == "" {
		return
	}
	if p.Host == m.self {
		return
	}
	m.o.Local.Remember([]cluster.Ping{p})
	own := m.o.Local.Identity().Disk
	m.mu.Lock()
	defer m.mu.Unlock()
	q, ok := m.peers[p.Host]
	if !ok {
		q = &peerState{}
		m.peers[p.Host] = q
	}
	was, now := q.last, time.Now()
	fresh := !ok || !m.election.Live(p.Host, now)
	if ok && !fresh && q.contact.Endpoint != p.Endpoint {
		if q.twin(now) == p.Endpoint {
			q.proved = now
		}
		q.disputed, q.other = now, q.contact.Endpoint
	}
	q.contact, q.heard, q.last = cluster.Contact{Host: p.Host, Endpoint: p.Endpoint}, now, p
	q.last.View = nil
	// It did not know whom it talked to, or with which disk.
	if p.RememberedDisk == "" || p.RememberedDisk != own && was.RememberedDisk == own {
		q.last.RememberedDisk, q.last.Remembered = was.RememberedDisk, was.Remembered
	}
	m.topFence = higher(m.topFence, p.Promised)
	m.learnLocked(p.Endpoint, p.Host, false)
	m.lookForTwinLocked(p.View, now)
	for _, c := range p.View {
		if _, known := m.peers[c.Host]; !known {
			m.learnLocked(c.Endpoint, c.Host, false)
		}
	}
	if other := q.twin(now); other != "" && p.Unfit == "" {
		p.Unfit = "two daemons have its host ID" // whichever of them this is
	}
	m.stepLocked(election.Heard{Ping: p})
	if fresh {
		m.quick = now.Add(quickFor)
	}
	// What happened over there is looked at now; a daemon that started anew
	// counts from the beginning, and is another reason to look.
	if m.election.Leading() && (fresh || p.Changes != was.Changes || p.Disk != was.Disk || p.Leaving != was.Leaving) {
		poke(m.wake)
	}
	m.ringLocked()
}

// ringLocked tells who waits that something was heard.
func (m *Manager) ringLocked() {
	close(m.heard)
	m.heard = make(chan struct{})
}

// echo tells this daemon's own ping, which it hears when discovery names it
// under another address, from that of a second daemon under its name. That one
// may have a copy of the disk, but it says that it is reached elsewhere.
func (m *Manager) echo(p cluster.Ping) bool {
	own := m.o.Local.Identity().Disk
	if (p.Endpoint == "" || p.Endpoint == m.o.Contact.Endpoint) && (own == "" || p.Disk == "" || p.Disk == own) {
		return true
	}
	m.mu.Lock()
	m.twinLocked(p.Endpoint)
	m.mu.Unlock()
	return false
}

// twinLocked notes that another daemon has this host's ID. Neither of the two
// leads: their fences would be of one host.
func (m *Manager) twinLocked(endpoint string) {
	fresh := m.twin.IsZero() || time.Since(m.twin) >= disputedFor
	m.twin, m.twinAt = time.Now(), endpoint
	if fresh {
		m.log.Warn("another daemon has this host's ID; give each host an ID and a data directory of its own, none of them copied", "here", m.o.Contact.Endpoint, "there", endpoint)
		poke(m.pingNow) // to be judged
	}
}

// twinSettle is how long others may still name an earlier address of this host,
// and no later one.
const twinSettle = 10 * time.Second

// lookForTwinLocked looks whether another daemon, which names who it has heard
// from, has heard from two that say that they are this host.
func (m *Manager) lookForTwinLocked(view []cluster.Contact, now time.Time) {
	own, other := false, ""
	for _, c := range view {
		switch {
		case c.Host != m.self:
		case c.Endpoint == m.o.Contact.Endpoint:
			own = true
		default:
			other = c.Endpoint
		}
	}
	if other != "" && (own || now.Sub(m.election.Started) >= twinSettle) {
		m.twinLocked(other)
	}
}

// known lists the peers, sorted.
func (m *Manager) known() []known {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	out := make([]known, 0, len(m.peers))
	for id, p := range m.peers {
		out = append(out, known{contact: p.contact, live: m.election.Live(id, now), heard: p.heard, skew: p.skew, other: p.twin(now)})
	}
	slices.SortFunc(out, func(a, b known) int { return cmp.Compare(a.contact.Host, b.contact.Host) })
	return out
}

// skew compares a peer's clock with this host's. The answer was written at
// some time of the round trip, so half of it is the error of the comparison.
func (m *Manager) skew(p cluster.Ping, sent time.Time, trip time.Duration) {
	if p.Clock.IsZero() || p.Host == m.self {
		return
	}
	d := p.Clock.Sub(sent.Round(0).Add(trip / 2))
	m.mu.Lock()
	if q := m.peers[p.Host]; q != nil {
		q.skew = d
	}
	m.mu.Unlock()
	var err error
	if d.Abs()-trip/2 > maxSkew {
		err = fmt.Errorf("the clocks of host %s and host %s are more than %s apart; set them by NTP", p.Host, m.self, maxSkew)
	}
	m.sayOnce("clock "+string(p.Host), "clocks differ: leases, certificates and backup times rely on them", err)
}

// AskPeers collects what the other daemons remember of this host, until ctx
// ends or all have told: every seed, every host that this one remembers, and
// whoever else was heard. It is what a host asks before it starts its member
// for the first time after a boot (SAFETY.md, rule 9). That a daemon was heard
// is not enough: its ping need not have known whom it reached.
func (m *Manager) AskPeers(ctx context.Context) []cluster.Ping {
	remembered := m.o.Local.Peers()
	for _, p := range remembered { // the state was read only now
		m.learn(p.Address, p.Host, false)
	}
	for {
		out, heard, all := m.toldBy(remembered)
		if all {
			return out
		}
		select {
		case <-ctx.Done():
			return out
		case <-heard:
		}
	}
}

// toldBy is what the other daemons said last, whether that is all there is to
// wait for, and otherwise what tells that another one was heard.
func (m *Manager) toldBy(remembered []record.Peer) (out []cluster.Ping, heard <-chan struct{}, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = m.election.Missing == 0
	for _, p := range m.peers {
		out = append(out, p.last)
		all = all && p.told
	}
	for _, p := range remembered {
		all = all && (p.Host == m.self || m.peers[p.Host] != nil)
	}
	slices.SortFunc(out, func(a, b cluster.Ping) int { return cmp.Compare(a.Host, b.Host) })
	return out, m.heard, all
}
