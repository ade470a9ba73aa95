package member

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

// Runs reports whether there is a member that could answer.
func Runs(s record.State, p cluster.Process) bool {
	if s.Launch == nil || p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff {
		return false
	}
	return s.Local.State == cluster.MemberStarting || s.Local.State == cluster.MemberStarted
}

// whileRuns is a context that ends with the process: a question to one that ends
// meanwhile would wait out its bound for a connection to nobody, and every step of
// a leader that stops or restarts members would take as long.
func (c *Client) whileRuns(ctx context.Context, pid int) (context.Context, func()) {
	ctx, cut := context.WithCancel(ctx)
	a := &asking{pid: pid, cut: cut}
	c.mu.Lock()
	c.asking[a] = struct{}{}
	c.mu.Unlock()
	c.CutAsking() // it may have ended before the question was written down
	return ctx, func() {
		cut()
		c.mu.Lock()
		delete(c.asking, a)
		c.mu.Unlock()
	}
}

// CutAsking ends what is being asked of a process that is gone.
func (c *Client) CutAsking() {
	p := c.process()
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.asking {
		if a.pid != p.PID || p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff {
			a.cut()
		}
	}
}
