package manager

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/host/record"
)

const (
	// SightEvery is how often a daemon that does not lead looks at the store, so that
	// others know whether it could.
	SightEvery = 20 * time.Second
	// blindFor is how long a daemon's own sight is worse than another's before it
	// leaves the lead to that one: longer than the other's sight can be old, so that
	// a store which answers nobody ends no leadership (SAFETY.md, rule 6).
	blindFor = SightEvery + 10*time.Second
)

// gossipLocal is this machine, as far as others are told of it.
type gossipLocal interface {
	Identity() record.Identity
	// Changes receives a value after something happened that a leader should
	// look at. There is one receiver.
	Changes() <-chan struct{}
	Remember(pings []cluster.Ping)
	Remembered(id cluster.HostID, disk cluster.DiskID) (cluster.DiskID, uint64)
	Peers() []record.Peer
	// Rotation is the one of the authorities on record; nil: none ever was.
	Rotation() *cluster.Rotation
	// Forget drops what is remembered of a host that nothing counts on.
	Forget(id cluster.HostID) error
}

// gossipNetwork talks to whoever answers at an endpoint. A ping ends soon after its context.
type gossipNetwork interface {
	Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error) // one that is refused may have a beat beside the error
}

// GossipIntervals are how often and how long.
type GossipIntervals struct {
	Quick, Idle, Silent time.Duration // between pings
	Discovery           time.Duration // between looks for seeds
	PingTimeout         time.Duration
}

// GossipOptions are what a Gossip is made of.
type GossipOptions struct {
	Local       gossipLocal
	Contact     cluster.Contact // how others reach this daemon
	Place       string          // see [cluster.Ping]
	ClusterName string
	Network     gossipNetwork
	Seeds       discovery.Seeds // nil: others have to come to us
	// Named reports whether the static configuration names a host.
	Named     func(cluster.HostID) bool
	Wake      func() // the leader's loop is to look again
	Say       func(topic, what string, err error)
	Intervals GossipIntervals
	Log       *slog.Logger
}

// Gossip talks with the other daemons, and has them agree weakly on a leader. Its methods
// may be called from several goroutines at once.
type Gossip struct {
	GossipOptions
	self cluster.HostID

	pingNow chan struct{} // some target is due sooner than it was
	leads   chan struct{} // this host began to lead
	doubles *doubles

	mu       sync.Mutex // guards what follows; never held across a call outside
	election election.State
	stop     context.CancelFunc // ends this host's leadership; nil: it does not lead
	turned   chan struct{}      // closed and replaced when the leader changes
	heard    chan struct{}      // closed and replaced when a ping was heard
	peers    map[cluster.HostID]*peerState
	targets  map[string]*target
	left     map[string]leaver // by the endpoint
	seeded   bool              // discovery has answered once
	quick    time.Time
	hearing  hearing
	topFence cluster.Fence // the highest that was heard of
	lacking  bool          // this host's own store lacks the record that hosts keep
	twin     twin
	// sight is what was seen of the store last, told to others, and blindSince since
	// when another daemon has seen it better.
	sight      *cluster.StoreSight
	sightAt    time.Time
	blindSince time.Time
	// voters are the hosts that carry the cluster's voters, as far as is known, and
	// unansweredSince since when this daemon's calls reach no quorum of them.
	voters          []cluster.HostID
	unansweredSince time.Time
	// wellLed: the last look of this host's present leadership found a quorum, or
	// a cluster that is not founded yet, with nobody who refuses.
	wellLed bool
}

// NewGossip makes one that talks with nobody yet.
func NewGossip(o GossipOptions) *Gossip {
	g := &Gossip{
		GossipOptions: o, self: o.Contact.Host, pingNow: make(chan struct{}, 1), leads: make(chan struct{}, 1), doubles: newDoubles(),
		turned: make(chan struct{}), heard: make(chan struct{}), peers: map[cluster.HostID]*peerState{}, targets: map[string]*target{}, left: map[string]leaver{},
	}
	g.election = election.New(g.self, time.Now())
	return g
}

// Leads receives a value when this host begins to lead.
func (g *Gossip) Leads() chan struct{} { return g.leads }

// Leader names the leading host as seen from here, whether it is this one, and what is
// closed when that changes.
func (g *Gossip) Leader() (leader cluster.HostID, leading bool, turned <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.election.Leader, g.election.Leading(), g.turned
}

// Unfit is why this daemon must not lead; empty: it may.
func (g *Gossip) Unfit() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.election.Unfit
}

// Lead makes the context of this host's leadership; nil if that is over.
func (g *Gossip) Lead(ctx context.Context) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.election.Leading() {
		return nil, nil
	}
	term, stop := context.WithCancel(ctx)
	g.stop = stop
	return term, stop
}

// ContactOf is how a host is reached; false: nobody knows.
func (g *Gossip) ContactOf(id cluster.HostID) (cluster.Contact, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.peers[id]
	if !ok {
		return cluster.Contact{}, false
	}
	return p.contact, true
}

// TopFence is the highest fence that was heard of.
func (g *Gossip) TopFence() cluster.Fence {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.topFence
}

// Lacks notes whether this host's own store lacks the record that hosts keep: such a host
// should not lead (SAFETY.md, rule 19). Judge has the election know.
func (g *Gossip) Lacks(lacking bool) {
	g.mu.Lock()
	g.lacking = lacking
	g.mu.Unlock()
}

// Led notes how a look of this host's leadership went: whether enough hosts obey it, and
// who carries the voters, if it says so.
func (g *Gossip) Led(well bool, voters []cluster.HostID) {
	g.mu.Lock()
	g.wellLed = well
	if len(voters) > 0 { // a look that does not say so leaves it as it was
		g.voters = voters
	}
	g.mu.Unlock()
}

// Saw notes what was seen of the store, for the others, and who carries the voters by it.
func (g *Gossip) Saw(s cluster.StoreSight, voters []cluster.HostID) {
	g.mu.Lock()
	g.sight, g.sightAt = &s, time.Now()
	if len(voters) > 0 { // a look that does not say so leaves it as it was
		g.voters = voters
	}
	g.mu.Unlock()
}

// SawAt is when the store was seen last.
func (g *Gossip) SawAt() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sightAt
}
