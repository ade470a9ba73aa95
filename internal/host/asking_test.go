package host_test

import (
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/host"
)

// TestAnEndingProcessIsNotWaitedFor: a member that ends while it is asked is not
// waited for, nor is one that waits for its next start.
func TestAnEndingProcessIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		m.etcd.mu.Lock()
		m.etcd.silent = true
		m.etcd.mu.Unlock()
		began := time.Now()
		go func() {
			time.Sleep(100 * time.Millisecond)
			m.die()
			process{d.session}.changed()
		}()
		d.look(1)
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("asking a process that ended after 100ms took %s", took)
		}
		synctest.Wait()
		m.mu.Lock()
		m.restarts = 1
		m.mu.Unlock()
		began = time.Now()
		d.look(1)
		if took := time.Since(began); took != 0 {
			t.Errorf("asking a process that does not run took %s", took)
		}
	})
}

// TestAYoungProcessIsAskedAgain: a look does not wait long for a process that may not serve
// yet, and as long as it may take for one that runs for a while.
func TestAYoungProcessIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		var began moment
		d := m.boot(func(_ *session, o *host.Options) { o.Process = timedProcess{o.Process, &began} })
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		m.etcd.mu.Lock()
		m.etcd.silent = true
		m.etcd.mu.Unlock()
		for _, c := range []struct{ runs, waits time.Duration }{
			{10 * time.Millisecond, 100 * time.Millisecond},
			{1500 * time.Millisecond, 500 * time.Millisecond},
			{time.Minute, time.Second},
		} {
			began.set(time.Now().Add(-c.runs))
			asked := time.Now()
			d.look(1)
			if took := time.Since(asked); took != c.waits {
				t.Errorf("a silent member that runs for %s held up a look for %s, not %s", c.runs, took, c.waits)
			}
		}
	})
}
