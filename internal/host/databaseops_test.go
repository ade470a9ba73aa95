package host_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

func (f *fakeMember) HashKV(_ context.Context, revision int64) (etcd.KVHash, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return etcd.KVHash{Member: cmp.Or(f.hashes, f.status.Member), Hash: 7, Compacted: 3, Revision: revision}, f.callErr
}

func (f *fakeMember) Defragment(ctx context.Context, limit time.Duration) error {
	f.mu.Lock()
	takes := f.takes
	f.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-time.After(limit):
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
	return f.change("defragment", func(*cluster.MemberView) { f.status.DBSize = f.status.DBInUse })
}

func (f *fakeMember) Compact(_ context.Context, revision int64) error {
	return f.change("compact", func(*cluster.MemberView) {})
}

func (f *fakeMember) Disarm(_ context.Context, alarm string, id cluster.MemberID) error {
	return f.change("disarm "+alarm+" "+id.String(), func(*cluster.MemberView) {})
}

var (
	hashOp   = cluster.Op{Kind: cluster.OpHash, Host: "h1", Member: 9, Cluster: 0xc, Revision: 40, Doubt: cluster.DoubtNone}
	defragOp = cluster.Op{Kind: cluster.OpDefragment, Host: "h1", Member: 9, Cluster: 0xc}
)

// A hash is taken beside everything else, and told with what was asked for.
func TestHash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		defer d.end()
		for what, change := range map[string]func(*cluster.Op){
			"another member": func(o *cluster.Op) { o.Member = 8 }, "another cluster": func(o *cluster.Op) { o.Cluster = 0xd }, "no revision": func(o *cluster.Op) { o.Revision = 0 },
		} {
			o := hashOp
			change(&o)
			if r := d.do(1, o, cluster.Guard{}); r.Outcome != cluster.OutcomeRefused {
				t.Errorf("%s: %+v", what, r)
			}
		}
		d.must(1, hashOp)
		synctest.Wait()
		h := d.look(1).Hash
		if h == nil || h.Running || h.Error != "" || h.Hash != 7 || h.Compacted != 3 || h.Asked != 40 || h.Member != 9 || h.Cluster != 0xc {
			t.Fatalf("the hash: %+v", h)
		}
		m.says(func(f *fakeMember) { f.callErr = etcd.ErrCompacted })
		d.must(1, hashOp)
		synctest.Wait()
		if h := d.look(1).Hash; h.Error == "" || h.Hash != 0 {
			t.Errorf("one that failed: %+v", h)
		}
		// Whoever it is by its ID, another one's keys convict nobody here.
		m.says(func(f *fakeMember) { f.callErr, f.hashes = nil, 8 })
		d.must(1, hashOp)
		synctest.Wait()
		if h := d.look(1).Hash; h.Running || h.Error == "" || h.Hash != 0 || h.Compacted != 0 {
			t.Errorf("another member's: %+v", h)
		}
	})
}

// What a leader says of the member's keys is durable before there is a hash to convict
// it by, and stays; one that says nothing may be convicting it.
func TestDoubtIsKept(t *testing.T) {
	for said, keeps := range map[cluster.Doubt]cluster.Doubt{
		cluster.DoubtNone: cluster.DoubtNone, cluster.DoubtFound: cluster.DoubtFound, cluster.DoubtUnknown: cluster.DoubtFound,
	} {
		bubble(t, func(t *testing.T) {
			m, d := running(t, v36)
			if got := d.look(1).Local.Doubt; got != cluster.DoubtNone {
				t.Errorf("of a member that was just started: %q", got)
			}
			op := hashOp
			op.Doubt = said
			m.says(func(f *fakeMember) { f.takes = time.Minute })
			d.must(1, op)
			if got := m.state().Local.Doubt; got != keeps {
				t.Errorf("told %q, the disk has %q while the hash is made", said, got)
			}
			later(2 * time.Minute)
			d.must(1, hashOp)
			synctest.Wait()
			d.end()
			if got := m.state().Local.Doubt; got != keeps {
				t.Errorf("told %q and then nothing of the kind, the disk has %q", said, got)
			}
		})
	}
}

// A host is busy, and promises nothing, for as long as its member writes its
// database anew; whoever asked for it is answered at once.
func TestDefragment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		defer d.end()
		m.says(func(f *fakeMember) { f.takes, f.status.DBSize, f.status.DBInUse = 3*time.Minute, 100<<20, 10<<20 })
		began := time.Now()
		m.says(func(f *fakeMember) { f.takes = 50 * time.Second })
		d.must(1, defragOp)
		if passed := time.Since(began); passed > time.Second {
			t.Errorf("answered after %s", passed)
		}
		r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)})
		if r.Busy == nil || r.Busy.Op.Kind != cluster.OpDefragment || r.Busy.Why != "" {
			t.Fatalf("a promise during a defragmentation: %+v", r)
		}
		later(51 * time.Second)
		st := d.look(1)
		if w := st.Database; w == nil || w.Error != "" || w.Before != 100<<20 || w.After != 10<<20 || w.Took != 50*time.Second || w.Member != 9 {
			t.Fatalf("what became of it: %+v", w)
		}
		// One that takes longer than its size explains is given up.
		m.says(func(f *fakeMember) { f.takes = time.Hour })
		d.must(1, defragOp)
		later(etcd.DefragTimeout(10<<20) + 5*time.Second)
		if w := d.look(1).Database; w.Error == "" {
			t.Errorf("one without an end: %+v", w)
		}
	})
}

// A large database takes longer than any other op may, and is not late for that.
func TestDefragmentLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		defer d.end()
		m.says(func(f *fakeMember) { f.takes, f.status.DBSize, f.status.DBInUse = 6*time.Minute, 4<<30, 2<<30 })
		d.must(1, defragOp)
		later(6*time.Minute - time.Second)
		r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)})
		if r.Busy == nil || r.Busy.Why != "" {
			t.Fatalf("after six minutes: %+v", r)
		}
		later(2 * time.Second)
		if w := d.look(1).Database; w.Error != "" {
			t.Errorf("what became of it: %+v", w)
		}
	})
}

// What a defragmentation relies on is looked at again at the last moment.
func TestDefragmentRefused(t *testing.T) {
	for what, change := range map[string]func(m *machine, o *cluster.Op, g *cluster.Guard){
		"another member": func(_ *machine, o *cluster.Op, _ *cluster.Guard) { o.Member = 8 },
		"a learner": func(m *machine, _ *cluster.Op, _ *cluster.Guard) {
			m.says(func(f *fakeMember) { f.status.Learner = true })
		},
		"one that is behind": func(m *machine, _ *cluster.Op, _ *cluster.Guard) {
			m.says(func(f *fakeMember) { f.status.Index = 1 << 20 })
		},
		"raft's leader": func(m *machine, _ *cluster.Op, g *cluster.Guard) {
			g.NotLeader = true
			m.says(func(f *fakeMember) { f.status.Leader = 9 })
		},
		"other members":           func(_ *machine, _ *cluster.Op, g *cluster.Guard) { g.Cluster, g.Members = 0xc, []cluster.MemberID{1} },
		"a member that is silent": func(m *machine, _ *cluster.Op, _ *cluster.Guard) { m.says(func(f *fakeMember) { f.silent = true }) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := running(t, v36)
				defer d.end()
				o, g := defragOp, cluster.Guard{}
				change(m, &o, &g)
				if r := d.do(1, o, g); r.Outcome != cluster.OutcomeRefused {
					t.Errorf("%+v", r)
				}
				m.etcd.mu.Lock()
				defer m.etcd.mu.Unlock()
				for _, c := range m.etcd.calls {
					if c == "defragment" {
						t.Error("it was done")
					}
				}
			})
		})
	}
}

// A daemon that ends does not wait for a defragmentation.
func TestDefragmentAndTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		m.says(func(f *fakeMember) { f.takes = time.Minute })
		d.must(1, defragOp)
		began := time.Now()
		d.end()
		if passed := time.Since(began); passed > 5*time.Second {
			t.Errorf("the end took %s", passed)
		}
	})
}

// Compaction and disarming go through raft: they need the guard, like a change of
// the membership, and the host remembers what was compacted.
func TestCompactAndDisarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		defer d.end()
		g := cluster.Guard{Cluster: 0xc}
		m.etcd.mu.Lock()
		m.etcd.view.Members = []cluster.Member{{ID: 9, Name: "h1"}}
		g.Members, g.Voters = []cluster.MemberID{9}, []cluster.MemberID{9}
		m.etcd.mu.Unlock()
		compact := cluster.Op{Kind: cluster.OpCompact, Revision: 30}
		d.mustRefuse(1, compact)
		d.mustRefuse(1, cluster.Op{Kind: cluster.OpDisarm, Alarm: "NOSPACE", Member: 9})
		if r := d.do(1, cluster.Op{Kind: cluster.OpCompact}, g); r.Outcome != cluster.OutcomeRefused {
			t.Errorf("without a revision: %+v", r)
		}
		if r := d.do(1, compact, g); r.Outcome != cluster.OutcomeDone {
			t.Fatalf("%+v", r)
		}
		if w := d.look(1).Database; w == nil || w.Compacted != 30 || w.CompactedAt.IsZero() {
			t.Errorf("what is remembered: %+v", w)
		}
		if r := d.do(1, cluster.Op{Kind: cluster.OpDisarm, Alarm: "CORRUPT", Member: 77}, g); r.Outcome != cluster.OutcomeDone {
			t.Errorf("an alarm of a member that is gone: %+v", r)
		}
		m.says(func(f *fakeMember) { f.callErr = errors.New("no") })
		if r := d.do(1, cluster.Op{Kind: cluster.OpCompact, Revision: 50}, g); r.Outcome != cluster.OutcomeFailed {
			t.Errorf("%+v", r)
		}
		if w := d.look(1).Database; w.Compacted != 30 {
			t.Errorf("remembered what was not done: %+v", w)
		}
	})
}
