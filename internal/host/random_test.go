package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// TestRandomLives throws ops, crashes, reboots, wipes, full disks and dying
// processes at a host in a random order. The machine checks the laws at every
// call. A failing seed is a schedule: run it alone to see it.
func TestRandomLives(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 7)), 120) })
		})
		if t.Failed() {
			return
		}
	}
}

type randomHost struct {
	t     *testing.T
	r     *rand.Rand
	m     *machine
	d     *daemon
	v     *driver
	trace []string
}

func (x *randomHost) say(format string, args ...any) {
	x.trace = append(x.trace, fmt.Sprintf(format, args...))
}

func randomLife(t *testing.T, r *rand.Rand, actions int) {
	m := newMachine(t)
	m.joined()
	m.slowLog = r.IntN(2) == 0
	x := &randomHost{t: t, r: r, m: m, d: m.boot(), v: &driver{t: t, m: m}}
	for range actions {
		x.act()
		synctest.Wait()
		if t.Failed() {
			break
		}
	}
	x.d.end()
	if t.Failed() {
		for _, line := range x.trace {
			t.Log(line)
		}
	}
}

func (x *randomHost) act() {
	m := x.m
	switch n := x.r.IntN(100); {
	case n < 50:
		x.op()
	case n < 56:
		after, at := x.r.IntN(2) == 0, x.d.callsNow()+1+x.r.IntN(6)
		x.say("crash at call %d, after %v", at, after)
		m.mu.Lock()
		x.d.crashAt, x.d.after = at, after
		m.mu.Unlock()
	case n < 62:
		x.reboot()
	case n < 70:
		x.say("the process dies")
		if l := m.die(); l != nil && x.r.IntN(2) == 0 {
			x.say("and is started again: %v", process{x.d.session}.revive(*l))
		}
	case n < 75:
		x.wipe()
	case n < 80:
		full := x.r.IntN(2) == 0
		x.say("disk full: %v", full)
		m.mu.Lock()
		m.saveErr = nil
		if full {
			m.saveErr = errors.New("no space left on device")
		}
		m.mu.Unlock()
	case n < 90:
		x.say("the log is written")
		m.mu.Lock()
		if m.running != nil {
			m.writeLogLocked()
		}
		m.mu.Unlock()
	default:
		x.say("time passes")
		later(time.Duration(x.r.IntN(25)) * time.Second)
	}
}

// reboot ends the daemon, and perhaps the machine, and starts the next one.
func (x *randomHost) reboot() {
	machineToo := x.r.IntN(2) == 0
	x.say("reboot, of the machine %v", machineToo)
	x.d.end()
	if machineToo {
		x.m.die()
	}
	x.d = x.m.boot()
}

// wipe loses data behind the host's back.
func (x *randomHost) wipe() {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	for token, d := range x.m.disk.data {
		switch x.r.IntN(3) {
		case 0:
			x.say("%s is wiped", token)
			delete(x.m.disk.data, token)
		case 1:
			// Between the writing of the log and its being seen, losing the log
			// and not the mark beside it is beyond what can be known.
			var rec record.State
			if json.Unmarshal(x.m.disk.state, &rec) != nil || rec.Local.State != cluster.MemberStarted {
				continue
			}
			x.say("the log of %s is lost", token)
			d.wal = false
		case 2:
			x.say("the mark of %s is lost", token)
			d.mark = ""
		}
		return
	}
}

func (x *randomHost) op() {
	ctx := context.Background()
	n := x.v.fence + uint64(x.r.IntN(3))
	if n > 0 && x.r.IntN(5) == 0 {
		n--
	}
	req := cluster.ObserveRequest{Fence: fence(n)}
	if x.r.IntN(30) == 0 {
		gen := uint64(1 + x.r.IntN(3))
		req.Intent = &cluster.Intent{Name: "test", Generation: gen, Nonce: fmt.Sprintf("n%d", gen), Write: uint64(x.r.IntN(5))}
	}
	r := x.d.Observe(ctx, req)
	st := r.State
	if x.d.isDead() {
		return
	}
	x.say("observe %d: state %v, refused %v, busy %v", n, st != nil, r.Refused, r.Busy)
	if st == nil {
		return
	}
	if st.Disk != "" {
		x.v.fence = n
		if r.Stamp == "" { // a lower one was promised, or nothing could be written
			x.v.fence = st.Promised.Number
		}
		x.v.told, x.v.epoch, x.v.disk = maxFence(x.v, st), st.Epoch, st.Disk
	}
	op := x.anOp()
	a := x.d.Apply(ctx, cluster.ApplyRequest{Fence: fence(n), Disk: st.Disk, Stamp: r.Stamp, Op: op})
	x.say("%s member %s generation %d: %s %s", op.Kind, op.Member, op.Generation, a.Outcome, a.Reason)
}

func maxFence(v *driver, st *cluster.HostState) cluster.Fence {
	if st.Promised.Less(v.told) {
		v.m.broken("the promise %v was told, now it is %v", v.told, st.Promised)
	}
	if st.Disk == v.disk && st.Epoch < v.epoch {
		v.m.broken("the epoch %d was told, now it is %d", v.epoch, st.Epoch)
	}
	return st.Promised
}

func (x *randomHost) anOp() cluster.Op {
	id := cluster.MemberID(7 + x.r.IntN(6))
	gen := uint64(1 + x.r.IntN(2))
	switch x.r.IntN(10) {
	case 0, 1:
		op := prepareOp
		op.Generation, op.Nonce, op.Token = gen, fmt.Sprintf("n%d", gen), fmt.Sprintf("t%d", gen)
		return op
	case 2, 3, 4:
		op := joinOp(id)
		op.Generation, op.Nonce = gen, fmt.Sprintf("n%d", gen)
		return op
	case 5:
		if x.m.state().Disk == "" {
			return prepareOp
		}
		return x.m.found(gen)
	case 6:
		return cluster.Op{Kind: cluster.OpRestart, Changes: true, Version: []cluster.Version{v35, v36}[x.r.IntN(2)], Quarantined: x.r.IntN(2) == 0}
	case 7:
		return cluster.Op{Kind: cluster.OpStop}
	case 8:
		l := x.m.state().Local
		return cluster.Op{Kind: cluster.OpSetAside, Member: l.Member, Cluster: l.Cluster, Reason: "removed"}
	}
	if x.r.IntN(4) == 0 {
		return cluster.Op{Kind: cluster.OpRefuse, Generation: gen}
	}
	return cluster.Op{Kind: cluster.OpForget}
}
