package host_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// A permit is for the launch that it was given with, and as long as that is to run:
// what restarts a process by itself may ask with one from before.
func TestPermitIsOfOneLaunch(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*machine, *daemon)
		want bool
	}{
		"as it was": {func(*machine, *daemon) {}, true},
		"another launch was journaled": {func(_ *machine, d *daemon) {
			d.must(1, cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36})
		}, false},
		"it is to be stopped": {func(_ *machine, d *daemon) { d.must(1, cluster.Op{Kind: cluster.OpStop}) }, false},
		"its generation was refused": {func(_ *machine, d *daemon) {
			d.must(1, cluster.Op{Kind: cluster.OpRefuse, Generation: 2})
		}, false},
		"it was given up": {func(_ *machine, d *daemon) {
			d.must(1, cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Reason: cluster.AsideRemoved})
		}, false},
		"its log is another's": {func(m *machine, _ *daemon) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.disk.data["t1"].owner = 7
		}, false},
		"its log is gone": {func(m *machine, _ *daemon) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.disk.data["t1"].wal = false
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := started(t)
				defer d.end()
				permit := d.session.permit
				c.then(m, d)
				if err := permit(); (err == nil) != c.want {
					t.Errorf("permitted: %v, want %v", err, c.want)
				}
			})
		})
	}
}

// longOp keeps a host with slow reach at work for as many seconds.
func longOp(seconds int) cluster.Op {
	op := prepareOp
	op.Members = nil
	for i := range seconds {
		op.Members = append(op.Members, cluster.Member{ID: cluster.MemberID(i + 2), PeerURLs: []string{"http://up:2380"}})
	}
	return op
}

// slowReach takes its time with each member, and reaches it.
type slowReach struct{ *session }

func (slowReach) Reach(context.Context, []string) (open, answers bool) {
	time.Sleep(time.Second)
	return true, true
}

func withSlowReach(s *session, o *host.Options) { o.Reacher = slowReach{s} }

// busyWith begins an op that takes seconds, and returns when it runs.
func (d *daemon) busyWith(seconds int) (ended <-chan cluster.ApplyReply) {
	st := d.look(1)
	c := make(chan cluster.ApplyReply, 1)
	req := cluster.ApplyRequest{Fence: fence(1), Disk: st.Disk, Stamp: d.stamp, Op: longOp(seconds)}
	go func() { c <- d.Apply(context.Background(), req) }()
	synctest.Wait()
	return c
}

// restarted is a started member under a daemon whose ops can take long.
func restarted(t *testing.T) (*machine, *daemon) {
	m, d := started(t)
	d.end()
	d = m.boot(withSlowReach)
	d.look(1)
	return m, d
}

// Nothing of the host's own begins beside an op: not the look every ten seconds
// either, which would start a member that is not there, and make the host look idle.
func TestOneTaskAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := restarted(t)
		defer d.end()
		m.die()
		ended := d.busyWith(25)
		for range 3 {
			later(8 * time.Second)
			if runs, _ := m.process(); runs {
				t.Fatal("the member was started beside an op")
			}
			if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1)}); r.Busy == nil || r.Busy.Op.Kind != cluster.OpPrepare {
				t.Fatalf("with an op under way: %+v", r)
			}
		}
		<-ended
		later(11 * time.Second)
		if runs, _ := m.process(); !runs {
			t.Error("the member was not started after it")
		}
	})
}

// A host that shuts down begins nothing any more.
func TestNoTaskWhileTheHostEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := restarted(t)
		st := d.look(1)
		stamp := d.stamp
		d.end()
		_, before := m.process()
		r := d.Apply(context.Background(), cluster.ApplyRequest{
			Fence: fence(1), Disk: st.Disk, Stamp: stamp, Op: cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36},
		})
		if _, starts := m.process(); r.Outcome != cluster.OutcomeRefused || len(starts) != len(before) {
			t.Errorf("after the end: %s (%s), %d starts", r.Outcome, r.Reason, len(starts)-len(before))
		}
	})
}

// A host whose daemon has begun to end finishes the op that it has, and takes up no
// other one, while it still answers and promises.
func TestNoOpWhileTheDaemonEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := restarted(t)
		defer d.end()
		ended := d.busyWith(25)
		d.Rest()
		if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)}); r.Busy == nil || r.Refused != nil {
			t.Errorf("with an op under way: %+v", r)
		}
		if r := <-ended; strings.Contains(r.Reason, "shutting down") {
			t.Errorf("what was begun: %s (%s)", r.Outcome, r.Reason)
		}
		_, before := m.process()
		d.mustRefuse(2, cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36})
		if _, starts := m.process(); len(starts) != len(before) || m.state().Promised != fence(2) {
			t.Errorf("%d starts, promised: %s", len(starts)-len(before), m.state().Promised)
		}
	})
}

// Evidence that a permit missed is looked for again when the host gets to it: it may
// be back, its process may still run, or the host may have drawn the conclusion already.
func TestLostEvidenceIsLookedForAgain(t *testing.T) {
	wipe := func(m *machine) *directory {
		m.mu.Lock()
		defer m.mu.Unlock()
		was := m.disk.data["t1"]
		m.disk.data["t1"] = &directory{}
		return was
	}
	for name, c := range map[string]struct {
		run       func(m *machine, permit host.Permit)
		forgotten int // disks
	}{
		"gone": {func(m *machine, permit host.Permit) {
			m.die()
			wipe(m)
			_ = permit()
		}, 1},
		"missed twice": {func(m *machine, permit host.Permit) {
			m.die()
			wipe(m)
			_ = permit()
			synctest.Wait() // the first is seen to, and waits for the op
			_ = permit()
		}, 1},
		"back": {func(m *machine, permit host.Permit) {
			m.die()
			was := wipe(m)
			_ = permit()
			synctest.Wait()
			m.mu.Lock()
			m.disk.data["t1"] = was
			m.mu.Unlock()
		}, 0},
		"its process runs": {func(m *machine, permit host.Permit) {
			wipe(m)
			_ = permit()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := restarted(t)
				defer d.end()
				ended := d.busyWith(5)
				c.run(m, d.session.permit)
				synctest.Wait()
				<-ended
				synctest.Wait()
				if past := m.state().PastDisks; len(past) != c.forgotten {
					t.Errorf("%d disks were given up, want %d", len(past), c.forgotten)
				}
			})
		})
	}
}

// So it is for a member that has not written its log yet: what is gone of it is its mark.
func TestLostMarkOfAStartingMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		m.slowLog = true
		d := m.boot()
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		disk := d.look(1).Disk
		m.die()
		m.mu.Lock()
		delete(m.disk.data, "t1")
		m.mu.Unlock()
		if err := d.session.permit(); err == nil {
			t.Fatal("it may start")
		}
		synctest.Wait()
		if st := d.look(1); st.Disk == disk || st.Local.State != cluster.MemberNone {
			t.Errorf("disk %s after %s: %+v", st.Disk, disk, st.Local)
		}
	})
}

// lateOwner tells whose log it is after something else has happened.
type lateOwner struct {
	*session
	asked, answer chan struct{}
}

func (l lateOwner) Owner(token string) (cluster.ClusterID, cluster.MemberID, error) {
	c, id, err := l.session.Owner(token)
	select {
	case l.asked <- struct{}{}:
		<-l.answer
	default: // nobody waits for it
	}
	return c, id, err
}

// A look at a log that ends late says nothing about what was recorded meanwhile.
func TestLateLookAtALog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		m.slowLog = true
		late := lateOwner{asked: make(chan struct{}), answer: make(chan struct{})}
		d := m.boot(func(s *session, o *host.Options) { late.session = s; o.Disk = late })
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		st := d.look(1)
		m.writeLog()
		<-late.asked // by the host's own look
		r := d.Apply(context.Background(), cluster.ApplyRequest{
			Fence: fence(1), Disk: st.Disk, Stamp: d.stamp,
			Op: cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Reason: cluster.AsideSuperseded},
		})
		if r.Outcome != cluster.OutcomeDone {
			t.Fatalf("%s: %s", r.Outcome, r.Reason)
		}
		close(late.answer)
		synctest.Wait()
		if s := m.state(); s.Local.State != cluster.MemberNone || s.Launch != nil {
			t.Errorf("the member that was set aside is recorded again: %+v", s.Local)
		}
	})
}

// Where nothing runs, a guard of a restart keeps nothing up, and there is nobody to ask.
func TestGuardWhereNothingRuns(t *testing.T) {
	for name, restarts := range map[string]int{"stopped": 0, "waits for its next start": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := voter(t)
				defer d.end()
				m.die()
				m.mu.Lock()
				m.restarts = restarts
				m.mu.Unlock()
				m.etcd.mu.Lock()
				m.etcd.silent = true
				m.etcd.mu.Unlock()
				g := threeGuard
				g.NotLeader = true
				if r := d.do(1, cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36}, g); r.Outcome != cluster.OutcomeDone {
					t.Errorf("%s: %s", r.Outcome, r.Reason)
				}
			})
		})
	}
}
