package sim

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// Held is a place at which the loop of a leading daemon can be held up: between
// its decision and what it does about it, or in a line that it logs, as where the
// reader of its standard error does not read.
type Held struct {
	Host     cluster.HostID
	Line     string         // that it is about to log; empty: it has decided
	Decision *plan.Decision // nil in a line
}

// Stall is how a leading daemon is held up.
type Stall struct {
	For time.Duration
	// All: not its loop alone, but all of the daemon, as SIGSTOP does. Its timers
	// go on, and what they do ends at the daemon's next call.
	All bool
}

// OnHold has f decide from now on where leading daemons are held up; nil ends that.
func (w *World) OnHold(f func(Held) Stall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onHold = f
}

func (w *World) held(at Held) Stall {
	w.mu.Lock()
	f := w.onHold
	w.mu.Unlock()
	if f == nil {
		return Stall{}
	}
	w.hooks.Lock()
	defer w.hooks.Unlock()
	return f(at)
}

// heldUp waits as long as a schedule wants the daemon's loop to stand still here.
// It is the loop that calls it; its gossip, its host and its store go on.
func (d *daemon) heldUp(at Held) {
	s := d.w.held(at)
	if s.For <= 0 {
		return
	}
	where := "after a decision"
	if at.Line != "" {
		where = "in its log"
	}
	dice := d.w.links.next("held up " + d.link)
	if s.All {
		d.standStill(s.For, where)
		d.alive()
		d.w.sleep(d.w.ctx, dice.wait())
		return
	}
	d.tracef("its loop is held up for %s %s", s.For, where)
	d.w.pause(d.ctx, s.For, dice)
	d.tracef("its loop goes on")
}

// standStill stops the daemon as SIGSTOP does, for a while.
func (d *daemon) standStill(long time.Duration, where string) {
	d.tracef("paused for %s %s", long, where)
	d.pause()
	d.w.later(long, func() {
		d.tracef("goes on")
		d.unpause()
	})
}
