package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/wake"
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
	// left is when each endpoint was last spoken at before another one spoke for this host while that counted as live: other is the
	// last of them, and disputed when they last might be two.
	left     map[string]time.Time
	other    string
	disputed time.Time
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

// movesTo notes that another endpoint speaks for the host while the one before counts as live. They are two daemons, unless the other
// one has the lock that the one before had, as where a pod is made anew on its machine; and they are where one that was left speaks
// again.
func (p *peerState) movesTo(to cluster.Ping, now time.Time) {
	maps.DeleteFunc(p.left, func(_ string, at time.Time) bool { return now.Sub(at) >= disputedFor })
	_, back := p.left[to.Endpoint]
	if back {
		p.proved = now
	}
	if back || to.Place == "" || to.Place != p.last.Place {
		p.disputed = now
	}
	if p.left == nil {
		p.left = map[string]time.Time{}
	}
	p.other = p.contact.Endpoint
	p.left[p.other] = now
}

// Ping takes in a ping from another daemon and answers with this one's.
func (g *Gossip) Ping(_ context.Context, p cluster.Ping) (cluster.Ping, error) {
	if answer, is := twinsWord(g, p); is && p.Cluster == g.ClusterName && p.Host == g.self {
		return answer, nil
	}
	if p.Cluster != g.ClusterName || p.Host == "" || p.Host == g.self && !g.echo(p) {
		return cluster.Ping{}, fmt.Errorf("answer ping of host %q of cluster %q: %w", p.Host, p.Cluster, ErrNotOurs)
	}
	beside := g.doubles.beside(p, time.Now())
	g.hear(p)
	if p.Refused == "" {
		g.pinged(p)
	}
	answer := g.say(p.Host, p.Disk)
	answer.Elsewhere = beside
	if p.Asks {
		answer.Left = g.leftBy()
	}
	return answer, nil
}

// twinsWord answers a daemon that asks under this host's own ID; false: it is this one, or does not ask, or this one has not
// settled either.
func twinsWord(g *Gossip, p cluster.Ping) (cluster.Ping, bool) {
	if !p.Asks || p.Place == "" || p.Place == g.Place || g.Local.Identity().Asks {
		return cluster.Ping{}, false
	}
	answer := g.say("", "")
	answer.Elsewhere = &cluster.Elsewhere{Endpoint: g.Contact.Endpoint}
	return answer, true
}

// hear takes in what another daemon says, asked or not.
func (g *Gossip) hear(p cluster.Ping) {
	if p.Cluster != g.ClusterName || p.Host == "" {
		return
	}
	if p.Host == g.self || !g.doubles.hear(p, time.Now()) {
		return
	}
	g.Local.Remember([]cluster.Ping{p})
	if p.Refused != "" {
		return
	}
	own := g.Local.Identity().Disk
	g.mu.Lock()
	defer g.mu.Unlock()
	q, ok := g.peers[p.Host]
	if !ok {
		q = &peerState{}
		g.peers[p.Host] = q
	}
	was, now := q.last, time.Now()
	fresh := !ok || !g.election.Live(p.Host, now)
	moved := ok && q.contact.Endpoint != p.Endpoint
	if moved && !fresh {
		q.movesTo(p, now)
	}
	q.contact, q.heard, q.last = cluster.Contact{Host: p.Host, Endpoint: p.Endpoint}, now, p
	q.last.View = nil
	// It did not know whom it talked to, or with which disk.
	if p.RememberedDisk == "" || p.RememberedDisk != own && was.RememberedDisk == own {
		q.last.RememberedDisk, q.last.Remembered = was.RememberedDisk, was.Remembered
	}
	g.topFence = higher(g.topFence, p.Promised)
	g.learnLocked(p.Endpoint, p.Host, false)
	if other := twinIn(p.View, g.Contact, now.Sub(g.election.Started) >= twinSettle); other != "" {
		g.twinLocked(other)
	}
	for _, c := range p.View {
		if _, known := g.peers[c.Host]; !known {
			g.learnLocked(c.Endpoint, c.Host, false)
		}
	}
	if other := q.twin(now); other != "" && p.Unfit == "" {
		p.Unfit = "two daemons have its host ID" // whichever of them this is
	}
	g.stepLocked(election.Heard{Ping: p})
	if fresh {
		g.quick = now.Add(quickFor)
	}
	// What happened over there is looked at now; a daemon that started anew
	// counts from the beginning, and is another reason to look.
	if g.election.Leading() && (fresh || moved && q.twin(now) == "" || p.Changes != was.Changes || p.Disk != was.Disk || p.Leaving != was.Leaving) {
		g.Wake()
	}
	g.ringLocked()
}

// ringLocked tells who waits that something was heard.
func (g *Gossip) ringLocked() {
	close(g.heard)
	g.heard = make(chan struct{})
}

// echo tells this daemon's own ping, which it hears when discovery names it
// under another address, from that of a second daemon under its name. That one
// may have a copy of the disk, but it says that it is reached elsewhere.
func (g *Gossip) echo(p cluster.Ping) bool {
	own := g.Local.Identity().Disk
	if (p.Endpoint == "" || p.Endpoint == g.Contact.Endpoint) && (own == "" || p.Disk == "" || p.Disk == own) {
		return true
	}
	g.mu.Lock()
	g.twinLocked(p.Endpoint)
	g.mu.Unlock()
	return false
}

// twin is another daemon under this host's ID, as it was noticed last.
type twin struct {
	at       time.Time
	endpoint string
}

// disputes: it was noticed so lately that this host's name is not its own.
func (t twin) disputes(now time.Time) bool { return !t.at.IsZero() && now.Sub(t.at) < disputedFor }

// twinLocked notes that another daemon has this host's ID. Neither of the two
// leads: their fences would be of one host.
func (g *Gossip) twinLocked(endpoint string) {
	fresh := !g.twin.disputes(time.Now())
	g.twin = twin{time.Now(), endpoint}
	if fresh {
		g.Log.Warn("another daemon has this host's ID; give each host an ID and a data directory of its own, none of them copied", "here", g.Contact.Endpoint, "there", endpoint)
		wake.Up(g.pingNow) // to be judged
	}
}

// twinSettle is how long others may still name an earlier address of this host,
// and no later one.
const twinSettle = 10 * time.Second

// twinIn is the endpoint of a second daemon under this host's ID that another daemon names
// among those that it has heard; empty: it names none. settled: nobody has an earlier address
// of this host any more.
func twinIn(view []cluster.Contact, here cluster.Contact, settled bool) string {
	own, other := false, ""
	for _, c := range view {
		switch {
		case c.Host != here.Host:
		case c.Endpoint == here.Endpoint:
			own = true
		default:
			other = c.Endpoint
		}
	}
	if own || settled {
		return other
	}
	return ""
}

// Known lists the peers, sorted.
func (g *Gossip) Known() []known {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	out := make([]known, 0, len(g.peers))
	for id, p := range g.peers {
		out = append(out, known{contact: p.contact, live: g.election.Live(id, now), heard: p.heard, skew: p.skew, other: p.twin(now)})
	}
	slices.SortFunc(out, func(a, b known) int { return cmp.Compare(a.contact.Host, b.contact.Host) })
	return out
}

// skew compares a peer's clock with this host's. The answer was written at
// some time of the round trip, so half of it is the error of the comparison.
func (g *Gossip) skew(p cluster.Ping, sent time.Time, trip time.Duration) {
	if p.Clock.IsZero() || p.Host == g.self {
		return
	}
	d := p.Clock.Sub(sent.Round(0).Add(trip / 2))
	g.mu.Lock()
	if q := g.peers[p.Host]; q != nil {
		q.skew = d
	}
	g.mu.Unlock()
	var err error
	if d.Abs()-trip/2 > maxSkew {
		err = fmt.Errorf("the clocks of host %s and host %s are more than %s apart; set them by NTP", p.Host, g.self, maxSkew)
	}
	g.Say("clock "+string(p.Host), "clocks differ: leases, certificates and backup times rely on them", err)
}

// AskPeers collects what the other daemons remember of this host, until ctx
// ends or all have told: every seed, every host that this one remembers, each of
// those that it knows to carry members, and whoever else was heard: a young disk
// has no address of others, and waits for their pings. It is what a host asks before it starts its member
// for the first time after a boot (SAFETY.md, rule 9). That a daemon was heard
// is not enough: its ping need not have known whom it reached.
func (g *Gossip) AskPeers(ctx context.Context, of []cluster.HostID) []cluster.Ping {
	of = slices.Clone(of)
	for _, p := range g.Local.Peers() { // the state was read only now
		g.learn(p.Address, p.Host, false)
		of = append(of, p.Host)
	}
	hastenSilent(g)
	for {
		out, heard, all := g.toldBy(of)
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
func (g *Gossip) toldBy(of []cluster.HostID) (out []cluster.Ping, heard <-chan struct{}, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all = g.election.Missing == 0
	for _, p := range g.peers {
		out = append(out, p.last)
		all = all && p.told
	}
	for _, h := range of {
		all = all && (h == g.self || g.peers[h] != nil)
	}
	slices.SortFunc(out, func(a, b cluster.Ping) int { return cmp.Compare(a.Host, b.Host) })
	return out, g.heard, all
}
