package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// look is an observation under way.
type look struct {
	began time.Time
	ended chan struct{}
	reply cluster.ObserveReply // once it has ended
}

// beginLook begins a look, which ends before the host does.
func (h *Host) beginLook(ctx context.Context, req cluster.ObserveRequest) *look {
	l := &look{began: time.Now(), ended: make(chan struct{})}
	work := func() {
		l.reply = h.observe(ctx, req)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.overdue = slices.DeleteFunc(h.overdue, func(o *look) bool { return o == l })
		close(l.ended)
	}
	h.mu.Lock()
	closing := h.closing
	if !closing {
		h.tasks.Go(work)
	}
	h.mu.Unlock()
	if closing { // nobody else would join it
		work()
	}
	return l
}

// gaveUp reports whether a look has not ended; nobody waits for its reply then.
func (h *Host) gaveUp(l *look) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ready(l.ended) {
		return false
	}
	h.overdue = append(h.overdue, l)
	return true
}

// awaitOverdue waits for a look that was given up, and returns it if it has not
// ended when ctx does: a disk or mount that stands still holds up the looks of one
// moment, however often the host is observed meanwhile.
func (h *Host) awaitOverdue(ctx context.Context) *look {
	for {
		h.mu.Lock()
		if len(h.overdue) == 0 {
			h.mu.Unlock()
			return nil
		}
		l := h.overdue[0]
		h.mu.Unlock()
		select {
		case <-l.ended:
		case <-ctx.Done():
			if !ready(l.ended) {
				return l
			}
		}
	}
}

// hangs says why nothing can be said of this host. The moment is told and not how
// long ago it was, so that nothing new is said at each look.
func (h *Host) hangs(l *look) cluster.ObserveReply {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.overdue {
		if o.began.Before(l.began) {
			l = o
		}
	}
	why := cmp.Or(h.stall(), h.ownLook())
	if why == "" {
		why = fmt.Sprintf("a disk or mount that it looks at has not answered since %s", l.began.UTC().Format(time.RFC3339))
	}
	return cluster.ObserveReply{Busy: &cluster.Busy{Op: cluster.Op{Kind: cluster.OpPromise}, Why: why}}
}
