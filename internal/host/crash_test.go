package host_test

import (
	"context"
	"fmt"
	"testing"

	"etcdadm.io/cluster"
)

// step is a step of a life: what a leader asks for, and how a leader that lost
// the answer sees that it is done.
type step struct {
	name string
	op   func(*machine) cluster.Op
	done func(*cluster.HostState) bool
}

func local(state cluster.MemberState, id cluster.MemberID) func(*cluster.HostState) bool {
	return func(st *cluster.HostState) bool { return st.Local.State == state && st.Local.Member == id }
}

func always(op cluster.Op) func(*machine) cluster.Op { return func(*machine) cluster.Op { return op } }

// lives are the ordinary lives of a host. Every one ends with a running member.
var lives = map[string][]step{
	"founder": {
		{"start", func(m *machine) cluster.Op { return m.found(1) }, local(cluster.MemberStarted, 1)},
		{"upgrade", always(cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: v36}), func(st *cluster.HostState) bool { return st.Local.Version == v36 }},
		{"refuse", always(cluster.Op{Kind: cluster.OpRefuse, Generation: 2}), func(st *cluster.HostState) bool { return st.LowestGeneration == 2 && !st.Local.Run }},
		{"set aside", always(cluster.Op{Kind: cluster.OpSetAside, Member: 1, Cluster: 0xc}), local(cluster.MemberNone, 0)},
		{"start again", func(m *machine) cluster.Op { return m.found(2) }, local(cluster.MemberStarted, 2)},
	},
	"joiner": {
		{"prepare", always(prepareOp), local(cluster.MemberPrepared, 0)},
		{"start", always(joinOp(9)), local(cluster.MemberStarted, 9)},
		{"stop", always(cluster.Op{Kind: cluster.OpStop}), func(st *cluster.HostState) bool { return !st.Local.Run }},
		{"run", always(joinOp(9)), func(st *cluster.HostState) bool { return st.Local.Run }},
		{"quarantine", always(cluster.Op{Kind: cluster.OpRestart, Quarantined: true}), func(st *cluster.HostState) bool { return st.Local.Quarantined }},
		{"set aside", always(cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc}), local(cluster.MemberNone, 0)},
		{"prepare again", always(prepareOp), local(cluster.MemberPrepared, 0)},
		{"forget", always(cluster.Op{Kind: cluster.OpForget}), local(cluster.MemberNone, 0)},
		{"prepare once more", always(prepareOp), local(cluster.MemberPrepared, 0)},
		{"start another", always(joinOp(10)), local(cluster.MemberStarted, 10)},
	},
}

// driver leads one host through a life, over any number of daemons.
type driver struct {
	t     *testing.T
	m     *machine
	next  int
	fence uint64
	told  cluster.Fence // the highest promise that a leader heard of
	epoch uint64
	disk  cluster.DiskID
}

// drive goes on until the life is over or the daemon dies.
func (v *driver) drive(d *daemon, life []step) (over bool) {
	ctx := context.Background()
	for range 200 {
		select {
		case <-d.dead:
			return false
		default:
		}
		v.fence++
		r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(v.fence)})
		st := r.State
		if st == nil {
			v.t.Fatalf("no state: %+v", r)
		}
		select {
		case <-d.dead: // what a dead daemon says was never sent
			return false
		default:
		}
		v.check(r)
		if v.m.slowLog { // the member writes its log when it was seen once
			v.m.mu.Lock()
			if v.m.running != nil {
				v.m.writeLogLocked()
			}
			v.m.mu.Unlock()
		}
		if v.next < len(life) && life[v.next].done(st) {
			v.next++
			continue
		}
		if v.next == len(life) {
			return true
		}
		op := life[v.next].op(v.m)
		d.Apply(ctx, cluster.ApplyRequest{Fence: fence(v.fence), Disk: st.Disk, Stamp: r.Stamp, Op: op})
	}
	v.t.Fatalf("step %q is never done", life[v.next].name)
	return true
}

// check compares what is told with what was told before.
func (v *driver) check(r cluster.ObserveReply) {
	st := r.State
	if st.Promised.Less(v.told) {
		v.m.broken("the promise %v was told, now it is %v", v.told, st.Promised)
	}
	if (r.Stamp != "") != (st.Promised == fence(v.fence)) {
		v.m.broken("stamp %q with promise %v for fence %v", r.Stamp, st.Promised, fence(v.fence))
	}
	if st.Disk == v.disk && st.Epoch < v.epoch {
		v.m.broken("the epoch %d was told, now it is %d", v.epoch, st.Epoch)
	}
	v.told, v.epoch, v.disk = st.Promised, st.Epoch, st.Disk
}

// conserved makes sure that every log that was ever written is still there.
func (m *machine) conserved() {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := map[cluster.MemberID]bool{}
	for _, d := range m.disk.data {
		have[d.owner] = d.wal
	}
	for _, d := range m.disk.moved {
		have[d.owner] = have[d.owner] || d.wal
	}
	for id := range m.took {
		if !have[id] {
			m.broken("the log of member %s is lost", id)
		}
	}
}

// TestDaemonCrashesEverywhere kills the daemon at each of its port calls, before
// and after the call took effect, alone or together with the member, and lets
// the next one go on. The machine checks the laws at every call.
func TestDaemonCrashesEverywhere(t *testing.T) {
	for name, life := range lives {
		for _, after := range []bool{false, true} {
			for _, reboot := range []bool{false, true} {
				for _, slow := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/after=%v/reboot=%v/slow=%v", name, after, reboot, slow), func(t *testing.T) {
						calls := crashes(t, life, after, reboot, slow)
						if calls < 30 {
							t.Fatalf("only %d crashes: the test does not reach what it is about", calls)
						}
					})
				}
			}
		}
	}
}

// crashes runs the life once for each call of it, and returns how many.
func crashes(t *testing.T, life []step, after, reboot, slow bool) int {
	for n := 1; ; n++ {
		over := false
		bubble(t, func(t *testing.T) {
			m := newMachine(t)
			m.slowLog = slow
			m.joined()
			v := &driver{t: t, m: m}
			d := m.boot(crashing(n, after))
			over = v.drive(d, life)
			d.end()
			died := d.log
			if reboot {
				m.die()
			}
			d = m.boot()
			if !v.drive(d, life) {
				t.Error("the second daemon died")
			}
			d.look(v.fence + 1)
			d.end()
			if m.running == nil {
				m.broken("nothing runs at the end")
			}
			m.conserved()
			if t.Failed() {
				t.Logf("crash at call %d: %v", n, died)
			}
		})
		if over || t.Failed() {
			return n
		}
	}
}

// TestCrashesWhileForgetting kills the daemon at each call of finding out that
// its disk was wiped, or that only the log is gone.
func TestCrashesWhileForgetting(t *testing.T) {
	for name, wipe := range map[string]func(*machine){
		"wiped":   func(m *machine) { delete(m.disk.data, "t1") },
		"no log":  func(m *machine) { m.disk.data["t1"].wal = false },
		"no mark": func(m *machine) { m.disk.data["t1"].mark = "" },
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%v", name, after), func(t *testing.T) {
				n := 1
				for died := true; died && !t.Failed(); n++ {
					bubble(t, func(t *testing.T) { died = forgets(t, wipe, n, after) })
				}
				if n < 8 {
					t.Fatalf("only %d crashes", n)
				}
			})
		}
	}
}

func forgets(t *testing.T, wipe func(*machine), n int, after bool) (died bool) {
	m, d := started(t)
	disk := d.look(1).Disk
	d.end()
	m.die()
	wipe(m)
	d = m.boot(crashing(n, after))
	d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1)})
	select {
	case <-d.dead:
		died = true
	default:
	}
	d.end()
	d = m.boot()
	defer d.end()
	st := d.look(1)
	if st.Disk == disk || !st.Free() || len(m.starts) != 1 {
		t.Errorf("crash at call %d: %+v", n, st)
	}
	if r := d.do(1, joinOp(9), cluster.Guard{}); r.Outcome != cluster.OutcomeRefused {
		t.Errorf("crash at call %d: the forgotten member starts: %+v", n, r)
	}
	return died
}
