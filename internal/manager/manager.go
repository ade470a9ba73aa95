package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/host"
)

// Manager is the loop of one daemon. Make one with New; its methods may be
// called from several goroutines at once, also before and after Run.
type Manager struct {
	o    Options
	log  *slog.Logger
	self cluster.HostID

	wake      chan struct{} // look again, if leading
	pingNow   chan struct{} // some target is due sooner than it was
	leads     chan struct{} // this host began to lead
	storeNow  chan struct{} // look at the control folder
	statusNow chan struct{} // there is news for the status in the store
	goals     chan *errand  // a person's steps, for the leader's loop

	mu        sync.Mutex // guards what follows; never held across a call outside
	election  election.State
	stop      context.CancelFunc // ends this host's leadership; nil: it does not lead
	turned    chan struct{}      // closed and replaced when the leader changes
	heard     chan struct{}      // closed and replaced when a ping was heard
	peers     map[cluster.HostID]*peerState
	targets   map[string]*target
	seeded    bool // discovery has answered once
	quick     time.Time
	roundDue  time.Time     // when the next round of pings is due
	deaf      time.Time     // until when silence says nothing, since nobody listened
	topFence  cluster.Fence // the highest that was heard of
	lacking   *cluster.Intent
	twin      time.Time // when another daemon under this host's ID was noticed last
	twinAt    string    // its endpoint
	store     look
	status    Status
	said      map[string]string // by topic; what was said last
	unwritten map[string]unwritten
	untried   string // why the store could not be tried out
	unread    string // why it could not be read last
	recording recording
	// quorumless: the last look found no quorum of a cluster that was founded.
	quorumless bool
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

// New makes a manager that does nothing yet. It fails on missing options.
func New(o Options) (*Manager, error) {
	switch {
	case o.Local == nil || o.Network == nil:
		return nil, errors.New("new manager: Local and Network are required")
	case o.ClusterName == "" || o.Contact.Host == "":
		return nil, errors.New("new manager: the cluster's name and this host's ID are required")
	}
	o = o.withDefaults()
	m := &Manager{
		o: o, log: o.Log, self: o.Contact.Host,
		wake: make(chan struct{}, 1), pingNow: make(chan struct{}, 1), leads: make(chan struct{}, 1),
		storeNow: make(chan struct{}, 1), statusNow: make(chan struct{}, 1), goals: make(chan *errand),
		turned: make(chan struct{}), heard: make(chan struct{}),
		peers: map[cluster.HostID]*peerState{}, targets: map[string]*target{}, said: map[string]string{}, unwritten: map[string]unwritten{},
	}
	m.election = election.New(m.self, time.Now())
	return m, nil
}

// Run gossips, and leads when it is this host's turn, until ctx ends. It then
// tells the others that it leaves, and returns once all is joined.
func (m *Manager) Run(ctx context.Context) error {
	now := time.Now()
	m.mu.Lock()
	m.election = election.New(m.self, now)
	m.quick = now.Add(quickFor)
	m.mu.Unlock()
	for _, p := range m.o.Local.Peers() {
		m.learn(p.Address, p.Host, false)
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){m.gossip, m.discover, m.listen, m.watchStore, m.lead, m.forgetUnseen} {
		loops.Go(func() { loop(inner) })
	}
	<-ctx.Done()
	m.leave(inner)
	cancel()
	loops.Wait()
	return ctx.Err()
}

// listen passes on what happens on this host.
func (m *Manager) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
		case <-m.o.Local.Changes():
		}
		if ctx.Err() != nil {
			return
		}
		m.judgeFitness()
		if leader, leading := m.leader(); leading {
			poke(m.wake)
		} else {
			m.hasten(leader)
		}
	}
}

// leader names the leading host as seen from here, and whether it is this one.
func (m *Manager) leader() (cluster.HostID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.election.Leader, m.election.Leading()
}

// step feeds the election one event and carries out what it changed.
func (m *Manager) step(e election.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stepLocked(e)
}

func (m *Manager) stepLocked(e election.Event) {
	now := time.Now()
	next, effects := election.Step(m.election, e, now)
	m.election = next
	for _, effect := range effects {
		switch effect.Kind {
		case election.StopLeading:
			if m.stop != nil {
				m.stop()
				m.stop = nil
			}
		case election.StartLeading:
			poke(m.leads)
		case election.LeaderChanged:
			close(m.turned)
			m.turned = make(chan struct{})
			m.quick = now.Add(quickFor)
			m.hastenAllLocked(now)
		}
	}
}

// judgeFitness tells the election whether this host may lead.
func (m *Manager) judgeFitness() {
	m.judge(m.o.Local.Identity())
	m.sayOnce("answered", "other hosts do not answer the calls of this one, which leaves the lead to one that they answer", m.unansweredWords())
}

func (m *Manager) judge(id host.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	excuse := election.Worse(m.blindLocked(now), m.unansweredLocked(now))
	unfit := id.Unfit
	switch {
	case unfit != "":
	case id.Disk == "":
		unfit = "its host is starting"
	case !m.twin.IsZero() && time.Since(m.twin) < disputedFor:
		unfit = "another daemon, at " + m.twinAt + ", has its host ID"
	case m.lacking != nil:
		unfit = election.UnfitStore
	default:
		unfit = excuse
	}
	m.topFence = higher(m.topFence, id.Promised)
	if unfit != m.election.Unfit {
		m.stepLocked(election.Fit{Unfit: unfit})
	}
	m.standLocked(id.Promised)
}

// standLocked tells the election how this host's leadership stands.
func (m *Manager) standLocked(promised cluster.Fence) {
	well := m.wellLed && m.election.Leading()
	if promised != m.election.Fence || well != m.election.Well {
		m.stepLocked(election.Stands{Fence: promised, Well: well})
	}
}

// follows reports whether a host is in sight, and says that this one leads.
func (m *Manager) follows(id cluster.HostID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.peers[id]
	return ok && m.election.Live(id, time.Now()) && p.last.Leader == m.self
}

// ready takes a value from a channel, if there is one. By it a loop that waits
// for several things says which of them goes first: select draws one of those
// that are ready, and another one when a simulation is replayed.
func ready[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// poke leaves a value in a channel that holds one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
