package fakeetcd

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
)

// Timings of etcd that the model keeps. Sources are in etcd 3.7.3's server
// directory.
const (
	defaultTick     = 100 * time.Millisecond // heartbeat interval; TickMs of embed.NewConfig
	electionTicks   = 10                     // election timeout 1 s
	healthInterval  = 5 * time.Second        // etcdserver.HealthInterval
	noticeDelay     = 5 * time.Millisecond   // from a peer's end to the closed connection being known
	reqTimeout      = 7 * time.Second        // config.ReqTimeout with default ticks
	readRetry       = 500 * time.Millisecond // etcdserver/read readIndexRetryTime
	versionInterval = 4 * time.Second        // monitorVersionInterval
	leaseInterval   = 500 * time.Millisecond // lease.runLoop
	removedDelay    = time.Second            // stopWithDelay after the own removal
	bootstrapWait   = time.Second            // BootstrapTimeoutEffective, for one unreachable peer URL
	joinWait        = 10 * time.Second       // GetClusterFromRemotePeers, likewise

	// silentTimeout is how long a peer counts as connected whose packets are
	// lost. etcd means to notice after ConnReadTimeout, 5 s, but 3.5.35, 3.6.16
	// and 3.7.3 do not: NewTimeoutTransport sets http.Transport.Dial, and
	// DialContext, which NewTransport has set, goes before it, so the timeouts
	// reach no connection. What is left is TCP's keep-alive, 30 s and nine
	// probes 30 s apart.
	silentTimeout = 300 * time.Second

	linkDelay   = 200 * time.Microsecond // one way between members when Options.Link is nil
	clientDelay = 100 * time.Microsecond // one way between a client and its member
	startDelay  = 30 * time.Millisecond  // from exec to raft running
)

// Write describes one durable write of a process, for [Options.OnWrite].
type Write struct {
	Host   cluster.HostID
	Number int    // counts the writes of the whole Net, from 1
	What   string // create: the data directory's log; save: entries and hard state
	After  bool   // the write is done; otherwise it is about to begin
}

// Call describes one call of a client, for [Options.LoseReply].
type Call struct {
	Host     cluster.HostID
	Op       string // as in the errors: "add learner", "put", …
	Mutating bool
}

// Options shape a Net. The zero value is a perfect network.
type Options struct {
	Seed uint64
	// Tick is the heartbeat interval; zero means etcd's 100 ms.
	Tick time.Duration
	// Link says how long a message takes between two hosts, and whether it
	// arrives at all. A client that is on none of the hosts is the empty host.
	// Both directions are asked separately. nil: everything arrives.
	Link func(from, to cluster.HostID) (delay time.Duration, ok bool)
	// Claim, when not nil, gives an event that is due after d an instant at
	// which nothing else of the simulation happens, and returns when that is.
	Claim func(d time.Duration) time.Duration
	// OnWrite is asked before and after each durable write; true kills the
	// process at that point.
	OnWrite func(Write) bool
	// LoseReply is asked when a call is done; true loses the reply, so that
	// the caller does not know the outcome.
	LoseReply func(Call) bool
	// Trace, when not nil, receives a line for each thing of note.
	Trace func(at time.Time, host cluster.HostID, what string)
}

// Net is a set of hosts that run etcd processes.
type Net struct {
	opt  Options
	wake chan struct{}

	mu     sync.Mutex // guards all below and every Proc and Data
	events eventHeap
	seq    uint64
	procs  []*Proc // running ones, in the order of their start
	starts int
	writes int
	rng    *rand.Rand
	// snapshots are all that were taken: entries of logs name them.
	snapshots []*Snapshot
}

// New makes a Net; nothing happens in it until Run.
func New(opt Options) *Net {
	if opt.Tick <= 0 {
		opt.Tick = defaultTick
	}
	return &Net{
		opt:  opt,
		wake: make(chan struct{}, 1),
		rng:  rand.New(rand.NewPCG(opt.Seed, 0x65746364)),
	}
}

type event struct {
	at  time.Time
	seq uint64
	fn  func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

// Run carries events out until ctx ends. Then every process is killed.
func (n *Net) Run(ctx context.Context) error {
	for {
		next, any := n.due()
		var timer *time.Timer
		var at <-chan time.Time
		if any {
			timer = time.NewTimer(time.Until(next))
			at = timer.C
		}
		select {
		case <-at:
		case <-n.wake:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			n.killAll()
			return ctx.Err()
		}
	}
}

// due carries out what is due and tells when the next event is.
func (n *Net) due() (next time.Time, any bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for len(n.events) > 0 && !n.events[0].at.After(now) {
		e := heap.Pop(&n.events).(event)
		e.fn()
	}
	if len(n.events) == 0 {
		return time.Time{}, false
	}
	return n.events[0].at, true
}

// after has fn run in the loop after d. n.mu is held.
func (n *Net) after(d time.Duration, fn func()) {
	if n.opt.Claim != nil {
		d = n.opt.Claim(d)
	}
	n.seq++
	heap.Push(&n.events, event{at: time.Now().Add(d), seq: n.seq, fn: fn})
	if n.events[0].seq == n.seq {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// link asks for one message's way. n.mu is held.
func (n *Net) link(from, to cluster.HostID) (time.Duration, bool) {
	if from == to {
		return clientDelay, true
	}
	if n.opt.Link == nil {
		return linkDelay, true
	}
	return n.opt.Link(from, to)
}

// linked reports whether messages pass in both directions. n.mu is held.
func (n *Net) linked(a, b cluster.HostID) bool {
	_, there := n.link(a, b)
	_, back := n.link(b, a)
	return there && back
}

// at returns the process that listens for peers at a URL. n.mu is held.
func (n *Net) at(peerURL string) *Proc {
	for _, p := range n.procs {
		if p.listening && slices.Contains(p.launch.URLs.Peer, peerURL) {
			return p
		}
	}
	return nil
}

// atPort returns the process that listens for peers at a URL's address, with TLS or
// without. n.mu is held.
func (n *Net) atPort(peerURL string) *Proc {
	for _, p := range n.procs {
		if p.listening && slices.ContainsFunc(p.launch.URLs.Peer, func(u string) bool { return address(u) == address(peerURL) }) {
			return p
		}
	}
	return nil
}

// Reach reports whether a connection from a host to one of the peer URLs is accepted now,
// and whether the process answers there. Of a paused one its kernel accepts.
func (n *Net) Reach(from cluster.HostID, peerURLs []string) (open, answers bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, u := range peerURLs {
		if p := n.atPort(u); p != nil && n.linked(from, p.host) {
			open, answers = true, answers || !p.paused
		}
	}
	return open, answers
}

// Running returns the process that runs on a host, or nil.
func (n *Net) Running(h cluster.HostID) *Proc {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running(h)
}

func (n *Net) running(h cluster.HostID) *Proc {
	for _, p := range n.procs {
		if p.host == h {
			return p
		}
	}
	return nil
}

func (n *Net) killAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range slices.Clone(n.procs) {
		p.end("the simulation ended")
	}
}

func (n *Net) trace(h cluster.HostID, what string) {
	if n.opt.Trace != nil {
		n.opt.Trace(time.Now(), h, what)
	}
}

// crash asks the hook about a durable write. n.mu is held.
func (n *Net) crash(p *Proc, what string, after bool) bool {
	if !after {
		n.writes++
	}
	if n.opt.OnWrite == nil || !n.opt.OnWrite(Write{Host: p.host, Number: n.writes, What: what, After: after}) {
		return false
	}
	p.end("killed at a write")
	return true
}
