package host

import (
	"context"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// asking is something that is being asked of the member's process.
type asking struct {
	pid int
	cut context.CancelFunc
}

// asks reports whether there is a member that could answer.
func asks(s record.State, p cluster.Process) bool {
	if s.Launch == nil || p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff {
		return false
	}
	return s.Local.State == cluster.MemberStarting || s.Local.State == cluster.MemberStarted
}

// whileRuns is a context that ends with the process: a question to one that ends
// meanwhile would wait out its bound for a connection to nobody, and every step of
// a leader that stops or restarts members would take as long.
func (h *Host) whileRuns(ctx context.Context, pid int) (context.Context, func()) {
	ctx, cut := context.WithCancel(ctx)
	a := &asking{pid: pid, cut: cut}
	h.mu.Lock()
	h.asking[a] = struct{}{}
	h.mu.Unlock()
	h.cutAsking() // it may have ended before the question was written down
	return ctx, func() {
		cut()
		h.mu.Lock()
		delete(h.asking, a)
		h.mu.Unlock()
	}
}

// cutAsking ends what is being asked of a process that is gone.
func (h *Host) cutAsking() {
	p := h.o.Process.Status()
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range h.asking {
		if a.pid != p.PID || p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff {
			a.cut()
		}
	}
}
