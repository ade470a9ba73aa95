package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
)

// served is the intent of a generation that serves.
func (m *machine) served(generation uint64, nonce string, c cluster.ClusterID, write uint64) *cluster.Intent {
	return &cluster.Intent{
		Name: m.state().Cluster, Generation: generation, Nonce: nonce, Token: "t1", State: cluster.IntentFounded, Cluster: c, Write: write,
		Voters: []cluster.Voter{{Host: "h2", Member: 2}},
	}
}

// withAside is a host that set member 9 aside, which a quorum had removed.
func withAside(t *testing.T, after time.Duration) (*machine, *daemon, cluster.Op) {
	m := newMachine(t)
	_, sources := staging(m)
	d := m.boot(sources, func(_ *session, o *host.Options) { o.PruneAfter = after })
	m.joined()
	d.must(1, prepareOp)
	d.must(1, joinOp(9))
	d.look(1)
	d.must(1, cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Generation: 1, Reason: cluster.AsideRemoved})
	d.told(m.served(1, "n1", 0xc, 1))
	st := d.look(1)
	if len(st.SetAside) != 1 || !st.SetAside[0].Prunable() || st.SetAside[0].Log != (cluster.Progress{Term: 2, Index: 9}) || st.SetAside[0].Version != v35 || st.PruneAfter != after || !slices.Contains(st.GaveUp, st.SetAside[0].Member) {
		t.Fatalf("what was set aside, and what is known of it: %+v", st.SetAside)
	}
	return m, d, cluster.Op{Kind: cluster.OpPrune, Host: "h1", Member: 9, Cluster: 0xc, Generation: 1, Dir: st.SetAside[0].Name(), Backup: "b"}
}

// TestDoubtedIsNotPruned: what a member leaves whose keys were doubted is kept, whoever
// has it set aside, and whatever they know of it.
func TestDoubtedIsNotPruned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		_, sources := staging(m)
		d := m.boot(sources, func(_ *session, o *host.Options) { o.PruneAfter = time.Hour })
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		d.must(1, cluster.Op{Kind: cluster.OpHash, Member: 9, Cluster: 0xc, Revision: 4, Doubt: cluster.DoubtFound})
		synctest.Wait()
		d.end()
		d = m.boot(sources, func(_ *session, o *host.Options) { o.PruneAfter = time.Hour }) // and another daemon
		defer d.end()
		d.look(1)
		d.must(1, cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Generation: 1, Reason: cluster.AsideRemoved})
		d.told(m.served(1, "n1", 0xc, 1))
		st := d.look(1)
		if len(st.SetAside) != 1 || st.SetAside[0].Doubt != cluster.DoubtFound || st.SetAside[0].Prunable() {
			t.Fatalf("what was set aside, and what is known of it: %+v", st.SetAside)
		}
		later(2 * time.Hour)
		op := cluster.Op{Kind: cluster.OpPrune, Host: "h1", Member: 9, Cluster: 0xc, Generation: 1, Dir: st.SetAside[0].Name(), Backup: "b"}
		if r := d.do(1, op, cluster.Guard{}); r.Outcome != cluster.OutcomeRefused || len(d.look(1).SetAside) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestSupersededLogIsOnRecord: whoever looks for data that goes further than what
// serves is told how far it goes; and that alone lets nothing go by itself.
func TestSupersededLogIsOnRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		_, sources := staging(m)
		d := m.boot(sources)
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		d.must(1, cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Generation: 1, Reason: cluster.AsideSuperseded})
		st := d.look(1)
		d.end()
		if len(st.SetAside) != 1 || st.SetAside[0].Prunable() || st.SetAside[0].Log != (cluster.Progress{Term: 2, Index: 9}) {
			t.Fatalf("what was set aside, and what is known of it: %+v", st.SetAside)
		}
	})
}

func (d *daemon) told(in *cluster.Intent) {
	d.t.Helper()
	if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in}); r.State == nil || r.State.Intent.Order(in) != 0 {
		d.t.Fatalf("the intent was not taken: %+v", r)
	}
}

// A host prunes on a leader's word only what its own record says was removed by
// a quorum of the cluster that it knows to serve, and not before its time.
func TestPruneRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d, op := withAside(t, time.Hour)
		defer d.end()
		d.mustRefuse(1, op) // too young
		later(time.Hour)
		for what, change := range map[string]func(*cluster.Op){
			"another member": func(o *cluster.Op) { o.Member = 8 }, "another cluster": func(o *cluster.Op) { o.Cluster = 0xd },
			"another generation": func(o *cluster.Op) { o.Generation = 2 }, "no member": func(o *cluster.Op) { o.Member = 0 },
		} {
			bad := op
			change(&bad)
			if r := d.do(1, bad, cluster.Guard{}); r.Outcome != cluster.OutcomeRefused {
				t.Errorf("%s: %+v", what, r)
			}
		}
		if st := d.look(1); len(st.SetAside) != 1 {
			t.Fatalf("%+v", st.SetAside)
		}
		d.must(1, op)
		if st := d.look(1); len(st.SetAside) != 0 {
			t.Fatalf("%+v", st.SetAside)
		}
		d.must(1, op) // it was so already
		if m.state().Local.State != cluster.MemberNone {
			t.Fatalf("%+v", m.state().Local)
		}
	})
}

// Each fact of the host's own record, taken away, keeps the directory.
func TestPruneRemovedKeeps(t *testing.T) {
	aside := func(change func(*cluster.SetAside)) func(*machine, *daemon) {
		return func(m *machine, _ *daemon) {
			m.mu.Lock()
			defer m.mu.Unlock()
			change(&m.disk.aside[0])
		}
	}
	for what, change := range map[string]func(m *machine, d *daemon){
		"another reason":    aside(func(a *cluster.SetAside) { a.Reason = cluster.AsideSuperseded }),
		"no end of its log": aside(func(a *cluster.SetAside) { a.Log = cluster.Progress{} }),
		"no time":           aside(func(a *cluster.SetAside) { a.At = time.Time{} }),
		"no cluster":        aside(func(a *cluster.SetAside) { a.Cluster = 0 }),
		"no generation":     aside(func(a *cluster.SetAside) { a.Generation = 0 }),
		"a disk that gave it up": func(m *machine, d *daemon) {
			d.end()
			m.edit(func(s *record.State) { s.Carried = nil })
			_, sources := staging(m)
			*d = *m.boot(sources, func(_ *session, o *host.Options) { o.PruneAfter = time.Hour })
			if st := d.look(1); len(st.SetAside) != 1 || !st.SetAside[0].Foreign {
				m.t.Errorf("%+v", st.SetAside)
			}
		},
		"a voter on record": func(m *machine, d *daemon) { in := m.served(1, "n1", 0xc, 2); in.Voters[0].Member = 9; d.told(in) },
		"a voter to be": func(m *machine, d *daemon) {
			in := m.served(1, "n1", 0xc, 2)
			in.Next = []cluster.Voter{{Member: 9}}
			d.told(in)
		},
		"quarantine": func(m *machine, d *daemon) { in := m.served(1, "n1", 0xc, 2); in.Quarantined = true; d.told(in) },
		"a founding": func(m *machine, d *daemon) {
			in := m.served(1, "n1", 0xc, 2)
			in.State = cluster.IntentFounding
			d.told(in)
		},
		"another cluster now": func(m *machine, d *daemon) { d.told(m.served(1, "n1", 0xe, 2)) },
		"a later generation": func(m *machine, d *daemon) {
			in := m.served(2, "n2", 0xe, 1)
			in.History = []cluster.PastGeneration{{Generation: 1, Cluster: 0xc, Closed: true}}
			d.told(in)
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d, op := withAside(t, time.Hour)
				defer d.end()
				later(2 * time.Hour)
				change(m, d)
				r := d.mustRefuse(1, op)
				if st := d.look(1); len(st.SetAside) != 1 {
					t.Fatalf("it is gone: %+v", r)
				}
			})
		})
	}
	bubble(t, func(t *testing.T) {
		_, d, op := withAside(t, 0)
		defer d.end()
		later(100 * time.Hour)
		d.mustRefuse(1, op)
	})
}

// A host that runs a member looks through it, whatever a leader says.
func TestPruneRemovedBesideAMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d, op := withAside(t, time.Hour)
		defer d.end()
		prepare := prepareOp
		prepare.Known = []cluster.MemberID{2, 3}
		d.must(1, prepare)
		d.must(1, joinOp(10))
		d.look(1)
		later(2 * time.Hour)
		set := func(term, applied uint64) cluster.Guard {
			m.etcd.mu.Lock()
			defer m.etcd.mu.Unlock()
			m.etcd.status.Term, m.etcd.status.Applied = term, applied
			g := cluster.Guard{Cluster: m.etcd.view.Cluster}
			for _, x := range m.etcd.view.Members {
				g.Members = append(g.Members, x.ID)
				if !x.Learner {
					g.Voters = append(g.Voters, x.ID)
				}
			}
			return g
		}
		refuses := func(what string, g cluster.Guard) {
			t.Helper()
			if r := d.do(1, op, g); r.Outcome != cluster.OutcomeRefused {
				t.Fatalf("%s: %+v", what, r)
			}
		}
		refuses("at the end of the log", set(2, 9))
		refuses("in a lower term", set(1, 99))
		g := set(2, 10)
		refuses("no guard", cluster.Guard{})
		refuses("another membership", cluster.Guard{Cluster: g.Cluster, Members: []cluster.MemberID{77}, Voters: []cluster.MemberID{77}})
		if r := d.do(1, op, g); r.Outcome != cluster.OutcomeDone {
			t.Fatalf("%+v", r)
		}
	})
}

// What another member's ID is in the head of, or nothing can be read of, is set
// aside without the end of its log, and so it is never pruned by itself.
func TestSetAsideOfAnotherLog(t *testing.T) {
	for _, owner := range []cluster.MemberID{77, 9} {
		bubble(t, func(t *testing.T) {
			m := newMachine(t)
			_, sources := staging(m)
			d := m.boot(sources)
			defer d.end()
			m.joined()
			d.must(1, prepareOp)
			d.must(1, joinOp(9))
			d.look(1)
			m.mu.Lock()
			m.disk.data["t1"].owner = owner
			m.mu.Unlock()
			d.must(1, cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Generation: 1, Reason: cluster.AsideRemoved})
			if st := d.look(1); len(st.SetAside) != 1 || st.SetAside[0].Prunable() != (owner == 9) {
				t.Errorf("a log of %s: %+v", owner, st.SetAside)
			}
		})
	}
}

// A directory that cannot be removed is a problem for a while, and then asked
// for again; nothing else of the host is unfit for it.
func TestPruneRemovedFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d, op := withAside(t, time.Hour)
		defer d.end()
		later(2 * time.Hour)
		m.mu.Lock()
		m.heldBy = errors.New("held by process 7")
		m.mu.Unlock()
		if r := d.do(1, op, cluster.Guard{}); r.Outcome != cluster.OutcomeFailed {
			t.Fatalf("%+v", r)
		}
		if st := d.look(1); !hasProblem(st, "aside-not-pruned") || !st.Free() || len(st.SetAside) != 1 {
			t.Fatalf("%+v", st)
		}
		later(11 * time.Minute)
		if st := d.look(1); hasProblem(st, "aside-not-pruned") {
			t.Fatal("the problem stays")
		}
		synctest.Wait()
	})
}

// What a crash left of a directory that was being pruned goes at the next start.
func TestFileDiskFinishesRemovals(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	for _, token := range []string{"t1", "t2"} {
		if err := d.CreateData(token, "d1"); err != nil {
			t.Fatal(err)
		}
		aside, err := d.SetAside(token, cluster.SetAside{Reason: cluster.AsideRemoved})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.RemoveAside(aside.Name()); err != nil { // and no more
			t.Fatal(err)
		}
	}
	if err := d.CreateData("t3", "d1"); err != nil {
		t.Fatal(err)
	}
	kept, err := d.SetAside("t3", cluster.SetAside{Reason: cluster.AsideRemoved})
	if err != nil {
		t.Fatal(err)
	}
	if err := openDisk(t, dir, nil).FinishRemovals(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "data-trashcan")); err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v; want %s with its note", entries, err, kept.Name())
	}
	if _, err := os.Stat(filepath.Join(dir, "etcdadm", "pruning")); !os.IsNotExist(err) {
		t.Fatal("what was taken out is there still")
	}
}
