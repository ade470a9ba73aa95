package host_test

import (
	"testing"
	"testing/synctest"
	"time"
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
