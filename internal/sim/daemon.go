package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// kind names a call of a daemon to the outside.
type kind string

const (
	kindLoad       kind = "load"
	kindSave       kind = "save"
	kindCreateData kind = "create-data"
	kindData       kind = "data"
	kindSetAside   kind = "set-aside"
	kindInventory  kind = "inventory"
	kindPrune      kind = "prune" // what was set aside
	kindSpawn      kind = "spawn"
	kindStop       kind = "stop"
	kindAdopt      kind = "adopt"
	kindMember     kind = "member"      // a call that changes or leads the membership
	kindMemberRead kind = "member-read" // any other
	kindReach      kind = "reach"
	kindStorePut   kind = "store-put"
	kindStoreRead  kind = "store-read"
	kindPing       kind = "ping"
	kindObserve    kind = "observe"
	kindApply      kind = "apply"
	kindGoal       kind = "goal"
	kindBuild      kind = "build"       // a data directory, from a source
	kindExtract    kind = "extract"     // a database, from data
	kindInstall    kind = "install"     // what was built
	kindDropStaged kind = "drop-staged" // what was built
	kindKeep       kind = "keep"        // a question to another host about what it keeps
	kindKeeper     kind = "keeper"      // the file of what this host keeps of the record
)

// writes tells the calls that change the world, or begin something that does:
// these are the points at which a schedule may strike.
func (k kind) writes() bool {
	switch k {
	case kindSave, kindCreateData, kindSetAside, kindSpawn, kindStop, kindMember, kindStorePut, kindObserve, kindApply,
		kindPrune, kindBuild, kindInstall, kindDropStaged, kindKeeper:
		return true
	}
	return false
}

// disk tells the calls that go to the host's disk.
func (k kind) disk() bool {
	switch k {
	case kindLoad, kindSave, kindCreateData, kindData, kindSetAside, kindInventory, kindPrune, kindBuild, kindExtract, kindInstall, kindDropStaged, kindKeeper:
		return true
	}
	return false
}

// Point is a place in a daemon's life at which a schedule may strike: just
// before or just after a call that changes the world.
type Point struct {
	Host   cluster.HostID
	Kind   kind
	Detail string
	After  bool
	N      int // counts the points of the world
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", when, p.Kind, p.Detail))
}

// Strike is what a schedule does at a point.
type Strike struct {
	Crash bool
	Pause time.Duration
	Err   error // of a point before: the call fails with it and does nothing
}

var errDead = errors.New("this daemon has crashed")

// daemon is one incarnation: from its start to its crash or stop.
type daemon struct {
	w  *World
	m  *machine
	id cluster.HostID
	n  int // counts the machine's daemons
	// link names the incarnation: what a dead one still asks for takes nothing
	// from the next one's sequences.
	link string
	// trusts: it was started with certificates for its etcd.
	trusts bool
	// person: it is no daemon, but a command that a person typed there.
	person bool
	ctx    context.Context
	end    context.CancelFunc

	host    *host.Host
	manager *manager.Manager
	process *process
	keeping *keeping.Part // nil: there is a shared store
	done    chan struct{} // closed when Run of everything has returned

	mu       sync.Mutex // guards what follows
	dead     bool
	resume   chan struct{} // closed when the pause ends; nil: not paused
	began    time.Time
	stood    time.Time // when the last pause began, which ended at wentOn
	wentOn   time.Time
	minted   uint64
	rolls    uint64
	decision plan.Decision
	decided  time.Time
}

// start boots a machine's daemon.
func (w *World) start(m *machine) *daemon {
	m.mu.Lock()
	m.daemons++
	n := m.daemons
	m.mu.Unlock()
	d := &daemon{w: w, m: m, id: m.ID(), n: n, link: fmt.Sprintf("%s#%d", m.name, n), trusts: !m.plain.Load(), began: time.Now(), done: make(chan struct{})}
	d.ctx, d.end = context.WithCancel(w.ctx)
	log := d.log()
	d.process = newProcess(d)
	if w.hostsKeep {
		d.keep()
	}
	folder := d.folder()
	d.host = host.New(host.Options{
		ID: m.ID(), ClusterName: clusterName, Address: m.address, URLs: m.urls(),
		Releases: m.installed,
		Options:  d.options,
		Disk:     simDisk{d}, Files: simDisk{d}, Process: d.process,
		Member:  func(record.Launch) (member.Member, error) { return simMember{d}, nil },
		Intents: control.Intents{Folder: d.folder()}, Promoted: folder.Promoted,
		Reacher: simReacher{d}, PeerTLS: d.peerTLS,
		Sources: simSources{d}, PruneAfter: w.pruning.after,
		AskPeers:  func(ctx context.Context, of []cluster.HostID) []cluster.Ping { return d.manager.AskPeers(ctx, of) },
		Elsewhere: func() *cluster.Elsewhere { return d.manager.Elsewhere() },
		MayStart:  d.keeping.MayStart, Forgets: d.keeping.Forget, Mint: d.mint, Log: log,
	})
	var err error
	d.manager, err = manager.New(manager.Options{
		Local: simLocal{d.host, m}, Contact: cluster.Contact{Host: m.ID(), Endpoint: m.endpoint()}, Place: m.name, ClusterName: clusterName,
		Network: network{d}, Seeds: seeds{w}, Control: folder, Spec: w.static,
		Catalogue: simCatalogue{d}, BackupInterval: w.every, DrillInterval: w.drills, Upkeep: w.upkeep,
		MemberIDs: memberIDs, Mint: d.mint, Rand: d.rand, Log: log, Intervals: intervals,
		Decided: func(o *cluster.Observation, p plan.Decision) {
			w.checkConvicted(d, o)
			d.mu.Lock()
			d.decision, d.decided = p, time.Now()
			d.mu.Unlock()
			d.heldUp(Held{Host: d.id, Decision: &p})
		},
	})
	if err != nil {
		panic(err)
	}
	m.daemon.Store(d)
	d.tracef("daemon %d starts", d.n)
	var loops sync.WaitGroup
	loops.Go(func() { d.process.run(d.ctx) })
	loops.Go(func() { _ = d.host.Run(d.ctx) })
	loops.Go(func() { _ = d.manager.Run(d.ctx) })
	if d.keeping != nil {
		loops.Go(func() { _ = d.keeping.Run(d.ctx) })
	}
	w.loops.Go(func() {
		loops.Wait()
		close(d.done)
	})
	return d
}

// options are the etcd arguments that a member of the host started now would get:
// those of the schedule, or else of the spec.
func (d *daemon) options(v cluster.Version) []string {
	args := d.w.optionsNow(v)
	if spec := d.host.Spec(); args == nil && spec != nil {
		args, _ = etcdargs.Options(spec.Options, v) // all of them are there in every release of the model
	}
	if q := d.m.quota; q > 0 {
		args = append(args, "--quota-backend-bytes="+strconv.FormatInt(q, 10))
	}
	return args
}

// intervals are the usual ones but for some microseconds, so that what a
// daemon does by the clock does not fall on one instant, where Go picks an
// order by a chance that is not the seed's.
var intervals = manager.Intervals{
	Quick: 100*time.Millisecond + 17*time.Microsecond, Idle: time.Second + 31*time.Microsecond,
	Silent: 5*time.Second + 53*time.Microsecond, Tick: 10*time.Second + 77*time.Microsecond,
	Store: 2*time.Second + 113*time.Microsecond, Record: 10*time.Second + 191*time.Microsecond,
	Discovery:   time.Minute + 331*time.Microsecond,
	PingTimeout: time.Second + 7*time.Microsecond, ObserveTimeout: 2*time.Second + 11*time.Microsecond,
	StoreTimeout: 2*time.Second + 13*time.Microsecond, WriteTimeout: 5*time.Second + 19*time.Microsecond,
	ApplyTimeout: 15*time.Second + 23*time.Microsecond,
}

func memberIDs(token string, founders []cluster.Founder) ([]cluster.MemberID, cluster.ClusterID, error) {
	var ms []cluster.Member
	for _, f := range founders {
		ms = append(ms, cluster.Member{Name: string(f.Host), PeerURLs: f.URLs.Peer})
	}
	ids, id := etcd.MemberIDs(token, ms)
	return ids, id, nil
}

// mint is random and never the same, by the seed.
func (d *daemon) mint() string {
	d.mu.Lock()
	d.minted++
	n := d.minted
	d.mu.Unlock()
	return fmt.Sprintf("%013x", mix(mix(d.w.seed^uint64(len(d.m.name)))^hashOf(d.m.name)^uint64(d.n)<<40^n)>>12)
}

func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func (d *daemon) rand(most time.Duration) time.Duration {
	d.mu.Lock()
	d.rolls++
	n := d.rolls
	d.mu.Unlock()
	return dice(mix(d.w.seed^hashOf(d.m.name)^uint64(d.n)<<32^n)).within(0, most)
}

// crash ends the incarnation at this very instant: nothing that it still does
// reaches the world.
func (d *daemon) crash() {
	d.mu.Lock()
	was := d.dead
	d.dead = true
	if d.resume != nil {
		close(d.resume)
		d.resume = nil
	}
	d.mu.Unlock()
	if was {
		return
	}
	d.m.daemon.CompareAndSwap(d, nil)
	d.end()
	d.tracef("daemon %d crashes", d.n)
}

// stop ends the incarnation as a signal does; its etcd stays.
func (d *daemon) stop() {
	d.tracef("daemon %d is asked to end", d.n)
	d.end()
	<-d.done
	d.mu.Lock()
	d.dead = true
	d.mu.Unlock()
	d.m.daemon.CompareAndSwap(d, nil)
	d.tracef("daemon %d has ended", d.n)
}

// pause holds every call of the daemon until unpause; what its timers do in
// between ends at its next call.
func (d *daemon) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resume == nil && !d.dead {
		d.resume = make(chan struct{})
		d.stood = time.Now()
	}
}

func (d *daemon) unpause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resume != nil {
		close(d.resume)
		d.resume = nil
		d.wentOn = time.Now()
	}
}

// alive waits out a pause and reports whether the daemon still lives.
func (d *daemon) alive() bool {
	for {
		d.mu.Lock()
		dead, resume := d.dead, d.resume
		d.mu.Unlock()
		if dead || resume == nil {
			return !dead
		}
		select {
		case <-resume:
		case <-d.w.ctx.Done():
			return false
		}
	}
}

func (d *daemon) paused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resume != nil
}

func (d *daemon) lives() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.dead && d.resume == nil
}

// pass is a point: the schedule may strike here.
func (d *daemon) pass(k kind, detail string, after bool) error {
	if d.paused() {
		if !d.alive() {
			return errDead
		}
		// All calls go on at once, and each begins to at an instant of its own.
		d.w.sleep(d.w.ctx, d.w.links.next("resume "+string(k)+" "+detail+" "+d.link).wait())
	}
	if !d.alive() {
		return errDead
	}
	when := "begins"
	if after {
		when = "ends"
	}
	d.w.event(d.id, when+" "+string(k), detail)
	if !k.writes() {
		return nil
	}
	s := d.w.strike(Point{Host: d.id, Kind: k, Detail: detail, After: after})
	switch {
	case s.Crash:
		d.tracef("crash %s", Point{Kind: k, Detail: detail, After: after})
		d.crash()
		return errDead
	case s.Pause > 0:
		d.standStill(s.Pause, Point{Kind: k, Detail: detail, After: after}.String())
		if !d.alive() {
			return errDead
		}
	case s.Err != nil && !after:
		return s.Err
	}
	return nil
}

// do makes one call to the world.
func (d *daemon) do(k kind, detail string, f func() error) error {
	if k.disk() {
		dice := d.w.links.next("disk " + string(k) + " " + d.link)
		wait := dice.wait()
		if k.writes() {
			wait += d.m.slowness()
		}
		d.w.pause(d.ctx, wait, dice)
	}
	if err := d.pass(k, detail, false); err != nil {
		return err
	}
	err := f()
	if k.writes() {
		d.w.step()
	}
	if dead := d.pass(k, detail, true); dead != nil {
		return dead
	}
	return err
}

func (d *daemon) log() *slog.Logger { return slog.New(&logHandler{d: d}) }

func (d *daemon) tracef(format string, args ...any) { d.w.tracef(d.id, format, args...) }
