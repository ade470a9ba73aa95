package bulk

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
)

// v2Look is what was last found in the member's log. It is read again for
// another process, now and then while there is something, and once the members
// have agreed on 3.6 again: a log that is free of it stays so only from there on.
type v2Look struct {
	pid    int
	at     time.Time
	under  bool // being read
	answer *bool
}

// v2Again is how long an answer stands that there is something: a minute,
// because the whole log is read for it, and v2AgainCut in a member that was
// restarted so that it cuts a raft snapshot, which it does within seconds.
const (
	v2Again    = time.Minute
	v2AgainCut = 2 * time.Second
)

// v2LogDeadline bounds one look through the log, which goes through it twice: some
// 5 GiB at 20 MiB a second.
const v2LogDeadline = 10 * time.Minute

// V2InLog is the answer that is known; nil: not yet. The log is read beside the
// observation, because that can take longer than one may. Releases up to 3.5 write
// such requests themselves, so it is asked of later ones only.
func (l *Logs) V2InLog(now cluster.HostState) *bool {
	if l.Sources == nil || now.Status == nil || !now.Status.Version.AtLeast(3, 6) || now.Process.PID == 0 {
		return nil
	}
	if !now.Status.ClusterVersion.AtLeast(3, 6) {
		// A member of 3.5 can write such requests at any time, into this log too.
		l.mu.Lock()
		l.v2.pid, l.v2.answer = 0, nil
		l.mu.Unlock()
		return nil
	}
	answer, read := l.v2Known(now.Process.PID, now.Local.Cut)
	if read && !l.Work.InBackground(v2LogDeadline, func(ctx context.Context) { l.lookForV2(ctx, now.Process.PID, now.Local.Token) }) {
		l.mu.Lock()
		l.v2.under = false
		l.mu.Unlock()
	}
	return answer
}

// v2Known is the last answer about a process, and whether it is to be read again.
func (l *Logs) v2Known(pid int, cut bool) (answer *bool, read bool) {
	again := v2Again
	if cut {
		again = v2AgainCut
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	look := &l.v2
	if look.pid != pid {
		*look = v2Look{pid: pid, under: look.under}
	}
	stale := look.answer == nil || *look.answer && time.Since(look.at) >= again
	if stale && !look.under {
		look.under, read = true, true
	}
	if look.answer != nil {
		a := *look.answer
		answer = &a
	}
	return answer, read
}

func (l *Logs) lookForV2(ctx context.Context, pid int, token string) {
	found, err := l.Sources.V2InLog(ctx, token)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.v2.under = false
	if errors.Is(err, context.Canceled) {
		return // the host ends
	}
	if err != nil {
		l.Log.Warn("cannot look through the member's log", "err", err)
		return
	}
	if l.v2.pid == pid {
		l.v2.answer, l.v2.at = &found, time.Now()
	}
}
