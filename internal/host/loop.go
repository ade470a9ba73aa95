package host

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/work"
	"etcdadm.io/internal/wake"
)

const (
	// beatEvery: a disk that was rolled back by less is not told from one that was not.
	epochEvery = 10 * time.Second
	// logEvery: the log of a founder that starts is no one else's.
	logEvery = 250 * time.Millisecond
	// joinerLogEvery is shorter, because a joiner's log may turn out to be
	// another member's, and until that is seen, it takes part in raft.
	joinerLogEvery = 20 * time.Millisecond
)

// Run brings the member in line with the record, and then keeps the epoch and
// notices changes until ctx ends. The member's process goes on after it: who
// wants it stopped calls Process.Stop after Run has returned. An op that was
// begun is finished before Run returns.
func (h *Host) Run(ctx context.Context) error {
	defer h.finish()
	h.start(ctx)
	h.work.Up()
	h.changed()
	epoch := time.NewTicker(epochEvery)
	defer epoch.Stop()
	var files, end work.Worker
	for {
		var changed, logged, freed, lost, stray, due bool
		select {
		case <-ctx.Done():
		case <-h.o.Process.Changes():
			changed = true
		case <-files.Ended:
			files.Ended = nil
		case <-end.Ended:
			end.Ended = nil
		case <-work.WhenFree(&files, h.awaitLog()):
			logged = true
		case <-work.WhenFree(&files, h.takeover.Again()):
			freed = true
		case <-work.WhenFree(&files, h.evidence.Lost()):
			lost = true
		case <-work.WhenFree(&end, h.evidence.Stray()):
			stray = true
		case <-work.WhenFree(&files, epoch.C):
			due = true
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// What came at the same time is seen to in this order, not in one
		// that select draws, which a replayed simulation would draw anew.
		changed = changed || wake.Ready(h.o.Process.Changes())
		if changed {
			h.member.CutAsking()
		}
		if (changed || logged) && files.Free() {
			h.work.Have(ctx, &files, h.noticeLogByItself)
		}
		if changed {
			h.changed()
		}
		if stray || end.Free() && wake.Ready(h.evidence.Stray()) {
			h.work.Have(ctx, &end, func() { h.stopStray(ctx) })
		}
		if !files.Free() {
			if lost { // it is told once only
				wake.Up(h.evidence.Lost())
			}
			continue
		}
		lost, due = lost || wake.Ready(h.evidence.Lost()), due || wake.Ready(epoch.C)
		if freed || lost || due {
			h.work.Have(ctx, &files, func() { h.lookByItself(ctx, freed, lost, due) })
		}
	}
}

// lookByItself is what the host does on nobody's word.
func (h *Host) lookByItself(ctx context.Context, freed, lost, due bool) {
	if freed {
		h.tryTakeOver(ctx)
	}
	if lost {
		h.becomeNewDisk(ctx)
	}
	if due {
		h.tick(ctx)
	}
}

// awaitLog fires soon while a member is starting: no event tells that its log
// was written, and until that is recorded, a lost log is not missed.
func (h *Host) awaitLog() <-chan time.Time {
	if h.keeper.Now().Local.State != cluster.MemberStarting || h.o.Process.Status().State == cluster.ProcessStopped {
		return nil
	}
	if l := h.keeper.Now().Launch; l != nil && !l.Founding {
		return time.After(joinerLogEvery)
	}
	return time.After(logEvery)
}

// finish joins what was begun.
func (h *Host) finish() {
	h.work.Close()
	h.member.Close()
}

// Rest has leaders' ops refused from now on, so that the end of the host, which may be a
// while off, waits for none that was begun after it was decided on.
func (h *Host) Rest() { h.work.Rest() }

// tryTakeOver looks again.
func (h *Host) tryTakeOver(ctx context.Context) {
	t := h.work.BeginWait(ctx, cluster.Op{Kind: cluster.OpBoot})
	if t == nil {
		return
	}
	defer h.work.End(t)
	h.work.Awaits("a check for data left by etcd-manager")
	h.takeover.Try(ctx)
	h.converge(ctx, false)
}

// tick is what happens every ten seconds, whoever leads.
func (h *Host) tick(ctx context.Context) {
	h.mu.Lock()
	blocked := h.blocked.why != ""
	h.mu.Unlock()
	h.work.LooksFor("the listing of its data directory")
	h.inventory.Refresh()
	h.work.LooksFor("") // a write of the state is told by itself
	if h.keeper.Broken() != nil {
		return
	}
	if h.Asked() || !blocked { // else the disk may be another daemon's, and nothing is written
		h.advance(ctx)
		h.inventory.Forgive()
		h.noticeLogByItself()
		h.work.LooksFor("a check for a place in a cluster run by another program")
		admitted := h.takeover.Admitted()
		h.work.LooksFor("") // from here on it is an op that waits
		if admitted {
			h.tryTakeOver(ctx)
		}
	}
	s := h.keeper.Now()
	p := h.o.Process.Status()
	stray := p.State != cluster.ProcessStopped && p.State != cluster.ProcessForeign && s.Launch != nil && !s.WantsRun()
	absent := (p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff) && s.WantsRun()
	stale := h.WentBack() && p.State == cluster.ProcessStopped && s.Launch == nil
	if !blocked && s.Journal == nil && !stray && !absent && !stale {
		return
	}
	if h.work.TakeTurn(ctx) != nil {
		return
	}
	t := h.work.Begin(cluster.Op{Kind: cluster.OpBoot}, cluster.Fence{})
	h.work.EndTurn()
	if t == nil {
		return
	}
	defer h.work.End(t)
	if blocked {
		h.bring(ctx, false)
		return
	}
	if stale { // nothing of it ran since: it can be a new disk at once
		h.forgetDisk(ctx, wentBack)
		return
	}
	if h.resume(ctx) == nil {
		h.converge(ctx, false)
	}
}
