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
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
)

func TestFounderStartsAndIsMarkedStarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		if st := d.look(1); !st.Free() || st.Promised != fence(1) || st.Epoch == 0 || st.Disk == "" {
			t.Fatalf("a fresh host says %+v", st)
		}
		d.must(1, m.found(1))
		st := d.look(1)
		if st.Local.State != cluster.MemberStarted || !st.Local.HasData || st.Local.Cluster != 0xc || st.Process.State != cluster.ProcessRunning {
			t.Fatalf("after the start: %+v", st)
		}
		l := m.starts[0]
		if !l.Founding || len(l.InitialCluster) != 1 || l.InitialCluster[0].Name != "h1" || l.Version != v35 || len(l.Options) != 1 {
			t.Fatalf("launched as %+v", l)
		}
		if s := m.state(); s.Launch.Founding || s.Launch.InitialCluster != nil {
			t.Fatal("the record still has what only a first start reads")
		}
		d.must(1, m.found(1)) // again: it is so already
		if len(m.starts) != 1 {
			t.Fatalf("%d starts", len(m.starts))
		}
	})
}

func TestFounderNeedsTheIntent(t *testing.T) {
	for name, spoil := range map[string]func(*machine, *cluster.Op){
		"no intent":          func(m *machine, _ *cluster.Op) { m.intent = nil },
		"another cluster":    func(m *machine, _ *cluster.Op) { m.intent.Name = "other" },
		"another nonce":      func(m *machine, _ *cluster.Op) { m.intent.Nonce = "x" },
		"another generation": func(m *machine, _ *cluster.Op) { m.intent.Generation = 2 },
		"another disk":       func(m *machine, _ *cluster.Op) { m.intent.Founders[0].Disk = "x" },
		"another member":     func(m *machine, o *cluster.Op) { o.Member = 77 },
		"other peer URLs":    func(m *machine, _ *cluster.Op) { m.intent.Founders[0].URLs.Peer = []string{"http://x:1"} },
		"founded, unlisted":  func(m *machine, _ *cluster.Op) { m.intent.State = cluster.IntentFounded },
		"no such release": func(m *machine, o *cluster.Op) {
			o.Version, m.intent.Version = cluster.Version{}, cluster.MustVersion("3.7.9")
		},
		"for another host": func(m *machine, o *cluster.Op) { o.Host = "h2" },
		"foreign data":     func(m *machine, _ *cluster.Op) { m.foreign = []cluster.SetAside{{Dir: "x"}} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				d := m.boot()
				defer d.end()
				d.look(1)
				op := m.found(1)
				spoil(m, &op)
				d.mustRefuse(1, op)
				if m.running != nil || m.state().Local.State != cluster.MemberNone {
					t.Fatal("a refused op left something")
				}
			})
		})
	}
}

func TestFounderStartsLaterWhileListed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		d.look(1)
		op := m.found(1)
		m.intent.State = cluster.IntentFounded
		op.Members = []cluster.Member{{ID: 1}}
		d.must(1, op)
	})
}

func TestJoinerNeedsItsPreparation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		m.joined()
		d.mustRefuse(1, joinOp(9))
		d.must(1, prepareOp)
		n := m.writes()
		d.must(1, prepareOp)
		if m.writes() != n {
			t.Fatal("an equal preparation was written again")
		}
		if r := d.mustRefuse(1, joinOp(2)); !strings.Contains(r.Reason, "existed before") {
			t.Fatal(r.Reason)
		}
		wrong := joinOp(9)
		wrong.Cluster = 0xd
		d.mustRefuse(1, wrong)
		wrong = joinOp(9)
		wrong.Members[2].PeerURLs = []string{"http://x:1"}
		d.mustRefuse(1, wrong)
		d.must(1, joinOp(9))
		l := m.starts[0]
		if l.Founding || l.Token != "t1" {
			t.Fatalf("launched as %+v", l)
		}
		var names []string
		for _, x := range l.InitialCluster {
			names = append(names, x.Name)
		}
		if want := []string{"h2", "member-3", "h1"}; !slices.Equal(names, want) {
			t.Fatalf("names %v, want %v", names, want)
		}
		d.mustRefuse(1, prepareOp)
	})
}

func TestForgetDropsAPreparationOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		m.joined()
		forget := cluster.Op{Kind: cluster.OpForget}
		d.must(1, forget)
		d.must(1, prepareOp)
		d.must(1, forget)
		if st := d.look(1); !st.Free() || st.Local.State != cluster.MemberNone {
			t.Fatalf("%+v", st.Local)
		}
		d.mustRefuse(1, joinOp(9))
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.mustRefuse(1, forget)
	})
}

// started is a machine with a member that runs, and its daemon.
func started(t *testing.T) (*machine, *daemon) {
	m := newMachine(t)
	d := m.boot()
	m.joined()
	d.must(1, prepareOp)
	d.must(1, joinOp(9))
	d.look(1)
	return m, d
}

func TestRestartOfTheDaemonAdopts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.etcd.silent = true
		d = m.boot()
		defer d.end()
		if st := d.look(1); st.Process.State != cluster.ProcessSilent || st.Status != nil {
			t.Fatalf("an adopted process that does not answer is %+v", st.Process)
		}
		m.etcd.mu.Lock()
		m.etcd.silent = false
		m.etcd.mu.Unlock()
		if st := d.look(1); st.Process.State != cluster.ProcessRunning || st.Status == nil {
			t.Fatalf("after it answered: %+v", st.Process)
		}
		m.etcd.mu.Lock()
		m.etcd.silent = true
		m.etcd.mu.Unlock()
		if st := d.look(1); st.Process.State != cluster.ProcessRunning {
			t.Fatalf("it answered before: %+v", st.Process)
		}
		if len(m.starts) != 1 {
			t.Fatalf("%d starts", len(m.starts))
		}
	})
}

func TestAdoptedMemberWithAnotherIDIsForeign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.etcd.status.Member = 8
		d = m.boot()
		defer d.end()
		st := d.look(1)
		if st.Process.State != cluster.ProcessForeign || st.View != nil || !hasProblem(st, "wrong-member") {
			t.Fatalf("%+v %+v", st.Process, st.Problems)
		}
	})
}

func TestForeignProcessIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.running, m.adoptErr = nil, errors.New("the lock is held by process 7")
		d = m.boot()
		defer d.end()
		st := d.look(1)
		if !hasProblem(st, "process-foreign") || m.running != nil {
			t.Fatalf("%+v", st.Problems)
		}
		d.mustRefuse(1, joinOp(9))
		later(time.Minute)
		if len(m.starts) != 1 {
			t.Fatal("it was started all the same")
		}
	})
}

func TestRestartOfTheMachineStartsWithoutLeaderAndStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.running, m.intent = nil, nil
		d = m.boot()
		defer d.end()
		synctest.Wait()
		if m.running == nil || len(m.starts) != 2 || m.starts[1].InitialCluster != nil {
			t.Fatalf("starts: %+v", m.starts)
		}
	})
}

func TestStartIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.running, m.ensureErr = nil, errors.New("no such release")
		d = m.boot()
		defer d.end()
		st := d.look(1)
		if !hasProblem(st, "member-not-started") {
			t.Fatalf("%+v", st.Problems)
		}
		for _, p := range st.Problems {
			if strings.Contains(p.Hint, "log") {
				t.Errorf("etcd did not run, and its log is to be read: %s", p.Hint)
			}
		}
		m.mu.Lock()
		m.ensureErr = fmt.Errorf("issue: %w", &pki.Error{Op: "issue", File: "f", Err: pki.ErrNoKey, Advice: "put the key there"})
		m.mu.Unlock()
		later(11 * time.Second)
		if st := d.look(1); !slices.ContainsFunc(st.Problems, func(p cluster.Problem) bool { return strings.HasPrefix(p.Hint, "put the key there; ") }) {
			t.Errorf("what the error says can be done is not told: %+v", st.Problems)
		}
		m.mu.Lock()
		m.ensureErr = nil
		m.mu.Unlock()
		later(11 * time.Second)
		if st := d.look(1); m.running == nil || len(st.Problems) > 0 {
			t.Fatalf("%+v", st.Problems)
		}
	})
}

// What the disk shows, against what is recorded: the table of rule 8a.
func TestEvidenceAtBoot(t *testing.T) {
	for _, c := range []struct {
		name    string
		slow    bool // the log was never written: the record says starting
		dir     func(*machine)
		starts  bool
		newDisk bool
	}{
		{name: "starting, mark, no log", slow: true, dir: func(*machine) {}, starts: true},
		{name: "starting, mark and log", slow: true, dir: func(m *machine) { m.writeLog() }, starts: true},
		{name: "starting, no directory", slow: true, dir: func(m *machine) { delete(m.disk.data, "t1") }, newDisk: true},
		{name: "starting, another mark", slow: true, dir: func(m *machine) { m.disk.data["t1"].mark = "x" }, newDisk: true},
		{name: "started, mark and log", dir: func(*machine) {}, starts: true},
		{name: "started, no directory", dir: func(m *machine) { delete(m.disk.data, "t1") }, newDisk: true},
		{name: "started, no log", dir: func(m *machine) { m.disk.data["t1"].wal = false }, newDisk: true},
		{name: "started, no mark", dir: func(m *machine) { m.disk.data["t1"].mark = "" }, newDisk: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				m.slowLog = c.slow
				d := m.boot()
				m.joined()
				d.must(1, prepareOp)
				d.must(1, joinOp(9))
				before := d.look(1)
				if want := map[bool]cluster.MemberState{true: cluster.MemberStarting, false: cluster.MemberStarted}[c.slow]; before.Local.State != want {
					t.Fatalf("it is %s", before.Local.State)
				}
				d.end()
				c.dir(m)
				m.running = nil
				d = m.boot()
				defer d.end()
				st := d.look(1)
				if got := m.running != nil; got != c.starts {
					t.Errorf("runs: %v, want %v", got, c.starts)
				}
				if got := st.Disk != before.Disk; got != c.newDisk {
					t.Errorf("new disk: %v, want %v", got, c.newDisk)
				}
				if c.newDisk {
					if st.Host != "h1" || !st.Free() || len(m.disk.data) != 0 {
						t.Errorf("the new disk is not free: %+v, data %v", st, m.disk.data)
					}
					d.mustRefuse(1, joinOp(9)) // nothing proves it
					d.must(1, prepareOp)
					d.mustRefuse(1, joinOp(9)) // this directory carried it
				}
			})
		})
	}
}

// A process that ended because it could not read its data is told as that until the member
// answers: between its starts, and while one is under way.
func TestDamagedUntilItAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		d.look(1)
		m.mu.Lock()
		m.damaged, m.restarts = "walpb: crc mismatch", 1
		launch := *m.running
		m.mu.Unlock()
		if st := d.look(1); st.Status == nil || st.Process.Damaged != "" {
			t.Errorf("it answers, and is told as %+v", st.Process)
		}
		m.die()
		if st := d.look(1); st.Process.Damaged != m.damaged {
			t.Errorf("it ended, and is told as %+v", st.Process)
		}
		if err := (process{d.session}).revive(launch); err != nil {
			t.Fatal(err)
		}
		if st := d.look(1); st.Status == nil || st.Process.Damaged != "" {
			t.Errorf("it answers again, and is told as %+v", st.Process)
		}
	})
}

func TestWipedWhileRunningIsNotRestarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		disk := d.look(1).Disk
		launch := *m.running
		m.mu.Lock()
		m.disk.data["t1"] = &directory{}
		m.mu.Unlock()
		if st := d.look(1); !hasProblem(st, "data-vanished") || m.running == nil || st.Disk != disk {
			t.Fatalf("while it runs: %+v", st.Problems)
		}
		r := d.mustRefuse(1, cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36})
		if !strings.Contains(r.Reason, "would not bring it back") {
			t.Fatal(r.Reason)
		}
		m.die()
		if err := (process{d.session}).revive(launch); err == nil {
			t.Fatal("it was started again")
		}
		synctest.Wait()
		st := d.look(1)
		if st.Disk == disk || st.Local.State != cluster.MemberNone || len(m.disk.moved) != 1 || hasProblem(st, "data-vanished") {
			t.Fatalf("%+v", st)
		}
	})
}

func TestRestartWithOtherSettings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		op := cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36, Member: 9, Cluster: 0xc, Quarantined: true}
		d.must(1, op)
		st := d.look(1)
		if l := m.starts[1]; l.Version != v36 || !l.Quarantined || l.InitialCluster != nil || st.Local.Version != v36 || !st.Local.Quarantined {
			t.Fatalf("launched as %+v, recorded as %+v", l, st.Local)
		}
		d.must(1, op) // the same settings: it is restarted as it is
		if len(m.starts) != 3 {
			t.Fatalf("%d starts", len(m.starts))
		}
		op.Member = 8
		d.mustRefuse(1, op)
		op.Member, op.Version = 9, cluster.MustVersion("3.7.3")
		d.mustRefuse(1, op)
	})
}

func TestStopLasts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.must(1, cluster.Op{Kind: cluster.OpStop, Member: 9})
		later(30 * time.Second)
		d.end()
		d = m.boot()
		defer d.end()
		if st := d.look(1); m.running != nil || st.Local.Run || !st.Local.HasData {
			t.Fatalf("%+v", st.Local)
		}
		d.must(1, joinOp(9)) // evidence (a): its log is there
		if m.running == nil || !d.look(1).Local.Run {
			t.Fatal("it does not run")
		}
	})
}

func TestSetAside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		disk := d.look(1).Disk
		op := cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xd, Reason: "removed"}
		d.mustRefuse(1, op)
		op.Cluster, op.Member = 0xc, 8
		d.mustRefuse(1, op)
		op.Member = 9
		m.heldBy = errors.New("held by process 7")
		if r := d.do(1, op, cluster.Guard{}); r.Outcome != cluster.OutcomeFailed {
			t.Fatalf("%+v", r)
		}
		if st := d.look(1); st.Local.State != cluster.MemberRemoved || st.Free() || !hasProblem(st, "data-not-set-aside") {
			t.Fatalf("%+v", st.Local)
		}
		m.mu.Lock()
		m.heldBy = nil
		m.mu.Unlock()
		later(11 * time.Second) // nobody asks again
		st := d.look(1)
		if !st.Free() || st.Disk != disk || len(st.SetAside) != 1 || m.running != nil {
			t.Fatalf("%+v", st)
		}
		d.must(1, op)
		d.must(1, prepareOp)
		d.mustRefuse(1, joinOp(9))
		d.must(1, joinOp(10))
	})
}

func TestRefuseGeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.must(1, cluster.Op{Kind: cluster.OpRefuse, Generation: 2})
		if st := d.look(1); m.running != nil || st.LowestGeneration != 2 || st.Local.Run {
			t.Fatalf("%+v", st)
		}
		d.must(1, cluster.Op{Kind: cluster.OpRefuse, Generation: 1}) // never down
		d.mustRefuse(1, joinOp(9))
		d.mustRefuse(1, cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36})
		d.end()
		d = m.boot()
		defer d.end()
		if st := d.look(1); m.running != nil || st.LowestGeneration != 2 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestHigherIntentStopsTheMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		in := &cluster.Intent{
			Name: "test", Generation: 2, Nonce: "n2", Write: 1,
			History: []cluster.PastGeneration{{Generation: 1, Cluster: 0xc, Closed: true}},
		}
		other := in.Clone()
		other.Name = "other"
		beside := in.Clone() // of another founding under the same name
		beside.History = []cluster.PastGeneration{{Generation: 1, Cluster: 0xd, Closed: true}}
		for _, in := range []*cluster.Intent{other, beside} {
			d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in})
			synctest.Wait()
			if m.running == nil || m.state().Intent != nil {
				t.Fatal("an intent of another cluster was taken")
			}
		}
		if !hasProblem(d.look(1), "two-intents") {
			t.Fatal("nobody is told of the other founding")
		}
		d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in})
		synctest.Wait()
		if m.running != nil {
			t.Fatal("the member of the old generation runs")
		}
		conflict := in.Clone()
		conflict.Nonce, conflict.Write = "other", 7
		r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: conflict})
		if r.State.Intent.Nonce != "n2" || !hasProblem(r.State, "two-intents") {
			t.Fatalf("%+v", r.State)
		}
		n := m.writes()
		d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in})
		if m.writes() != n {
			t.Fatal("a known intent was written again")
		}
		d.end()
		d = m.boot()
		defer d.end()
		if d.look(1); m.running != nil {
			t.Fatal("it was started again")
		}
	})
}

func TestDiskThatWentBack(t *testing.T) {
	ask := func(epoch uint64, disk func(*machine) cluster.DiskID) func(*session, *host.Options) {
		return func(s *session, o *host.Options) {
			id := disk(s.m)
			o.AskPeers = func(ctx context.Context, of []cluster.HostID) []cluster.Ping {
				s.askedN++
				if !slices.Equal(of, []cluster.HostID{"h2"}) {
					t.Errorf("%v are waited for", of)
				}
				if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 2*time.Second {
					t.Error("peers are asked without a bound")
				}
				return []cluster.Ping{{Cluster: "test", Host: "h2", RememberedDisk: id, Remembered: epoch}}
			}
		}
	}
	own := func(m *machine) cluster.DiskID { return m.state().Disk }
	for _, c := range []struct {
		name     string
		epoch    uint64
		disk     func(*machine) cluster.DiskID
		prepared bool // the disk went back to before the start
		newDisk  bool
	}{
		{"behind", 1000, own, false, true},
		{"behind, to before the start", 1000, own, true, true},
		{"as told", 1, own, false, false},
		{"about another disk", 1000, func(*machine) cluster.DiskID { return "x" }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				d := m.boot()
				m.joined()
				d.must(1, prepareOp)
				if !c.prepared {
					d.must(1, joinOp(9))
				}
				disk := d.look(1).Disk
				d.end()
				m.running = nil
				m.took[9] = true // before the disk went back
				m.edit(func(s *record.State) {
					s.Intent = &cluster.Intent{Name: "test", Generation: 1, Nonce: "n1", Token: s.Local.Token, State: cluster.IntentFounded, Voters: []cluster.Voter{{Host: "h2", Member: 2}}}
				})
				d = m.boot(ask(c.epoch, c.disk))
				defer d.end()
				st := d.look(1)
				if d.askedN != 1 {
					t.Errorf("peers were asked %d times", d.askedN)
				}
				if got := st.Disk != disk; got != c.newDisk {
					t.Errorf("new disk: %v, want %v", got, c.newDisk)
				}
				if c.newDisk && (m.running != nil || st.Local.State != cluster.MemberNone) {
					t.Errorf("%+v", st.Local)
				}
				if c.newDisk && !c.prepared && (len(m.disk.moved) != 1 || m.disk.aside[0].Reason != "disk went back in time") {
					t.Errorf("set aside: %+v", m.disk.aside)
				}
			})
		})
	}
	t.Run("not asked when the process was adopted, or the disk is fresh", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newMachine(t)
			d := m.boot(ask(1000, own))
			m.joined()
			d.must(1, prepareOp)
			d.must(1, joinOp(9))
			n := d.askedN
			d.end()
			d = m.boot(ask(1000, own))
			defer d.end()
			d.look(1)
			if n+d.askedN != 0 {
				t.Errorf("asked %d times", n+d.askedN)
			}
		})
	})
}

func TestPeerThatAnswersLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		disk := d.look(1).Disk
		d.Remember([]cluster.Ping{{Cluster: "test", Host: "h2", Disk: "d2", Epoch: 3, RememberedDisk: disk, Remembered: 1000}})
		d.mustRefuse(1, joinOp(9))
		later(11 * time.Second)
		if st := d.look(1); st.Disk == disk || !st.Free() {
			t.Fatalf("%+v", st)
		}
	})
}

func TestBeatAndMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		synctest.Wait()
		first := d.Identity().Epoch
		d.Remember([]cluster.Ping{{Cluster: "test", Host: "h2", Disk: "d2", Epoch: 7, Endpoint: "h2:1"}, {Cluster: "other", Host: "h3", Disk: "d3"}})
		d.Remember([]cluster.Ping{{Cluster: "test", Host: "h2", Disk: "d2", Epoch: 5, Endpoint: "h2:1"}})
		d.RememberSpec(cluster.Spec{MemberCount: 3})
		n := m.writes()
		later(100 * time.Second)
		synctest.Wait()
		if got := m.writes() - n; got != 10 {
			t.Errorf("an idle host wrote %d times in 100 s", got)
		}
		if got := d.Identity().Epoch - first; got != 10 {
			t.Errorf("%d epochs in 100 s", got)
		}
		if d.Identity().Epoch != m.state().Epoch {
			t.Error("an epoch was told that is not durable")
		}
		last := d.Identity().Epoch
		d.end()
		d = m.boot()
		defer d.end()
		synctest.Wait()
		d.Remember(tells(m.state(), last))
		later(11 * time.Second)
		if d.Identity().Epoch != last+1 {
			t.Errorf("epoch %d after %d", d.Identity().Epoch, last)
		}
		if disk, epoch := d.Remembered("h2", ""); disk != "d2" || epoch != 7 {
			t.Errorf("remembered %s %d", disk, epoch)
		}
		if s := d.Spec(); s == nil || s.MemberCount != 3 || len(d.Peers()) != 1 {
			t.Errorf("spec %v peers %v", s, d.Peers())
		}
	})
}

// A disk that was away, with another one in its place, is remembered as well:
// it may come back from an image, behind what it told.
func TestPastDisksAreRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		synctest.Wait()
		told := func(disk cluster.DiskID, epoch uint64) {
			d.Remember([]cluster.Ping{{Cluster: "test", Host: "h2", Disk: disk, Epoch: epoch, Endpoint: "h2:1"}})
		}
		want := func(disk cluster.DiskID, epoch uint64) {
			t.Helper()
			if got, at := d.Remembered("h2", disk); at != epoch || got != disk && epoch != 0 {
				t.Errorf("of disk %s: %s at %d, want %d", disk, got, at, epoch)
			}
		}
		d.Remember([]cluster.Ping{cluster.Ping{Cluster: "test", Host: "h2", Disk: "first", Epoch: 1, Endpoint: "h2:1"}.Beat("its record is another one")})
		if peers := d.Peers(); len(peers) > 0 {
			t.Errorf("one that is refused is a newcomer: %v", peers)
		}
		told("first", 99)
		d.Remember([]cluster.Ping{cluster.Ping{Cluster: "test", Host: "h2", Disk: "first", Epoch: 100, Endpoint: "h2:1"}.Beat("its record is another one")})
		told("second", 3)
		want("first", 100)
		want("second", 3)
		told("first", 50) // from an image
		want("first", 100)
		want("second", 3)
		want("third", 0)
		later(11 * time.Second)
		d.end()
		d = m.boot()
		defer d.end()
		synctest.Wait()
		want("first", 100)
		want("second", 3)
		for i := range 50 {
			told(cluster.DiskID(fmt.Sprint("wiped-", i)), 1)
		}
		want("wiped-49", 1)
		if n := len(d.Peers()[0].Past); n != 8 {
			t.Errorf("%d disks are remembered", n)
		}
	})
}

func hasProblem(st *cluster.HostState, code string) bool {
	return slices.ContainsFunc(st.Problems, func(p cluster.Problem) bool { return p.Code == code && p.Sentence != "" })
}

// TestCrashLoopTakesTheNewestSettings: a member that dies again and again gets
// new options from its own host; one that ended once goes on as it was.
func TestCrashLoopTakesTheNewestSettings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		var option atomic.Value
		option.Store("--snapshot-count=bad")
		d := m.boot(func(_ *session, o *host.Options) {
			o.Options = func(cluster.Version) []string { return []string{option.Load().(string)} }
		})
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		option.Store("--snapshot-count=5000")
		dies := func(restarts int) []string {
			m.die()
			m.mu.Lock()
			m.restarts = restarts
			m.mu.Unlock()
			time.Sleep(15 * time.Second) // past the next epoch
			runs, starts := m.process()
			if !runs {
				t.Fatal("it was not started again")
			}
			return starts[len(starts)-1].Options
		}
		for n := 1; n < cluster.CrashLoop; n++ {
			if got := dies(n); got[0] != "--snapshot-count=bad" {
				t.Fatalf("after %d ends it has %v", n, got)
			}
		}
		if got := dies(cluster.CrashLoop); got[0] != "--snapshot-count=5000" {
			t.Fatalf("in a crash loop it has %v", got)
		}
		if l := m.state().Local; l.Options[0] != "--snapshot-count=5000" || l.Version != v35 || m.state().Launch.InitialCluster != nil {
			t.Fatalf("recorded %+v", l)
		}
		// It answers, and ends once: new options are the leader's matter again.
		d.look(1)
		option.Store("--snapshot-count=6000")
		if got := dies(cluster.CrashLoop + 1); got[0] != "--snapshot-count=5000" {
			t.Fatalf("after it answered it has %v", got)
		}
	})
}
