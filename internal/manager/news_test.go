package manager

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// telling is a store that tells of changes, and of how many watch it.
type telling struct {
	*memory.Store
	now, ever *atomic.Int32
	breaks    func() <-chan struct{} // closed when a watch ends by itself
}

// Notify implements control.Notifier.
func (s telling) Notify(ctx context.Context, _ string) (<-chan struct{}, error) {
	told := make(chan struct{})
	s.now.Add(1)
	s.ever.Add(1)
	go func() {
		defer close(told)
		defer s.now.Add(-1)
		select {
		case <-ctx.Done():
		case <-s.breaks():
		}
	}()
	return told, nil
}

// Only who leads watches the record; a watch that ends is begun again, and not all the time.
func TestOnlyTheLeaderWatches(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var now, ever atomic.Int32
		var broken atomic.Pointer[chan struct{}]
		fresh := make(chan struct{})
		broken.Store(&fresh)
		a, _, _ := w.three(func(o *Options) {
			o.Control = control.New(telling{w.store, &now, &ever, func() <-chan struct{} { return *broken.Load() }}, clusterName)
		})
		w.untilLeads(2*time.Second, "a")
		time.Sleep(time.Minute)
		if n, all := now.Load(), ever.Load(); n != 1 || all != 1 {
			t.Errorf("%d watch, and %d did", n, all)
		}
		close(fresh) // and each watch ends at once
		time.Sleep(time.Minute)
		if all := ever.Load(); all < 10 || all > 40 {
			t.Errorf("%d watches in a minute in which each ended at once", all)
		}
		lasting := make(chan struct{})
		broken.Store(&lasting)
		time.Sleep(10 * time.Second)
		if n := now.Load(); n != 1 {
			t.Errorf("%d watch", n)
		}
		w.crash(a)
		w.until(time.Minute, "another one watches", func() bool { return len(w.leaders()) == 1 && w.leaders()[0] != "a" && now.Load() == 1 })
	})
}
