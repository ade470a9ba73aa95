package host

import (
	"context"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
)

// logReading is one reading of the log of the member's data directory. A large
// log on a cold disk takes longer than an observation may: so it is read beside
// the observations, and each waits for it as long as it may. Only one that began
// after an observation did is its answer, since a member may have written until
// then; what an earlier one has read need not be read again (Sources.LogEnd).
type logReading struct {
	token string
	began time.Time // with the monotonic clock
	far   atomic.Pointer[cluster.LogReading]
	ended chan struct{} // closed after what follows was set
	end   cluster.Progress
	err   error
}

// lookWait is how long a look waits for a reading of the log: its answer leaves
// before whoever asked takes the host for a silent one. A member that writes all
// the time has its last file read anew by each look, so each has to wait as long
// as it can: what one has not seen to its end is no use to the next.
func lookWait(ctx context.Context) time.Duration {
	by, bounded := ctx.Deadline()
	if !bounded {
		return logEndDeadline
	}
	return min(time.Until(by)-logAnswerTime, logEndMost)
}

// logEnd is the end of the member's log, nil when it is not known within a limit;
// then it tells how far the reading has come, unless that has failed.
func (h *Host) logEnd(ctx context.Context, token string, limit time.Duration) (*cluster.Progress, *cluster.LogReading) {
	if h.o.Sources == nil || token == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for asked := time.Now(); ; {
		r := h.readLog(token)
		if r == nil {
			return nil, nil // the host is shutting down
		}
		select {
		case <-r.ended:
		case <-ctx.Done():
			far := r.far.Load()
			if r.token != token || far == nil {
				far = &cluster.LogReading{}
			}
			return nil, far
		}
		switch {
		case r.token != token || r.began.Before(asked): // it may have begun before the member's last write
		case r.err != nil:
			h.o.Log.Warn("cannot read the end of the member's log", "err", r.err)
			return nil, nil
		default:
			return &r.end, nil
		}
	}
}

// readLog is the reading that is under way, or one that is begun; nil: the host is
// shutting down.
func (h *Host) readLog(token string) *logReading {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reading != nil {
		return h.reading
	}
	r := &logReading{token: token, began: time.Now(), ended: make(chan struct{})}
	begun := h.beginTask(logReadDeadline, func(ctx context.Context) {
		r.end, r.err = h.o.Sources.LogEnd(ctx, token, func(far cluster.LogReading) { r.far.Store(&far) })
		h.mu.Lock()
		h.reading = nil
		h.mu.Unlock()
		close(r.ended)
	})
	if !begun {
		return nil // and nobody else may take it for one that found nothing
	}
	h.reading = r
	return r
}
