package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
)

// Look is an observation under way.
type Look struct {
	began time.Time
	Ended chan struct{}
	Reply cluster.ObserveReply // once it has ended
}

// BeginLook begins a look, which ends before the host does.
func (w *Supervisor) BeginLook(observe func() cluster.ObserveReply) *Look {
	l := &Look{began: time.Now(), Ended: make(chan struct{})}
	work := func() {
		l.Reply = observe()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.overdue = slices.DeleteFunc(w.overdue, func(o *Look) bool { return o == l })
		close(l.Ended)
	}
	w.mu.Lock()
	closing := w.closing
	if !closing {
		w.tasks.Go(work)
	}
	w.mu.Unlock()
	if closing { // nobody else would join it
		work()
	}
	return l
}

// GaveUp reports whether a look has not ended; nobody waits for its reply then.
func (w *Supervisor) GaveUp(l *Look) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wake.Ready(l.Ended) {
		return false
	}
	w.overdue = append(w.overdue, l)
	return true
}

// AwaitOverdue waits for a look that was given up, and returns it if it has not
// ended when ctx does: a hung disk or mount holds up the looks of one
// moment, however often the host is observed meanwhile.
func (w *Supervisor) AwaitOverdue(ctx context.Context) *Look {
	for {
		w.mu.Lock()
		if len(w.overdue) == 0 {
			w.mu.Unlock()
			return nil
		}
		l := w.overdue[0]
		w.mu.Unlock()
		select {
		case <-l.Ended:
		case <-ctx.Done():
			if !wake.Ready(l.Ended) {
				return l
			}
		}
	}
}

// Hangs says why nothing can be said of this host. The moment is told and not how
// long ago it was, so that nothing new is said at each look.
func (w *Supervisor) Hangs(l *Look) cluster.ObserveReply {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.overdue {
		if o.began.Before(l.began) {
			l = o
		}
	}
	why := cmp.Or(w.keeper.Stalls(), w.own.waited())
	if why == "" {
		why = fmt.Sprintf("a disk or mount has not answered since %s", l.began.UTC().Format(time.RFC3339))
	}
	return cluster.ObserveReply{Busy: &cluster.Busy{Op: cluster.Op{Kind: cluster.OpPromise}, Why: why}}
}
