package host_test

import (
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/bulk"
)

// A learner that has received raft's snapshot and does not serve is told from
// one that was started after that by two ages. A member that does not answer
// takes its look the whole time-out, and they are of one moment all the same.
func TestAgesAreOfOneMoment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		var began moment
		d := m.boot(func(_ *session, o *host.Options) {
			o.Process = timedProcess{o.Process, &began}
			o.Sources = received{at: &began, after: 80 * time.Millisecond}
		})
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		began.set(time.Now())
		m.etcd.mu.Lock()
		m.etcd.silent = true
		m.etcd.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		st := d.look(1)
		if st.Status != nil || st.Process.Uptime-st.Received != 80*time.Millisecond {
			t.Errorf("the process runs for %s, and received its snapshot %s ago, 80ms after its start", st.Process.Uptime, st.Received)
		}
	})
}

// moment is a time that the test sets while the daemon runs.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) set(t time.Time) { m.at.Store(&t) }

func (m *moment) get() (t time.Time) {
	if at := m.at.Load(); at != nil {
		t = *at
	}
	return t
}

type timedProcess struct {
	host.Process
	began *moment
}

func (p timedProcess) Status() cluster.Process {
	out := p.Process.Status()
	if out.State == cluster.ProcessRunning {
		out.Uptime = time.Since(p.began.get())
	}
	return out
}

// received is a source of one fact.
type received struct {
	bulk.Sources
	at    *moment
	after time.Duration
}

func (r received) Received(string) time.Duration { return time.Since(r.at.get()) - r.after }
func (received) FreeSpace() int64                { return 0 }

// What the daemon knows of the host besides is told with the host's own.
func TestProblemsOfTheDaemonAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMachine(t).boot(func(_ *session, o *host.Options) {
			o.Problems = func() []cluster.Problem { return []cluster.Problem{{Code: "log-not-written", Sentence: "it is full"}} }
		})
		defer d.end()
		if st := d.look(1); !hasProblem(st, "log-not-written") || !st.Free() {
			t.Errorf("%+v, free: %t", st.Problems, st.Free())
		}
	})
}
