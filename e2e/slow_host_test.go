package e2e

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/cli"
)

// slowDown lets a host's daemon and etcd run for a fifth of the time only, in
// slices of a quarter of a second, until the returned function is called: a
// machine whose processor somebody else has.
func (h *host) slowDown() (end func()) {
	t := h.c.t
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	signal := func(sig syscall.Signal) {
		for _, pid := range processesOf(h.dir) { // looked up anew: etcd is restarted meanwhile
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Errorf("send %s to %d: %v", sig, pid, err)
			}
		}
	}
	go func() {
		defer close(done)
		defer signal(syscall.SIGCONT)
		for {
			for _, part := range []struct {
				sig syscall.Signal
				d   time.Duration
			}{{syscall.SIGSTOP, 200 * time.Millisecond}, {syscall.SIGCONT, 50 * time.Millisecond}} {
				signal(part.sig)
				select {
				case <-stop:
					return
				case <-time.After(part.d):
				}
			}
		}
	}()
	ended := false
	end = func() {
		if !ended {
			ended = true
			close(stop)
			<-done
		}
	}
	t.Cleanup(end)
	return end
}

// One host gets a fifth of its processor, while a backup is taken and while one is
// restored: raft's leader, and one that is not. All is done, only later; nobody is
// replaced for it, and nothing that was acknowledged is lost.
func TestSlowHost(t *testing.T) {
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{})
	c.fill("k/", 5000)
	before := c.voters(soon, 1, 2, 3)
	for round, leads := range []bool{true, false} {
		w := c.write()
		h := c.raftLeader(1, 2, 3)
		if !leads {
			h = c.host(without(3, h)[0])
		}
		fast := h.slowDown()
		w.waitFor(50)
		began := time.Now()
		c.takeBackup()
		t.Logf("host %d is slow, was raft's leader: %t: a backup after %s", h.n, leads, time.Since(began).Round(time.Millisecond))
		w.waitFor(20)
		w.check()
		if round == 0 { // a restore makes others of them
			same(t, before, c.voters(soon, 1, 2, 3))
		}
		name := c.takeBackup() // of all that w wrote
		began = time.Now()
		if r := c.restore(name); r.code != cli.ExitOK {
			t.Fatalf("host %d is slow: %s", h.n, r)
		}
		t.Logf("a restore after %s", time.Since(began).Round(time.Millisecond))
		c.generation(uint64(round+2), 1, 2, 3)
		fast()
		w.compare(c.etcd())
	}
	c.write().check()
}
