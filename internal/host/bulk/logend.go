package bulk

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

// LookWait is how long a look waits for a reading of the log: its answer leaves
// before whoever asked takes the host for a silent one. A member that writes all
// the time has its last file read anew by each look, so each has to wait as long
// as it can: what one has not seen to its end is no use to the next.
func LookWait(ctx context.Context) time.Duration {
	by, bounded := ctx.Deadline()
	if !bounded {
		return logEndDeadline
	}
	return min(time.Until(by)-logAnswerTime, logEndMost)
}

// End is the end of the member's log, nil when it is not known within a limit;
// then it tells how far the reading has come, unless that has failed.
func (l *Logs) End(ctx context.Context, token string, limit time.Duration) (*cluster.Progress, *cluster.LogReading) {
	if l.Sources == nil || token == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for asked := time.Now(); ; {
		r := l.read(token)
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
			l.Log.Warn("cannot read the end of the member's log", "err", r.err)
			return nil, nil
		default:
			return &r.end, nil
		}
	}
}

// readLog is the reading that is under way, or one that is begun; nil: the host is
// shutting down.
func (l *Logs) read(token string) *logReading {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading != nil {
		return l.reading
	}
	r := &logReading{token: token, began: time.Now(), ended: make(chan struct{})}
	begun := l.Work.InBackground(logReadDeadline, func(ctx context.Context) {
		r.end, r.err = l.Sources.LogEnd(ctx, token, func(far cluster.LogReading) { r.far.Store(&far) })
		l.mu.Lock()
		l.reading = nil
		l.mu.Unlock()
		close(r.ended)
	})
	if !begun {
		return nil // and nobody else may take it for one that found nothing
	}
	l.reading = r
	return r
}
