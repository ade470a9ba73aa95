package fakeetcd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/raft/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// ErrDataInUse says that another process runs on the data; etcd would wait for the lock.
var ErrDataInUse = errors.New("data directory is in use")

// Proc is one run of an etcd process on a host.
type Proc struct {
	net    *Net
	host   cluster.HostID
	launch record.Launch
	data   *Data
	done   chan struct{}
	rng    *rand.Rand

	// All below is guarded by net.mu.

	exit      string // why it ended; empty while it runs
	paused    bool
	frozen    []func() // what came due while paused
	listening bool     // the peer port is open and raft runs
	serving   bool     // clients are served: the member has published itself
	trusts    bool     // it has certificates, and the authority of its peers'
	misread   bool     // the next hash of its keys is wrong
	// writesAnew: its database is being written anew.
	writesAnew bool
	leaving    bool // a graceful stop or the end after removal is under way

	member  cluster.MemberID
	cluster cluster.ClusterID
	learned map[cluster.MemberID][]string // peer URLs known from elsewhere than the state
	rn      *raft.RawNode
	log     *raft.MemoryStorage // raft's view of data
	st      *state
	quota   int64
	maxL    int

	elapsed, timeout int // ticks since raft's election timer was reset, and its end
	lead             cluster.MemberID
	role             raft.StateType
	term, vote       uint64
	publishAt        time.Time
	versionAt        time.Time
	formatAt         time.Time
	firstKept        uint64 // what was cut before the start is sent as a snapshot

	conns    map[cluster.MemberID]*conn
	requests map[uint64]*request // proposed here and not applied yet
	queue    []proposal          // what waits for a leader
	reads    []*read
	waiting  []*request // calls that wait until the member serves
	nextID   uint64

	lessor lessor
}

// Start starts a process on a host. Like exec it returns at once; what etcd
// thinks of its arguments and data shows later, see [Proc.Done]. It fails only
// when the data is in use. The launch's URLs.Peer and URLs.Client (or
// URLs.Quarantine) are both what it listens on and what it advertises. Options
// read are --max-learners and --quota-backend-bytes.
func (n *Net) Start(h cluster.HostID, l record.Launch, d *Data) (*Proc, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.owner != nil {
		return nil, fmt.Errorf("start etcd on %s: %w", h, ErrDataInUse)
	}
	n.starts++
	p := &Proc{
		net: n, host: h, launch: l, data: d, done: make(chan struct{}),
		rng:      rand.New(rand.NewPCG(n.opt.Seed, uint64(n.starts))),
		learned:  make(map[cluster.MemberID][]string),
		conns:    make(map[cluster.MemberID]*conn),
		requests: make(map[uint64]*request),
		st:       newState(),
		quota:    option(l.Options, "quota-backend-bytes", 2<<30),
		maxL:     int(option(l.Options, "max-learners", maxLearners(l))),
		nextID:   uint64(n.starts) << 40,
		trusts:   slices.ContainsFunc(l.URLs.Peer, secure),
	}
	d.owner = p
	n.procs = append(n.procs, p)
	n.trace(h, "start")
	// A nanosecond of its own keeps processes that start together apart.
	delay := startDelay + time.Duration(p.rng.IntN(10_000))*time.Microsecond + time.Duration(n.starts)
	p.later(delay, p.bootstrap)
	return p, nil
}

// maxLearners is what the host gives etcd as --max-learners.
func maxLearners(l record.Launch) int64 {
	if l.Adopted {
		return 1
	}
	return int64(l.Version.MaxLearners())
}

// option reads a number from arguments such as --name=7.
func option(args []string, name string, otherwise int64) int64 {
	for _, a := range args {
		if v, ok := strings.CutPrefix(strings.TrimLeft(a, "-"), name+"="); ok {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	return otherwise
}

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Exit says why the process ended, or nothing while it runs.
func (p *Proc) Exit() string {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.exit
}

// Host is where the process runs.
func (p *Proc) Host() cluster.HostID { return p.host }

// Launch is how it was started.
func (p *Proc) Launch() record.Launch { return p.launch }

// Serving reports whether clients are served.
func (p *Proc) Serving() bool {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.exit == "" && p.serving
}

// ClusterVersion is the version that the cluster has settled on, as the process
// knows it; zero: none yet.
func (p *Proc) ClusterVersion() cluster.Version {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.st.version
}

// Kill ends the process as SIGKILL does.
func (p *Proc) Kill() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.end("killed")
}

// Trust gives a process that was started just now certificates, and the authority of
// its peers', which one that listens with TLS has anyway. Without them it reaches
// none that is listed with https.
func (p *Proc) Trust() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.trusts = true
}

// Stop ends the process as SIGTERM does: leadership is handed on first. It
// returns at once; see Done.
func (p *Proc) Stop() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.exit != "" || p.leaving {
		return
	}
	p.leaving = true
	wait := time.Duration(0)
	if to := p.longestConnected(); p.listening && p.lead == p.member && to != 0 && !p.paused {
		p.guard(func() { p.rn.TransferLeader(uint64(to)) })
		wait = 2 * p.net.opt.Tick
	}
	p.later(wait, func() { p.end("stopped") })
}

// Pause stops the process as SIGSTOP does; its connections stay open.
func (p *Proc) Pause() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.paused = true
}

// Resume lets a paused process go on.
func (p *Proc) Resume() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.paused = false
	frozen := p.frozen
	p.frozen = nil
	for _, fn := range frozen {
		p.later(0, fn)
	}
}

// later has fn run in the loop unless the process has ended by then. A paused
// process runs it once it goes on.
func (p *Proc) later(d time.Duration, fn func()) {
	p.net.after(d, func() { p.run(fn) })
}

func (p *Proc) run(fn func()) {
	switch {
	case p.exit != "":
	case p.paused:
		p.frozen = append(p.frozen, fn)
	default:
		fn()
	}
}

// end is the end of the process, whatever it was doing.
func (p *Proc) end(why string) {
	if p.exit != "" {
		return
	}
	p.exit = why
	p.net.trace(p.host, "end: "+why)
	p.net.procs = slices.DeleteFunc(p.net.procs, func(o *Proc) bool { return o == p })
	p.data.owner = nil
	for _, o := range p.net.procs {
		if p.net.linked(o.host, p.host) {
			o.later(noticeDelay, func() { o.disconnected(p.member) })
		}
	}
	for _, r := range p.waiting {
		r.finish(nil, errNotSent)
	}
	for _, id := range sortedKeys(p.requests) {
		p.requests[id].finish(nil, errLost)
	}
	for _, rd := range p.reads {
		rd.finish(errLost)
	}
	p.requests, p.reads, p.waiting, p.frozen, p.queue = nil, nil, nil, nil, nil
	close(p.done)
}

// guard runs a step of raft. The library panics where etcd does: most of all
// when the leader counts on entries that this disk has lost.
func (p *Proc) guard(step func()) {
	defer func() {
		if e := recover(); e != nil {
			if _, ours := e.(raftPanic); !ours {
				panic(e)
			}
			p.end(fmt.Sprintf("panic: %v", e))
		}
	}()
	step()
	p.pump()
}

func sortedKeys[V any](m map[uint64]V) []uint64 {
	keys := make([]uint64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
