package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/record"
)

func TestPromise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		ctx := context.Background()
		if r := d.Observe(ctx, cluster.ObserveRequest{}); r.State == nil || r.Stamp != "" || !r.State.Promised.IsZero() {
			t.Fatalf("without a fence: %+v", r)
		}
		d.look(5)
		n := m.writes()
		d.look(5)
		if m.writes() != n {
			t.Error("the same promise was written twice")
		}
		later(3 * time.Second)
		r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(4)})
		if r.Refused == nil || r.Refused.Promised != fence(5) || r.Refused.Age != 3*time.Second || r.State != nil || r.Stamp != "" {
			t.Fatalf("a lower fence: %+v", r)
		}
		lower := cluster.Fence{Number: 5, Host: "a"}
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: lower}); r.Refused == nil {
			t.Fatalf("the same number of a lower host: %+v", r)
		}
		d.end()
		d = m.boot()
		defer d.end()
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(4)}); r.Refused == nil || r.Refused.Age > 3*time.Second {
			t.Fatalf("after a restart: %+v", r)
		}
		m.mu.Lock()
		m.saveErr = errors.New("no space left on device")
		m.mu.Unlock()
		r = d.Observe(ctx, cluster.ObserveRequest{Fence: fence(6)})
		if r.State == nil || r.State.Promised != fence(5) || r.Stamp != "" || !hasProblem(r.State, "state-not-written") {
			t.Fatalf("a promise that cannot be written: %+v", r)
		}
		if p := problemOf(r.State, "state-not-written"); !strings.Contains(p.Hint, "df -i") {
			t.Errorf("a disk without inodes has the same words, and the hint is %q", p.Hint)
		}
		if d.Identity().Unfit != "" {
			t.Error(d.Identity().Unfit)
		}
	})
}

func TestBrokenStateIsLeftAlone(t *testing.T) {
	for name, spoil := range map[string]func(*machine, *host.Options){
		"damaged":                 func(m *machine, _ *host.Options) { m.disk.state = []byte("{") },
		"of a later release":      func(m *machine, _ *host.Options) { m.disk.state = []byte(`{"format":9,"host":"h1","disk":"d"}`) },
		"of another host":         func(_ *machine, o *host.Options) { o.ID = "h2" },
		"of another cluster":      func(_ *machine, o *host.Options) { o.ClusterName = "other" },
		"without a launch record": func(m *machine, _ *host.Options) { m.editLocked(func(s *record.State) { s.Launch = nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := started(t)
				d.end()
				m.die()
				var before []byte
				d = m.boot(func(_ *session, o *host.Options) { spoil(m, o); before = m.disk.state })
				defer d.end()
				later(time.Minute)
				r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(7)})
				if r.State == nil || !r.State.Promised.IsZero() || r.Stamp != "" || r.State.Free() || len(r.State.Foreign) == 0 || len(r.State.Problems) != 1 {
					t.Fatalf("%+v", r.State)
				}
				if p := r.State.Problems[0]; p.Hint == "" || !p.Unfit || d.Identity().Unfit == "" {
					t.Errorf("%+v", p)
				}
				a := d.Apply(context.Background(), cluster.ApplyRequest{Fence: fence(7), Disk: r.State.Disk, Op: prepareOp})
				if a.Outcome != cluster.OutcomeRefused || a.Hint == "" {
					t.Errorf("%+v", a)
				}
				if string(m.disk.state) != string(before) || m.running != nil {
					t.Error("something was written or started")
				}
			})
		})
	}
}

func TestObservationIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		reach := []cluster.Member{{ID: 3, PeerURLs: []string{"http://stuck:2380"}}, {ID: 2, PeerURLs: []string{"http://up:2380"}}, {ID: 4, PeerURLs: []string{"http://down:2380"}}}
		ask := func() (*cluster.HostState, time.Duration) {
			at := time.Now()
			r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Reach: reach})
			return r.State, time.Since(at)
		}
		st, took := ask()
		if took > time.Second || len(st.Reaches) != 3 || st.Reaches[0] != (cluster.Reach{Member: 2, Answers: true, Open: true}) || st.Reaches[1].Answers || st.Reaches[2].Answers {
			t.Fatalf("%s %+v", took, st.Reaches)
		}
		if st.View == nil || !st.View.Linearizable {
			t.Fatalf("%+v", st.View)
		}
		m.etcd.mu.Lock()
		m.etcd.noRaft = true
		m.etcd.mu.Unlock()
		if st, took := ask(); took > time.Second || st.View == nil || st.View.Linearizable || st.Status == nil {
			t.Fatalf("without a quorum: %s %+v", took, st.View)
		}
		m.etcd.mu.Lock()
		m.etcd.silent = true
		m.etcd.mu.Unlock()
		if st, took := ask(); took > time.Second || st.View != nil || st.Status != nil {
			t.Fatalf("silent: %s %+v", took, st)
		}
	})
}

func TestHighestIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		m.etcd.mu.Lock()
		m.etcd.status.Revision, m.etcd.status.Term, m.etcd.status.Index = 70, 3, 90
		m.etcd.mu.Unlock()
		d.look(1)
		m.etcd.mu.Lock()
		m.etcd.status.Revision, m.etcd.status.Term, m.etcd.status.Index = 60, 4, 10
		m.etcd.mu.Unlock()
		d.look(1)
		later(11 * time.Second)
		d.end()
		d = m.boot()
		if got, want := d.look(1).Highest, (cluster.Progress{Revision: 70, Term: 4, Index: 10}); got != want {
			t.Fatalf("%+v", got)
		}
		// A member of another cluster ID begins with low terms and indexes anew,
		// and only the revision is compared with what was before.
		m.etcd.mu.Lock()
		m.etcd.status.Cluster++
		m.etcd.status.Revision, m.etcd.status.Term, m.etcd.status.Index = 65, 2, 5
		m.etcd.mu.Unlock()
		d.end()
		m.edit(func(s *record.State) { s.Local.Cluster = m.etcd.status.Cluster })
		d = m.boot()
		defer d.end()
		if got, want := d.look(1).Highest, (cluster.Progress{Revision: 70, Term: 2, Index: 5}); got != want {
			t.Fatalf("after another cluster's member: %+v", got)
		}
	})
}

func TestAdmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		ctx := context.Background()
		st := d.look(5)
		good := cluster.ApplyRequest{Fence: fence(5), Disk: st.Disk, Stamp: d.stamp, Op: cluster.Op{Kind: cluster.OpForget}}
		for name, spoil := range map[string]func(*cluster.ApplyRequest){
			"no fence":     func(r *cluster.ApplyRequest) { r.Fence = cluster.Fence{} },
			"lower fence":  func(r *cluster.ApplyRequest) { r.Fence = fence(4) },
			"higher fence": func(r *cluster.ApplyRequest) { r.Fence = fence(6) },
			"another disk": func(r *cluster.ApplyRequest) { r.Disk = "x" },
			"no stamp":     func(r *cluster.ApplyRequest) { r.Stamp = "" },
			"other stamp":  func(r *cluster.ApplyRequest) { r.Stamp = "x" },
			"unknown op":   func(r *cluster.ApplyRequest) { r.Op.Kind = "dance"; d.look(5); r.Stamp = d.stamp },
		} {
			r := good
			spoil(&r)
			if a := d.Apply(ctx, r); a.Outcome != cluster.OutcomeRefused || a.Reason == "" || (name == "lower fence") != (a.Refused != nil) {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if a := d.Apply(ctx, good); a.Outcome != cluster.OutcomeRefused { // it may be late on its way, and act beside what the newer one shows
			t.Errorf("of a look before the newest one: %+v", a)
		}
		d.look(5)
		good.Stamp = d.stamp
		later(cluster.MaxStampAge)
		if a := d.Apply(ctx, good); a.Outcome != cluster.OutcomeDone {
			t.Errorf("just in time: %+v", a)
		}
		if a := d.Apply(ctx, good); a.Outcome != cluster.OutcomeRefused {
			t.Errorf("a second copy of it: %+v", a)
		}
		d.look(5)
		good.Stamp = d.stamp
		later(cluster.MaxStampAge + time.Millisecond)
		if a := d.Apply(ctx, good); a.Outcome != cluster.OutcomeRefused {
			t.Errorf("too late: %+v", a)
		}
		d.look(5)
		good.Stamp = d.stamp
		d.look(6)
		good.Fence = fence(6)
		if a := d.Apply(ctx, good); a.Outcome != cluster.OutcomeRefused {
			t.Errorf("with the stamp of another fence: %+v", a)
		}
		good.Stamp = d.stamp
		d.end()
		d = m.boot()
		defer d.end()
		if a := d.Apply(ctx, good); a.Outcome != cluster.OutcomeRefused {
			t.Errorf("with a stamp from before the restart: %+v", a)
		}
	})
}

// TestOpIsFinishedByTheHost: the caller leaves, the op goes on, and nobody gets
// a promise meanwhile.
func TestOpIsFinishedByTheHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		gate := make(chan struct{})
		d := m.boot(func(s *session, o *host.Options) { o.Intents = slowIntents{s, gate} })
		st := d.look(1)
		op := m.found(1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a := d.Apply(ctx, cluster.ApplyRequest{Fence: fence(1), Disk: st.Disk, Stamp: d.stamp, Op: op})
		if a.Outcome != cluster.OutcomeUnknown {
			t.Fatalf("%+v", a)
		}
		r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)})
		if r.Busy == nil || r.Busy.Op.Kind != cluster.OpStart || r.Busy.Fence != fence(1) || r.Busy.For != time.Second {
			t.Fatalf("%+v", r)
		}
		if r := d.Observe(context.Background(), cluster.ObserveRequest{}); r.State == nil {
			t.Fatalf("facts only: %+v", r)
		}
		if a := d.Apply(context.Background(), cluster.ApplyRequest{Fence: fence(1), Disk: st.Disk, Stamp: d.stamp, Op: prepareOp}); a.Outcome != cluster.OutcomeRefused {
			t.Fatalf("a second op: %+v", a)
		}
		go func() { time.Sleep(time.Second); close(gate) }()
		d.end() // waits for the op
		if m.running == nil || m.state().Local.Member != 1 {
			t.Fatal("the op was not finished")
		}
		if m.state().Promised != fence(1) {
			t.Fatal("Busy was a promise")
		}
	})
}

// TestOpBeyondItsTime: a host that an op holds up for ever says so, once it should
// have ended.
func TestOpBeyondItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		gate := make(chan struct{})
		d := m.boot(func(s *session, o *host.Options) { o.Intents = deafIntents{s, gate} })
		st := d.look(1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.Apply(ctx, cluster.ApplyRequest{Fence: fence(1), Disk: st.Disk, Stamp: d.stamp, Op: m.found(1)})
		busy := func() cluster.Busy {
			r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)})
			if r.Busy == nil {
				t.Fatalf("%+v", r)
			}
			return *r.Busy
		}
		if b := busy(); b.Why != "" {
			t.Errorf("after %s: %s", b.For, b.Why)
		}
		later(2 * time.Minute)
		first := busy()
		if !strings.Contains(first.Why, "it should have ended at") {
			t.Errorf("after %s: %s", first.For, first.Why)
		}
		later(time.Minute)
		if b := busy(); b.Why != first.Why {
			t.Errorf("something new is said at each look: %s, %s", first.Why, b.Why)
		}
		close(gate)
		d.end()
	})
}

// deafIntents is a store that stands in the kernel.
type deafIntents struct {
	*session
	gate chan struct{}
}

func (s deafIntents) ReadIntent(ctx context.Context) (*cluster.Intent, error) {
	<-s.gate
	return s.session.ReadIntent(ctx)
}

type slowIntents struct {
	*session
	gate chan struct{}
}

func (s slowIntents) ReadIntent(ctx context.Context) (*cluster.Intent, error) {
	select {
	case <-s.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.session.ReadIntent(ctx)
}

var (
	threeMembers = cluster.MemberView{Cluster: 0xc, Members: []cluster.Member{
		{ID: 2, PeerURLs: []string{"http://h2:2380"}}, {ID: 3, PeerURLs: []string{"http://h3:2380"}, Learner: true}, {ID: 9, PeerURLs: ownURLs.Peer},
	}}
	threeGuard = cluster.Guard{Cluster: 0xc, Members: []cluster.MemberID{2, 3, 9}, Voters: []cluster.MemberID{2, 9}}
)

// voter is a started member that votes, in a cluster of three.
func voter(t *testing.T) (*machine, *daemon) {
	m, d := started(t)
	m.etcd.view = threeMembers
	m.etcd.view.Members = slices.Clone(threeMembers.Members)
	m.etcd.status.Leader = 2
	return m, d
}

func TestMembershipOps(t *testing.T) {
	x := []string{"http://h4:2380"}
	for _, c := range []struct {
		name  string
		op    cluster.Op
		guard func(*cluster.Guard)
		etcd  func(*fakeMember)
		want  cluster.Outcome
		calls int
		added cluster.MemberID
	}{
		{name: "add learner", op: cluster.Op{Kind: cluster.OpAddLearner, PeerURLs: x}, want: cluster.OutcomeDone, calls: 1, added: 99},
		{name: "add voter", op: cluster.Op{Kind: cluster.OpAddVoter, PeerURLs: x}, want: cluster.OutcomeDone, calls: 1, added: 99},
		{name: "add without URL", op: cluster.Op{Kind: cluster.OpAddLearner}, want: cluster.OutcomeRefused},
		{name: "promote", op: cluster.Op{Kind: cluster.OpPromote, Member: 3}, want: cluster.OutcomeDone, calls: 1},
		{name: "remove", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, want: cluster.OutcomeDone, calls: 1},
		{name: "update", op: cluster.Op{Kind: cluster.OpUpdateURL, Member: 2, PeerURLs: x}, want: cluster.OutcomeDone, calls: 1},
		{name: "update a learner", op: cluster.Op{Kind: cluster.OpUpdateURL, Member: 3, PeerURLs: x}, want: cluster.OutcomeRefused},
		{name: "promote a voter", op: cluster.Op{Kind: cluster.OpPromote, Member: 2}, want: cluster.OutcomeDone},
		{name: "remove an absent one", op: cluster.Op{Kind: cluster.OpRemove, Member: 4}, want: cluster.OutcomeDone},
		{name: "remove none", op: cluster.Op{Kind: cluster.OpRemove}, want: cluster.OutcomeRefused},
		{name: "update to the same", op: cluster.Op{Kind: cluster.OpUpdateURL, Member: 2, PeerURLs: []string{"http://h2:2380"}}, want: cluster.OutcomeDone},
		{
			name: "added before", op: cluster.Op{Kind: cluster.OpAddLearner, PeerURLs: []string{"http://h3:2380"}},
			guard: func(g *cluster.Guard) { g.Members = []cluster.MemberID{2, 9} }, want: cluster.OutcomeDone, added: 3,
		},
		{name: "no guard", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, guard: func(g *cluster.Guard) { *g = cluster.Guard{} }, want: cluster.OutcomeRefused},
		{name: "another cluster", op: cluster.Op{Kind: cluster.OpRemove, Member: 4}, guard: func(g *cluster.Guard) { g.Cluster = 0xd }, want: cluster.OutcomeRefused},
		{name: "other members", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, guard: func(g *cluster.Guard) { g.Members = []cluster.MemberID{2, 3, 5, 9} }, want: cluster.OutcomeRefused},
		{name: "other voters", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, guard: func(g *cluster.Guard) { g.Voters = []cluster.MemberID{2, 3, 9} }, want: cluster.OutcomeRefused},
		{name: "no quorum", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) { f.noRaft = true }, want: cluster.OutcomeRefused},
		{name: "no answer", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) { f.silent = true }, want: cluster.OutcomeRefused},
		{name: "another member answers", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) { f.status.Member = 2 }, want: cluster.OutcomeRefused},
		{
			name: "not through a learner", op: cluster.Op{Kind: cluster.OpRemove, Member: 2},
			guard: func(g *cluster.Guard) { g.Voters = []cluster.MemberID{2, 3} },
			etcd: func(f *fakeMember) {
				f.view = cluster.MemberView{Cluster: 0xc, Members: []cluster.Member{{ID: 2}, {ID: 3}, {ID: 9, Learner: true}}}
			}, want: cluster.OutcomeRefused,
		},
		{name: "not as the leader", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, guard: func(g *cluster.Guard) { g.NotLeader = true }, etcd: func(f *fakeMember) { f.status.Leader = 9 }, want: cluster.OutcomeRefused},
		{name: "as a follower", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, guard: func(g *cluster.Guard) { g.NotLeader = true }, want: cluster.OutcomeDone, calls: 1},
		{name: "etcd refuses", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) { f.callErr = etcd.ErrUnhealthy }, want: cluster.OutcomeFailed, calls: 1},
		{name: "not sent", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) {
			f.callErr = fmt.Errorf("%w: %w", etcd.ErrUnreachable, context.DeadlineExceeded)
		}, want: cluster.OutcomeFailed, calls: 1},
		{name: "timed out", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) { f.callErr = context.DeadlineExceeded }, want: cluster.OutcomeUnknown, calls: 1},
		{name: "lost", op: cluster.Op{Kind: cluster.OpRemove, Member: 3}, etcd: func(f *fakeMember) { f.callErr = etcd.ErrUnknownOutcome }, want: cluster.OutcomeUnknown, calls: 1},
		{
			name: "lost, and made", op: cluster.Op{Kind: cluster.OpAddLearner, PeerURLs: x},
			etcd: func(f *fakeMember) {
				f.callErr = etcd.ErrUnknownOutcome
				f.late = func(v *cluster.MemberView) {
					v.Members = append(v.Members, cluster.Member{ID: 77, PeerURLs: x, Learner: true})
				}
			}, want: cluster.OutcomeDone, calls: 1, added: 77,
		},
		{name: "move leader, not leading", op: cluster.Op{Kind: cluster.OpMoveLeader, Member: 3}, want: cluster.OutcomeRefused},
		{name: "move leader to the leader", op: cluster.Op{Kind: cluster.OpMoveLeader, Member: 2}, want: cluster.OutcomeDone},
		{name: "move leader", op: cluster.Op{Kind: cluster.OpMoveLeader, Member: 2}, etcd: func(f *fakeMember) { f.status.Leader = 9 }, want: cluster.OutcomeDone, calls: 1},
		{name: "move leader to a learner", op: cluster.Op{Kind: cluster.OpMoveLeader, Member: 3}, etcd: func(f *fakeMember) { f.status.Leader = 9 }, want: cluster.OutcomeRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := voter(t)
				defer d.end()
				g := threeGuard
				if c.guard != nil {
					c.guard(&g)
				}
				if c.etcd != nil {
					c.etcd(m.etcd)
				}
				r := d.do(1, c.op, g)
				if r.Outcome != c.want || r.Member != c.added || len(m.etcd.calls) != c.calls {
					t.Errorf("%+v after %v, want %s, %d calls, member %s", r, m.etcd.calls, c.want, c.calls, c.added)
				}
				if r.Outcome != cluster.OutcomeDone && r.Reason == "" {
					t.Error("no reason is given")
				}
			})
		})
	}
}

// TestStampIsOlderThanItsLook: what an observation tells is as old as its beginning,
// also where the look took long.
func TestStampIsOlderThanItsLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := voter(t)
		defer d.end()
		m.says(func(f *fakeMember) { f.silent = true })
		began := time.Now()
		st := d.look(1)
		took := time.Since(began)
		if took < time.Second {
			t.Fatalf("the look took %s, and is to take long", took)
		}
		req := cluster.ApplyRequest{Fence: fence(1), Disk: st.Disk, Stamp: d.stamp, Op: cluster.Op{Kind: cluster.OpForget}}
		later(cluster.MaxStampAge - took + time.Millisecond)
		if a := d.Apply(context.Background(), req); a.Outcome != cluster.OutcomeRefused || !strings.Contains(a.Reason, "old") {
			t.Errorf("%s after the look began: %+v", time.Since(began), a)
		}
	})
}

func TestGuardOfAStop(t *testing.T) {
	for _, c := range []struct {
		name  string
		guard cluster.Guard
		etcd  func(*fakeMember)
		want  cluster.Outcome
	}{
		{"none", cluster.Guard{}, func(f *fakeMember) { f.silent = true }, cluster.OutcomeDone},
		{"holds", cluster.Guard{Cluster: 0xc, Members: threeGuard.Members, Voters: threeGuard.Voters, NotLeader: true}, nil, cluster.OutcomeDone},
		{"leader", cluster.Guard{NotLeader: true}, func(f *fakeMember) { f.status.Leader = 9 }, cluster.OutcomeRefused},
		{"who leads is not known", cluster.Guard{NotLeader: true}, func(f *fakeMember) { f.silent = true }, cluster.OutcomeRefused},
		{"other members", cluster.Guard{Cluster: 0xc, Members: []cluster.MemberID{9}, Voters: []cluster.MemberID{9}}, nil, cluster.OutcomeRefused},
		{"it sees a raft leader", cluster.Guard{Leaderless: true}, func(f *fakeMember) { f.status.Leader = 3 }, cluster.OutcomeRefused},
		{"it sees none", cluster.Guard{Leaderless: true}, func(f *fakeMember) { f.status.Leader = 0 }, cluster.OutcomeDone},
		{"it does not answer", cluster.Guard{Leaderless: true}, func(f *fakeMember) { f.silent = true }, cluster.OutcomeDone},
	} {
		for _, kind := range []cluster.OpKind{cluster.OpStop, cluster.OpRestart} {
			t.Run(c.name+"/"+string(kind), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m, d := voter(t)
					defer d.end()
					if c.etcd != nil {
						c.etcd(m.etcd)
					}
					if r := d.do(1, cluster.Op{Kind: kind}, c.guard); r.Outcome != c.want {
						t.Errorf("%+v, want %s", r, c.want)
					}
				})
			})
		}
	}
}

func TestChangesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		synctest.Wait()
		<-d.Changes()
		n := d.Identity().Changes
		m.joined()
		d.must(1, prepareOp)
		select {
		case <-d.Changes():
		default:
			t.Error("an op was not told")
		}
		if d.Identity().Changes == n {
			t.Error("an op was not counted")
		}
	})
}

func TestNotYetBooted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		h := host.New(m.options(m.session()))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if r := h.Observe(ctx, cluster.ObserveRequest{Fence: fence(1)}); r.Busy == nil {
			t.Errorf("%+v", r)
		}
		if r := h.Apply(ctx, cluster.ApplyRequest{Fence: fence(1)}); r.Outcome != cluster.OutcomeRefused {
			t.Errorf("%+v", r)
		}
	})
}

// A record that wants a generation to run which was promised to be refused is
// not believed.
func TestPromiseBeatsTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.die()
		m.edit(func(s *record.State) { s.LowestGeneration = 2 })
		d = m.boot()
		defer d.end()
		if d.look(1); m.running != nil {
			t.Fatal("it was started")
		}
	})
}

// A stalled disk holds up what needs the disk: not pings, and not facts.
func TestStalledDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		var stall *stalledDisk
		d := m.boot(func(s *session, o *host.Options) { stall = &stalledDisk{Disk: s}; o.Disk = stall })
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		gate := make(chan struct{})
		stall.gate.Store(&gate)
		for range 3 {
			at := time.Now()
			st := d.look(1) // nothing is to be written
			if took := time.Since(at); took > time.Second || st.Status == nil || !hasProblem(st, "data-unreadable") || !st.Local.HasData {
				t.Fatalf("after %s: %+v", took, st)
			}
		}
		if d.Identity().Promised != fence(1) {
			t.Fatal("no identity")
		}
		go d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)}) // its promise is to be written
		synctest.Wait()
		for _, told := range []bool{false, true} {
			at := time.Now()
			r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(3)})
			if took := time.Since(at); took > time.Second || r.Busy == nil || strings.Contains(r.Busy.Why, "has not finished a write") != told {
				t.Fatalf("after %s beside a promise that is being written: %+v", took, r.Busy)
			}
			later(6 * time.Second)
		}
		go func() { time.Sleep(10 * time.Second); stall.gate.Store(nil); close(gate) }()
		later(11 * time.Second)
		r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(3)})
		if r.State == nil || r.State.Promised != fence(3) || hasProblem(r.State, "state-not-written") || hasProblem(r.State, "data-unreadable") {
			t.Fatalf("afterwards: %+v", r)
		}
	})
}

// What an observation reads besides may lie on another mount that stands still,
// and so may the state under a promise. Whoever asks is told within their time.
func TestStalledLook(t *testing.T) {
	for _, what := range []string{"the secret keys of backups", "a promise"} {
		bubble(t, func(t *testing.T) {
			m := newMachine(t)
			var stall *stalledDisk
			var keys atomic.Pointer[chan struct{}]
			var looks atomic.Int32
			d := m.boot(func(s *session, o *host.Options) {
				stall = &stalledDisk{Disk: s}
				o.Disk, o.Sources = stall, noSources{}
				o.Decrypts = func() bool {
					looks.Add(1)
					if g := keys.Load(); g != nil {
						<-*g
					}
					return true
				}
			})
			m.joined()
			d.look(1)
			gate := make(chan struct{})
			if what == "a promise" {
				stall.gate.Store(&gate)
			} else {
				keys.Store(&gate)
			}
			began := looks.Load()
			ask := func() cluster.ObserveReply {
				t.Helper()
				const most = 2 * time.Second
				ctx, cancel := context.WithTimeout(context.Background(), most)
				defer cancel()
				at := time.Now()
				r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(2)})
				if took := time.Since(at); took > most {
					t.Errorf("%s: the answer took %s", what, took)
				}
				return r
			}
			opened := time.AfterFunc(time.Minute, func() { keys.Store(nil); stall.gate.Store(nil); close(gate) })
			for range 5 {
				r := ask()
				if r.State != nil || r.Busy == nil || r.Busy.Op.Kind != cluster.OpPromise || r.Busy.Why == "" {
					t.Fatalf("%s stands still: %+v", what, r)
				}
				later(4 * time.Second) // a write is told after 5 s
			}
			if more := looks.Load() - began; more > 1 {
				t.Errorf("%s: %d looks wait for it", what, more)
			}
			if opened.Stop() {
				keys.Store(nil)
				stall.gate.Store(nil)
				go func() { time.Sleep(time.Second / 2); close(gate) }() // who waits for it then goes on
			}
			r := ask()
			if r.State == nil || r.Stamp == "" || r.State.Promised != fence(2) || !r.State.Decrypts || d.Identity().Promised != fence(2) {
				t.Fatalf("%s, afterwards: %+v", what, r)
			}

			gate = make(chan struct{}) // the host's end is not beside a look
			keys.Store(&gate)
			ask()
			go func() { time.Sleep(time.Second); close(gate) }()
			at := time.Now()
			if d.end(); time.Since(at) < time.Second {
				t.Error("the host ended before a look of its did")
			}
		})
	}
}

// noSources has room, and nothing else.
type noSources struct{ bulk.Sources }

func (noSources) FreeSpace() int64              { return 1 << 30 }
func (noSources) Received(string) time.Duration { return 0 }

type stalledDisk struct {
	host.Disk
	gate atomic.Pointer[chan struct{}]
}

func (s *stalledDisk) wait() {
	if g := s.gate.Load(); g != nil {
		<-*g
	}
}

func (s *stalledDisk) Save(st record.State) error { s.wait(); return s.Disk.Save(st) }

func (s *stalledDisk) Data(token string, disk cluster.DiskID) (bool, bool, error) {
	s.wait()
	return s.Disk.Data(token, disk)
}

// What is in the way may go away.
func TestForeignProcessEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.die()
		m.adoptErr = errors.New("the lock is held by process 7")
		d = m.boot()
		defer d.end()
		d.look(1)
		m.mu.Lock()
		m.adoptErr = nil
		m.mu.Unlock()
		later(11 * time.Second)
		if st := d.look(1); m.running == nil || hasProblem(st, "process-foreign") {
			t.Fatalf("%+v", st.Problems)
		}
	})
}

// The log is recorded soon after it was written, without anybody looking.
func TestLogIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		m.slowLog = true
		d := m.boot()
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		later(time.Second)
		m.writeLog()
		later(time.Second)
		synctest.Wait()
		if s := m.state(); s.Local.State != cluster.MemberStarted {
			t.Fatalf("it is %s", s.Local.State)
		}
	})
}

// TestTellsWhoRefusesChanges: a member that refuses a change for whom it is connected to is told of, until it makes one or runs anew.
func TestTellsWhoRefusesChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := voter(t)
		defer d.end()
		remove := func(err error) time.Time {
			m.says(func(f *fakeMember) { f.callErr = err })
			d.do(1, cluster.Op{Kind: cluster.OpRemove, Member: 3}, threeGuard)
			return d.look(1).Refused
		}
		if at := remove(errors.New("x")); !at.IsZero() {
			t.Errorf("another failure counts, at %s", at)
		}
		before := time.Now()
		if at := remove(etcd.ErrUnhealthy); at.Before(before) {
			t.Errorf("it is told to have refused at %s, and did after %s", at, before)
		}
		if at := remove(errors.New("x")); at.Before(before) {
			t.Errorf("another failure takes it back: %s", at)
		}
		if at := remove(nil); !at.IsZero() {
			t.Errorf("it made a change, and is told to have refused at %s", at)
		}
	})
}

// Who looks at the own member alone reaches it before anybody has had the host look, also after the daemon has begun anew.
func TestOwnMemberWithoutALook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		if _, _, err := d.Own(); err == nil {
			t.Error("a host without a member has one")
		}
		d.end()
		m, d = started(t)
		d.end()
		d = m.boot()
		defer d.end()
		later(time.Second) // its state is read
		own, quarantined, err := d.Own()
		if err != nil || quarantined {
			t.Fatalf("quarantined %t, %v", quarantined, err)
		}
		if s, err := own.LocalStatus(t.Context()); err != nil || s.Member != 9 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
