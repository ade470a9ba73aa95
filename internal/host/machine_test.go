package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
)

var errCrashed = errors.New("the daemon is dead")

var (
	v35 = cluster.MustVersion("3.5.35")
	v36 = cluster.MustVersion("3.6.16")
)

// directory is a data directory.
type directory struct {
	mark  cluster.DiskID
	wal   bool
	owner cluster.MemberID // who wrote the log
}

// machine is what outlives a daemon: a disk in memory, and the member's
// process. It checks the laws itself, against what really happened.
type machine struct {
	t    *testing.T
	mu   sync.Mutex
	disk struct {
		state []byte
		data  map[string]*directory
		aside []cluster.SetAside
		moved []*directory
	}
	saves   int
	running *record.Launch
	pid     int
	member  cluster.MemberID // of the running process
	starts  []record.Launch
	// took are the members that took part in raft: their log has to be there
	// at every later start.
	took map[cluster.MemberID]bool
	// slowLog: the process writes its log only when it is told to.
	slowLog   bool
	restarts  int              // of a process that died
	damaged   string           // what it said of its data when it did
	takes     cluster.MemberID // by an old list, whatever it is started for
	adoptErr  error
	ensureErr error
	heldBy    error // why SetAside cannot move the data
	saveErr   error
	dataErr   error // why nobody can look at the data

	etcd    *fakeMember
	intent  *cluster.Intent
	foreign []cluster.SetAside
	minted  int

	theirs    *record.Predecessor // what etcd-manager left beside theirToken's data; nil: nothing
	theirsRun error               // who runs on it

	admission *record.Admission // a place in a cluster that something else runs; nil: none
	promoted  func(cluster.MemberID) (bool, error)
}

// theirToken names the directory of a member of etcd-manager.
const theirToken = "theirs"

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, took: map[cluster.MemberID]bool{}, etcd: &fakeMember{agreed: v35.Base()}}
	m.disk.data = map[string]*directory{}
	return m
}

// broken reports a law that does not hold.
func (m *machine) broken(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf("LAW: "+format, args...)
}

func (m *machine) state() (s record.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk.state != nil {
		if err := json.Unmarshal(m.disk.state, &s); err != nil {
			m.t.Fatal(err)
		}
	}
	return s
}

func (m *machine) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// edit changes the state on the disk behind the host's back.
func (m *machine) edit(change func(*record.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.editLocked(change)
}

func (m *machine) editLocked(change func(*record.State)) {
	var s record.State
	if err := json.Unmarshal(m.disk.state, &s); err != nil {
		m.t.Fatal(err)
	}
	change(&s)
	m.disk.state, _ = json.Marshal(s)
}

// process tells whether a process runs, and with what it was started, each time.
func (m *machine) process() (runs bool, starts []record.Launch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running != nil, slices.Clone(m.starts)
}

// writeLog has the running process write its log, as etcd does before it takes
// part in raft.
func (m *machine) writeLog() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writeLogLocked()
}

func (m *machine) writeLogLocked() {
	d := m.disk.data[m.running.Token]
	if d == nil {
		return
	}
	d.wal, d.owner = true, m.member
	m.took[m.member] = true
}

// session is one daemon's use of the machine. At its n-th port call it dies,
// before or after the call took effect.
type session struct {
	m       *machine
	calls   int
	crashAt int  // 0: never
	after   bool // the call took effect
	dead    chan struct{}
	log     []string
	changes chan struct{}
	adopted bool
	permit  host.Permit
	askedN  int
}

func (m *machine) session() *session {
	return &session{m: m, dead: make(chan struct{}), changes: make(chan struct{}, 1)}
}

// call runs one port call under the machine's lock.
func (s *session) call(name string, f func() error) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	select {
	case <-s.dead:
		return errCrashed
	default:
	}
	s.calls++
	s.log = append(s.log, name)
	crash := s.calls == s.crashAt
	if crash && !s.after {
		close(s.dead)
		return errCrashed
	}
	err := f()
	if crash {
		close(s.dead)
		return errCrashed
	}
	return err
}

// The session is the host's Disk.

func (s *session) Load() (st record.State, ok bool, err error) {
	err = s.call("load", func() error {
		if s.m.disk.state == nil {
			return nil
		}
		ok = true
		return json.Unmarshal(s.m.disk.state, &st)
	})
	return st, ok, err
}

func (s *session) Save(st record.State) error {
	return s.call("save", func() error {
		if s.m.saveErr != nil {
			return s.m.saveErr
		}
		if err := st.Validate(); err != nil {
			s.m.broken("the host saves a state that it would not load: %v", err)
		}
		if s.m.disk.state != nil {
			var old record.State
			if json.Unmarshal(s.m.disk.state, &old) == nil {
				if st.Promised.Less(old.Promised) && !old.Promised.OutOfReach() || st.LowestGeneration < old.LowestGeneration {
					s.m.broken("the promise goes from %v/%d down to %v/%d", old.Promised, old.LowestGeneration, st.Promised, st.LowestGeneration)
				}
				if st.Disk == old.Disk && st.Epoch < old.Epoch {
					s.m.broken("the epoch goes from %d down to %d", old.Epoch, st.Epoch)
				}
			}
		}
		s.m.saves++
		b, err := json.Marshal(st)
		s.m.disk.state = b
		return err
	})
}

func (s *session) CreateData(token string, disk cluster.DiskID) error {
	return s.call("create", func() error {
		if d := s.m.disk.data[token]; d != nil && (d.mark != disk || d.wal) {
			if d.mark == disk {
				return nil
			}
			return errors.New("it holds something already")
		}
		s.m.disk.data[token] = &directory{mark: disk}
		return nil
	})
}

func (s *session) Data(token string, disk cluster.DiskID) (marked, wal bool, err error) {
	err = s.call("data", func() error {
		if s.m.dataErr != nil {
			return s.m.dataErr
		}
		if d := s.m.disk.data[token]; d != nil {
			marked, wal = d.mark == disk, d.wal
		}
		return nil
	})
	return marked, wal, err
}

func (s *session) Owner(token string) (c cluster.ClusterID, id cluster.MemberID, err error) {
	err = s.call("owner", func() error {
		d := s.m.disk.data[token]
		if d == nil || !d.wal {
			return errors.New("there is no log")
		}
		id = d.owner
		return nil
	})
	return c, id, err
}

func (s *session) SetAside(token string, what cluster.SetAside) (aside cluster.SetAside, err error) {
	err = s.call("set-aside", func() error {
		d := s.m.disk.data[token]
		if d == nil {
			return nil
		}
		if s.m.heldBy != nil {
			return s.m.heldBy
		}
		if s.m.running != nil && s.m.running.Token == token {
			s.m.broken("data is moved away under a running process")
		}
		aside = what
		aside.Dir, aside.At = fmt.Sprintf("%s-%d", token, len(s.m.disk.aside)), time.Now().UTC()
		s.m.disk.aside = append(s.m.disk.aside, aside)
		s.m.disk.moved = append(s.m.disk.moved, d)
		delete(s.m.disk.data, token)
		return nil
	})
	return aside, err
}

func (s *session) Predecessor(h cluster.HostID, disk cluster.DiskID) (p *record.Predecessor, err error) {
	err = s.call("predecessor", func() error {
		d := s.m.disk.data[theirToken]
		if s.m.theirs == nil || d == nil || !d.wal {
			return nil
		}
		copied := *s.m.theirs
		p = &copied
		p.Token, p.Cluster, p.Member, p.Held = theirToken, 0xc, d.owner, s.m.theirsRun
		if d.mark != "" && d.mark != disk {
			p.Refused = "another disk's mark"
		}
		return nil
	})
	return p, err
}

func (s *session) Admission() (a *record.Admission, err error) {
	err = s.call("admission", func() error {
		if s.m.admission != nil {
			copied := *s.m.admission
			a = &copied
		}
		return nil
	})
	return a, err
}

func (s *session) TakeOver(token string, disk cluster.DiskID) error {
	return s.call("take-over", func() error {
		d := s.m.disk.data[token]
		if s.m.theirsRun != nil {
			s.m.broken("data is marked under a process of another program")
		}
		if d == nil || !d.wal || d.mark != "" && d.mark != disk {
			return errors.New("no log, or another disk's mark")
		}
		d.mark = disk
		return nil
	})
}

func (s *session) Inventory(token string) (aside, foreign []cluster.SetAside, err error) {
	err = s.call("inventory", func() error {
		aside, foreign = slices.Clone(s.m.disk.aside), slices.Clone(s.m.foreign)
		return nil
	})
	return aside, foreign, err
}

// process is the session's Process.
type process struct{ *session }

func (p process) spawn(l record.Launch, permit host.Permit) error {
	if err := permit(); err != nil { // without the lock: it looks at the disk
		return err
	}
	return p.call("spawn", func() error {
		m := p.m
		if m.running != nil {
			m.broken("a second process is started")
			return nil
		}
		d := m.disk.data[l.Token]
		var rec record.State
		if err := json.Unmarshal(m.disk.state, &rec); err != nil || rec.Launch == nil || rec.Launch.Nonce != l.Nonce {
			m.broken("a launch that was not journaled is started")
			return nil
		}
		id := rec.Local.Member
		switch {
		case m.theirsRun != nil && l.Token == theirToken:
			m.broken("a second process is started beside another program's")
		case d == nil:
			m.broken("member %s is started without a directory", id)
		case m.took[id] && (!d.wal || d.owner != id):
			m.broken("member %s took part in raft and is started without its log", id)
		case rec.Local.Generation < rec.LowestGeneration:
			m.broken("generation %d is started, %d was promised to be the lowest", rec.Local.Generation, rec.LowestGeneration)
		case !rec.Local.Run:
			m.broken("a member that is to be stopped is started")
		}
		m.running, m.member = &l, id
		m.pid++
		m.starts = append(m.starts, l)
		if m.takes != 0 {
			m.member = m.takes
		}
		m.etcd.reset(m.member)
		if !m.slowLog {
			m.writeLogLocked()
		}
		return nil
	})
}

func (p process) Ensure(_ context.Context, l record.Launch, permit host.Permit) error {
	p.m.mu.Lock()
	running, err := p.m.running, p.m.ensureErr
	p.m.mu.Unlock()
	if err != nil {
		return err
	}
	p.m.mu.Lock()
	p.session.permit = permit
	p.m.mu.Unlock()
	if running != nil && running.Same(l) {
		return nil
	}
	if running != nil {
		if err := p.Stop(context.Background()); err != nil {
			return err
		}
	}
	err = p.spawn(l, permit)
	p.changed()
	return err
}

func (p process) Adopt(context.Context, record.Launch) (found bool, err error) {
	err = p.call("adopt", func() error {
		found = p.m.running != nil
		p.adopted = found
		return p.m.adoptErr
	})
	return found, err
}

func (p process) Stop(context.Context) error {
	err := p.call("stop", func() error { p.m.running = nil; return nil })
	p.changed()
	return err
}

func (p process) Kill(ctx context.Context) error { return p.Stop(ctx) }

func (p process) Status() cluster.Process {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	switch {
	case p.m.running != nil:
		return cluster.Process{State: cluster.ProcessRunning, PID: p.m.pid, Adopted: p.adopted, Restarts: p.m.restarts, Damaged: p.m.damaged}
	case p.m.restarts > 0:
		return cluster.Process{State: cluster.ProcessBackoff, Restarts: p.m.restarts, LastExit: "exit status 1", Damaged: p.m.damaged}
	}
	return cluster.Process{}
}

func (p process) Changes() <-chan struct{} { return p.changes }

func (p process) changed() {
	select {
	case p.changes <- struct{}{}:
	default:
	}
}

// die ends the process by itself; revive is the automatic restart.
func (m *machine) die() *record.Launch {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.running
	m.running = nil
	return l
}

func (s *session) callsNow() int {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.calls
}

func (s *session) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

func (p process) revive(l record.Launch) error {
	p.m.mu.Lock()
	permit := p.permit
	p.m.mu.Unlock()
	if permit == nil {
		return errors.New("nobody said that it may run")
	}
	err := p.spawn(l, permit)
	p.changed()
	return err
}

// The session is the host's Intents and Reacher, too.

func (s *session) ReadIntent(context.Context) (*cluster.Intent, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.m.intent.Clone(), nil
}

func (s *session) Reach(ctx context.Context, peerURLs []string) (open, answers bool) {
	if peerURLs[0] == "http://stuck:2380" {
		<-ctx.Done()
		return false, false
	}
	return peerURLs[0] == "http://up:2380", peerURLs[0] == "http://up:2380"
}

// fakeMember answers as it is told.
type fakeMember struct {
	mu      sync.Mutex
	silent  bool
	noRaft  bool
	status  cluster.MemberStatus
	view    cluster.MemberView
	agreed  cluster.Version
	callErr error
	late    func(*cluster.MemberView) // takes effect although the call fails
	calls   []string
	takes   time.Duration    // a defragmentation
	hashes  cluster.MemberID // who answers for the keys; 0: the member itself
}

func (f *fakeMember) reset(id cluster.MemberID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Member = id
	f.status.Healthy = true
}

func (f *fakeMember) Status(ctx context.Context) (cluster.MemberStatus, error) {
	f.mu.Lock()
	silent, st := f.silent, f.status
	f.mu.Unlock()
	if silent {
		<-ctx.Done()
		return st, ctx.Err()
	}
	return st, nil
}

func (f *fakeMember) LocalStatus(ctx context.Context) (cluster.MemberStatus, error) {
	st, err := f.Status(ctx)
	st.Healthy = false
	return st, err
}

func (f *fakeMember) View(ctx context.Context, linearizable bool) (cluster.MemberView, error) {
	f.mu.Lock()
	stuck := f.silent || f.noRaft && linearizable
	v := f.view
	v.Members = slices.Clone(v.Members)
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return v, ctx.Err()
	}
	return v, nil
}

func (f *fakeMember) change(name string, apply func(*cluster.MemberView)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	if f.callErr != nil {
		if f.late != nil {
			f.late(&f.view)
		}
		return f.callErr
	}
	apply(&f.view)
	return nil
}

func (f *fakeMember) AddMember(_ context.Context, urls []string, learner bool) (cluster.Member, error) {
	m := cluster.Member{ID: 99, PeerURLs: urls, Learner: learner}
	return m, f.change("add", func(v *cluster.MemberView) { v.Members = append(v.Members, m) })
}

func (f *fakeMember) Promote(_ context.Context, id cluster.MemberID) error {
	return f.change("promote "+id.String(), func(v *cluster.MemberView) {
		for i := range v.Members {
			if v.Members[i].ID == id {
				v.Members[i].Learner = false
			}
		}
	})
}

func (f *fakeMember) Remove(_ context.Context, id cluster.MemberID) error {
	return f.change("remove "+id.String(), func(v *cluster.MemberView) {
		v.Members = slices.DeleteFunc(v.Members, func(m cluster.Member) bool { return m.ID == id })
	})
}

func (f *fakeMember) UpdatePeerURLs(_ context.Context, id cluster.MemberID, urls []string) error {
	return f.change("update "+id.String(), func(v *cluster.MemberView) {
		for i := range v.Members {
			if v.Members[i].ID == id {
				v.Members[i].PeerURLs = urls
			}
		}
	})
}

func (f *fakeMember) MoveLeader(_ context.Context, to cluster.MemberID) error {
	return f.change("move-leader "+to.String(), func(*cluster.MemberView) { f.status.Leader = to })
}

func (f *fakeMember) Agreed(context.Context) (cluster.Agreement, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cluster.Agreement{Version: f.agreed, Downgrade: !f.status.Downgrading.IsZero()}, f.callErr
}

func (f *fakeMember) Downgrade(_ context.Context, to cluster.Version) error {
	return f.change("downgrade "+to.String(), func(*cluster.MemberView) { f.status.Downgrading = to })
}

func (f *fakeMember) CancelDowngrade(context.Context) error {
	return f.change("cancel-downgrade", func(*cluster.MemberView) { f.status.Downgrading = cluster.Version{} })
}

// daemon is one run of a host on a machine.
type daemon struct {
	*host.Host
	*session
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
	stamp  string
}

var ownURLs = cluster.URLs{Peer: []string{"http://h1:2380"}, Client: []string{"http://h1:4001"}, Quarantine: []string{"http://h1:8001"}}

func (m *machine) options(s *session) host.Options {
	return host.Options{
		ID: "h1", ClusterName: "test", Address: "h1", URLs: ownURLs,
		Releases: func() []cluster.Version { return []cluster.Version{v36, v35} },
		Options:  func(v cluster.Version) []string { return []string{"--quota-backend-bytes=1"} },
		Disk:     s, Process: process{s}, Intents: s, Reacher: s, Promoted: m.readPromoted,
		Member: func(record.Launch) (member.Member, error) { return m.etcd, nil },
		Mint: func() string {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.minted++
			return fmt.Sprintf("r%d", m.minted)
		},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// boot runs a daemon; the test's bubble ends it.
func (m *machine) boot(with ...func(*session, *host.Options)) *daemon {
	s := m.session()
	o := m.options(s)
	for _, w := range with {
		w(s, &o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{Host: host.New(o), session: s, t: m.t, cancel: cancel, ended: make(chan error, 1)}
	go func() { d.ended <- d.Run(ctx) }()
	return d
}

// crashing makes the daemon die at its n-th port call.
func crashing(n int, after bool) func(*session, *host.Options) {
	return func(s *session, _ *host.Options) { s.crashAt, s.after = n, after }
}

// end ends the daemon and waits for it.
func (d *daemon) end() {
	d.cancel()
	<-d.ended
	synctest.Wait()
}

func fence(n uint64) cluster.Fence { return cluster.Fence{Number: n, Host: "leader"} }

// look observes under a fence and keeps the stamp.
func (d *daemon) look(n uint64) *cluster.HostState {
	d.t.Helper()
	r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(n)})
	if r.State == nil {
		d.t.Fatalf("observe: busy %+v, refused %+v", r.Busy, r.Refused)
	}
	d.stamp = r.Stamp
	return r.State
}

// do observes and applies.
func (d *daemon) do(n uint64, op cluster.Op, g cluster.Guard) cluster.ApplyReply {
	d.t.Helper()
	st := d.look(n)
	return d.Apply(context.Background(), cluster.ApplyRequest{Fence: fence(n), Disk: st.Disk, Stamp: d.stamp, Guard: g, Op: op})
}

func (d *daemon) must(n uint64, op cluster.Op) {
	d.t.Helper()
	if r := d.do(n, op, cluster.Guard{}); r.Outcome != cluster.OutcomeDone {
		d.t.Fatalf("%s: %s: %s", op, r.Outcome, r.Reason)
	}
}

func (d *daemon) mustRefuse(n uint64, op cluster.Op) cluster.ApplyReply {
	d.t.Helper()
	r := d.do(n, op, cluster.Guard{})
	if r.Outcome != cluster.OutcomeRefused {
		d.t.Fatalf("%s: %s (%s), want it refused", op, r.Outcome, r.Reason)
	}
	return r
}

// found writes the intent of a founding by this machine's present disk.
func (m *machine) found(gen uint64) cluster.Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	var s record.State
	json.Unmarshal(m.disk.state, &s)
	nonce := fmt.Sprintf("n%d", gen)
	m.intent = &cluster.Intent{
		Name: "test", Generation: gen, Nonce: nonce, Token: fmt.Sprintf("t%d", gen), Version: v35, State: cluster.IntentFounding,
		Founders: []cluster.Founder{{Host: "h1", Disk: s.Disk, Member: cluster.MemberID(gen), URLs: ownURLs}},
	}
	m.etcd.mu.Lock()
	m.etcd.status.Cluster, m.etcd.view.Cluster = 0xc, 0xc
	m.etcd.view.Members = []cluster.Member{{ID: cluster.MemberID(gen), Name: "h1", PeerURLs: ownURLs.Peer}}
	m.etcd.mu.Unlock()
	return cluster.Op{Kind: cluster.OpStart, Host: "h1", Founding: true, Generation: gen, Nonce: nonce, Member: cluster.MemberID(gen), Version: v35}
}

var prepareOp = cluster.Op{Kind: cluster.OpPrepare, Host: "h1", Generation: 1, Nonce: "n1", Token: "t1", Cluster: 0xc, Known: []cluster.MemberID{2, 3}}

func joinOp(id cluster.MemberID) cluster.Op {
	return cluster.Op{
		Kind: cluster.OpStart, Host: "h1", Generation: 1, Nonce: "n1", Cluster: 0xc, Member: id, Version: v35,
		Members: []cluster.Member{
			{ID: 2, Name: "h2", PeerURLs: []string{"http://h2:2380"}}, {ID: 3, PeerURLs: []string{"http://h3:2380"}, Learner: true},
			{ID: id, PeerURLs: ownURLs.Peer, Learner: true},
		},
	}
}

func (m *machine) joined() {
	m.etcd.mu.Lock()
	defer m.etcd.mu.Unlock()
	m.etcd.status.Cluster, m.etcd.view.Cluster = 0xc, 0xc
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// later is d later, and after all that the host does at that moment, which a look would
// else meet half done.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
