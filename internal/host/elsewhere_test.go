package host_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// other is another daemon under this host's ID, as peers hear it.
type other struct {
	mu     sync.Mutex
	heard  time.Time // for the last time
	there  bool
	speaks bool // until it is stopped
}

func (o *other) elsewhere() *cluster.Elsewhere {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.speaks {
		o.heard = time.Now()
	}
	if !o.there || time.Since(o.heard) > 20*time.Second {
		return nil
	}
	return &cluster.Elsewhere{Endpoint: "192.0.2.9:8000", Ago: time.Since(o.heard)}
}

func (o *other) falls(silent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.speaks = !silent
}

// A daemon that begins on a disk which another one uses elsewhere writes nothing and starts nothing while that one is heard; once it is
// gone it goes on as a new disk, since it may lack what the other one did.
func TestADiskThatIsUsedElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		disk := d.look(1).Disk
		d.end()
		m.running, m.pid = nil, 0
		saves, starts, state := m.saves, len(m.starts), slices.Clone(m.disk.state)
		o := &other{there: true, speaks: true}
		d = m.boot(func(_ *session, opts *host.Options) { opts.Elsewhere = o.elsewhere })
		defer d.end()
		d.Remember([]cluster.Ping{{Cluster: "test", Host: "h2", Disk: "d2", Epoch: 7, Endpoint: "h2:1"}}) // which is not written either
		time.Sleep(time.Hour)
		synctest.Wait()
		if m.saves != saves || !slices.Equal(m.disk.state, state) {
			t.Errorf("%d writes of the state beside a daemon that uses the disk", m.saves-saves)
		}
		if len(m.starts) != starts || m.running != nil {
			t.Error("the member was started beside another one of its disk")
		}
		if !d.Identity().Asks {
			t.Error("it speaks for its host")
		}
		if r := d.Observe(t.Context(), cluster.ObserveRequest{}); r.State == nil || !slices.ContainsFunc(r.State.Problems, func(p cluster.Problem) bool { return p.Code == "disk-in-use" && p.Hint != "" && p.Unfit }) {
			t.Errorf("nobody is told: %+v", r)
		}
		for range 60 { // while it asks, and in between
			if r := d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(9), Ended: []string{"p"}}); r.Stamp != "" || m.saves != saves {
				t.Fatalf("it promises: %+v", r)
			}
			time.Sleep(time.Second)
		}
		o.falls(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := m.state(); s.Disk == disk || s.Local.State != cluster.MemberNone || len(m.starts) != starts {
			t.Errorf("disk %s, member %+v, started %d times more", s.Disk, s.Local, len(m.starts)-starts)
		}
		if d.Identity().Asks {
			t.Error("it still asks")
		}
	})
}

// One that was heard for the last time before this daemon began is the daemon before: the host waits for its silence, and goes on
// with the disk that it has.
func TestTheDaemonBeforeIsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		disk := d.look(1).Disk
		d.end()
		m.running, m.pid = nil, 0
		o := &other{there: true, heard: time.Now().Add(-15 * time.Second)}
		began := time.Now()
		d = m.boot(func(_ *session, opts *host.Options) { opts.Elsewhere = o.elsewhere })
		defer d.end()
		if s := d.look(1); s.Disk != disk || m.running == nil {
			t.Errorf("disk %s, was %s; %+v", s.Disk, disk, s.Local)
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it went on after %s", took)
		}
	})
}

// A daemon that finds its member running is the one that is there, and asks nobody.
func TestAnAdoptedMemberIsNotElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		o := &other{there: true, speaks: true}
		began := time.Now()
		d = m.boot(func(_ *session, opts *host.Options) { opts.Elsewhere = o.elsewhere })
		defer d.end()
		if d.look(1); time.Since(began) > time.Second || m.running == nil {
			t.Errorf("it waited for %s", time.Since(began))
		}
	})
}

// A host without a member goes on like any other once its disk is its own again.
func TestADiskWithoutAMemberIsUsedElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		m.boot().end()
		o := &other{there: true, speaks: true}
		d := m.boot(func(_ *session, opts *host.Options) { opts.Elsewhere = o.elsewhere })
		defer d.end()
		time.Sleep(time.Minute)
		o.falls(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		d.must(1, prepareOp)
	})
}
