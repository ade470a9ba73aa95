package rig

import (
	"errors"
	"syscall"
	"time"
)

// SlowDown lets a host's daemon and etcd run for a fifth of the time only, in
// slices of a quarter of a second, until the returned function is called: a
// machine whose processor somebody else has.
func (h *Host) SlowDown() (end func()) {
	t := h.C.T
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	signal := func(sig syscall.Signal) {
		for _, pid := range ProcessesOf(h.Dir) { // looked up anew: etcd is restarted meanwhile
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
