// Package sim runs whole clusters in memory: the planner, the election, the
// manager, the host and the control folder that ship, over a fake etcd, fake
// machines, a fake network and a fake store, in virtual time.
//
// One world is one testing/synctest bubble. A world is made, machines are put
// into it, and a schedule or a seed makes things go wrong; after every call
// that changes the world the invariants are checked:
//
//	at most one generation can serve, and a lower one never again after a higher ·
//	one token, one generation · one command, one generation that serves ·
//	no step of ours takes a quorum away · no data directory is gone ·
//	no promise goes down · one process a directory · no member is started by a
//	disk that forgot it · revisions do not go back · every acknowledged write
//	stays, but for those that a restore was asked to drop
//
// and when the faults stop, the cluster reaches its spec within a bound.
//
// Every delay, loss and fault is a hash of the seed, a link and a number on
// that link (docs/adr/001), so that a seed is a reproduction.
package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

const clusterName = "sim"

// Chaos is how unreliable network and store are, each a probability.
type Chaos struct {
	Loss, Duplicate, Slow            float64
	StoreError, StoreLost, StoreLate float64
	SlowMost, LateMost               time.Duration
}

// Options shape a world.
type Options struct {
	Seed       uint64
	Conditions memory.Conditions
	// Static, when set, is the spec of every daemon; else it is in the store.
	Static *cluster.Spec
	// BackupEvery is how often a backup is taken by itself; zero: never.
	BackupEvery time.Duration
	// DrillEvery is how often a backup is tried out by itself; zero: never.
	DrillEvery time.Duration
	// PruneAfter is how long hosts keep what they set aside of removed members
	// at least; zero: for ever.
	PruneAfter time.Duration
	// Upkeep is what the daemons are told about etcd's own ills.
	Upkeep cluster.Upkeep
	// HostsKeep: there is no shared store, and the hosts keep the record.
	HostsKeep bool
	// Full makes the timeline show the whole trace.
	Full bool
}

// World is one simulation.
type World struct {
	seed   uint64
	ctx    context.Context
	end    context.CancelFunc
	loops  sync.WaitGroup
	links  *links
	cuts   *cuts
	etcd   *fakeetcd.Net
	store  *memory.Store
	static *cluster.Spec
	every  time.Duration // between backups; zero: none by itself
	drills time.Duration // between drills; zero: none by itself
	upkeep cluster.Upkeep
	began  time.Time
	chaos  atomic.Pointer[Chaos]
	tardy  atomic.Pointer[Tardy]
	// staging is how much longer it takes to make a source ready, in nanoseconds.
	staging atomic.Int64
	// secured: no daemon is started without TLS any more.
	secured atomic.Bool
	// storeTakes is how much longer each call to the store takes, in nanoseconds.
	storeTakes atomic.Int64
	// unkept counts the steps with --no-store that are under way.
	unkept atomic.Int32

	// hostsKeep: the hosts keep the record, and store is what an onlooker sees of it.
	hostsKeep bool

	moments moments

	mu       sync.Mutex // guards what follows
	machines []*machine
	options  []string // etcd arguments that a member started now would get
	onPoint  func(Point) Strike
	onLetter func(Letter) *Post
	onHold   func(Held) Stall
	refused  []*StoreFault
	points   int
	intent   *cluster.Intent // in the store
	top      *cluster.Intent // the highest that it has had
	wentBack bool            // it has had others since than it has
	failures []string
	// What is in the backups, which of them are damaged, and what was built under
	// each token.
	backups     map[string]*fakeetcd.Snapshot
	backupNames []string
	damaged     map[string]bool
	origins     map[string]*fakeetcd.Snapshot
	orders      map[string]order  // by the command's name
	endings     map[string]ending // likewise, of those that came to their end
	written     map[uint64]bool   // records that the store has had, by their content
	persons     int               // times that a person wrote the spec
	asked       int               // the count that the spec has
	askedBy     cluster.HostID    // who wrote it; empty: a person
	drilled     time.Time         // when a backup was last found good in a drill

	hooks sync.Mutex // held while a schedule decides
	lines timeline
	check checker
	load  *load

	register keptRecord
	desk     []deskWork // what persons are still to write

	foreign  foreign            // never changed once daemons run
	gaveUp   []cluster.MemberID // by a person, before the cluster was ours
	pruning  pruning
	refusals refusals
	odds     odds
	acts     map[string]int // what actors did, and how often
	// anew is when a member's database began to be written anew last.
	anew map[cluster.MemberID]time.Time
}

// New makes an empty world; it is called in a bubble.
func New(o Options) *World {
	w := &World{
		seed: o.Seed, links: newLinks(o.Seed), cuts: &cuts{cut: map[way]bool{}},
		store: memory.NewWith(o.Conditions), static: o.Static, every: o.BackupEvery, drills: o.DrillEvery, upkeep: o.Upkeep, began: time.Now(),
		backups: map[string]*fakeetcd.Snapshot{}, damaged: map[string]bool{}, origins: map[string]*fakeetcd.Snapshot{}, orders: map[string]order{},
	}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.lines.full = o.Full
	w.hostsKeep = o.HostsKeep
	w.register.begin()
	w.pruning = pruning{after: o.PruneAfter, proven: map[string]bool{}}
	w.check.init()
	w.etcd = fakeetcd.New(fakeetcd.Options{
		Seed: o.Seed, Link: w.memberLink, Claim: w.moments.claim,
		Trace: func(_ time.Time, h cluster.HostID, what string) {
			w.tracef(h, "etcd: %s", what)
			w.refusals.note(h, what)
		},
	})
	w.loops.Go(func() { _ = w.etcd.Run(w.ctx) }) // ends with the world
	return w
}

// memberLink is the network of the members. It is asked in etcd's own loop.
func (w *World) memberLink(from, to cluster.HostID) (time.Duration, bool) {
	w.event(from, "member to", string(to))
	if !w.cuts.open(members, from, to) {
		return 0, false
	}
	d := w.links.next("m " + string(from) + ">" + string(to))
	return d.within(150*time.Microsecond, 600*time.Microsecond), true
}

// Close ends everything and waits for it.
func (w *World) Close() {
	if w.load != nil {
		w.load.stop()
	}
	for _, m := range w.hosts() {
		if d := m.daemon.Load(); d != nil {
			d.crash()
		}
	}
	w.end()
	w.loops.Wait()
	if w.hostsKeep {
		time.Sleep(keptEnds)
	}
}

// keptEnds is longer than what reads the record or tells of it goes on for nobody: a bubble ends when all in it has.
const keptEnds = time.Minute

// Add puts up a machine with the releases given, and starts its daemon.
func (w *World) Add(name string) *machine {
	m := w.Place(name)
	w.start(m)
	return m
}

// Place puts up a machine without a daemon.
func (w *World) Place(name string) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &machine{
		w: w, name: name, address: fmt.Sprintf("10.0.0.%d", len(w.machines)+1),
		releases: releases(), disk: newDisk(),
	}
	m.become(cluster.HostID(name))
	w.machines = append(w.machines, m)
	return m
}

func releases() []cluster.Version {
	return []cluster.Version{cluster.MustVersion("3.5.26"), cluster.MustVersion("3.6.16"), cluster.MustVersion("3.7.3")}
}

func (w *World) hosts() []*machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.machines)
}

// Host finds a machine by the name it was put up with.
func (w *World) Host(name string) *machine {
	for _, m := range w.hosts() {
		if m.name == name {
			return m
		}
	}
	panic("no machine " + name)
}

func (w *World) at(endpoint string) *machine {
	for _, m := range w.hosts() {
		if m.endpoint() == endpoint && !m.gone.Load() {
			return m
		}
	}
	return nil
}

// Options sets the etcd arguments that members are to have, on every host.
func (w *World) Options(args ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.options = args
}

func (w *World) optionsNow(cluster.Version) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.options)
}

func (w *World) chaosNow() *Chaos { return w.chaos.Load() }

func (w *World) strike(p Point) Strike {
	w.mu.Lock()
	w.points++
	p.N = w.points
	f := w.onPoint
	w.mu.Unlock()
	if f == nil {
		return Strike{}
	}
	w.hooks.Lock()
	defer w.hooks.Unlock()
	return f(p)
}

func (w *World) post(l Letter) *Post {
	w.mu.Lock()
	f := w.onLetter
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	w.hooks.Lock()
	defer w.hooks.Unlock()
	return f(l)
}

// OnPoint has f decide what happens at every point from now on; nil ends that.
func (w *World) OnPoint(f func(Point) Strike) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onPoint = f
}

// OnLetter has f decide over the messages from now on.
func (w *World) OnLetter(f func(Letter) *Post) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onLetter = f
}

// sleep waits; false: ctx or the world ended before.
func (w *World) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(w.moments.claim(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
	return false
}

// pause is sleep of a daemon's call. A context ends for all that wait for it at
// once, and they are woken in an order that the runtime draws; so each goes on
// after a wait of its own.
func (w *World) pause(ctx context.Context, d time.Duration, call dice) bool {
	return w.sleep(ctx, d) || w.interrupted(call)
}

// interrupted keeps a call whose context has ended apart from others; it is
// always false.
func (w *World) interrupted(call dice) bool {
	w.sleep(w.ctx, call.roll(interruption).wait())
	return false
}

// interruption is the roll of a call that its end by a context takes.
const interruption = 100

// apart goes on at an instant of its own: daemons that started at one would do
// all that they do by the clock at one.
func (w *World) apart() { w.sleep(w.ctx, time.Microsecond) }

// later does f after a while, if the world is still there.
func (w *World) later(d time.Duration, f func()) {
	w.loops.Go(func() {
		if w.sleep(w.ctx, d) {
			f()
		}
	})
}

// violate notes that an invariant was broken.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tracef("", "VIOLATION: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, text)
}

// Broken lists the violations so far.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failures)
}

// state is what is on the machine's disk.
func (m *machine) state() (record.State, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.decoded()
}
