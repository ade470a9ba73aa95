package host

import (
	"context"
	"time"

	"etcdadm.io/cluster"
)

const (
	// beatEvery: a disk that was rolled back by less is not told from one that was not.
	beatEvery = 10 * time.Second
	// logEvery: the log of a founder that starts is no one else's.
	logEvery = 250 * time.Millisecond
	// joinerLogEvery is shorter, because a joiner's log may turn out to be
	// another member's, and until that is seen, it takes part in raft.
	joinerLogEvery = 20 * time.Millisecond
)

// Run brings the member in line with the record, and then keeps the beat and
// notices changes until ctx ends. The member's process goes on after it: who
// wants it stopped calls Process.Stop after Run has returned. An op that was
// begun is finished before Run returns.
func (h *Host) Run(ctx context.Context) error {
	defer h.finish()
	h.start(ctx)
	close(h.booted)
	h.changed()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var files, end hand
	for {
		var changed, logged, freed, lost, stray, due bool
		select {
		case <-ctx.Done():
		case <-h.o.Process.Changes():
			changed = true
		case <-files.ended:
			files.ended = nil
		case <-end.ended:
			end.ended = nil
		case <-whenFree(&files, h.awaitLog()):
			logged = true
		case <-whenFree(&files, h.awaitPredecessor()):
			freed = true
		case <-whenFree(&files, h.lost):
			lost = true
		case <-whenFree(&end, h.stray):
			stray = true
		case <-whenFree(&files, beat.C):
			due = true
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// What came at the same time is seen to in this order, not in one
		// that select draws, which a replayed simulation would draw anew.
		changed = changed || ready(h.o.Process.Changes())
		if changed {
			h.cutAsking()
		}
		if (changed || logged) && files.free() {
			h.have(ctx, &files, h.noticeLogByItself)
		}
		if changed {
			h.changed()
		}
		if stray || end.free() && ready(h.stray) {
			h.have(ctx, &end, func() { h.stopStray(ctx) })
		}
		if !files.free() {
			if lost { // it is told once only
				signal(h.lost)
			}
			continue
		}
		lost, due = lost || ready(h.lost), due || ready(beat.C)
		if freed || lost || due {
			h.have(ctx, &files, func() { h.lookByItself(ctx, freed, lost, due) })
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

// signal puts a value into a channel that has room for one, unless it is there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ready takes a value from a channel, if there is one.
func ready[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitLog fires soon while a member is starting: no event tells that its log
// was written, and until that is recorded, a lost log is not missed.
func (h *Host) awaitLog() <-chan time.Time {
	if h.snapshot().Local.State != cluster.MemberStarting || h.o.Process.Status().State == cluster.ProcessStopped {
		return nil
	}
	if l := h.snapshot().Launch; l != nil && !l.Founding {
		return time.After(joinerLogEvery)
	}
	return time.After(logEvery)
}

// awaitBoot reports whether Run has brought the machine in line with the
// record, and waits for it until ctx ends.
func (h *Host) awaitBoot(ctx context.Context) bool {
	select {
	case <-h.booted:
	case <-ctx.Done():
		return ready(h.booted)
	}
	return true
}

// Rest has leaders' ops refused from now on, so that the end of the host, which may be a
// while off, waits for none that was begun after it was decided on.
func (h *Host) Rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resting = true
}

// finish joins what was begun.
func (h *Host) finish() {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.stopWork()
	h.join()
	h.mu.Lock()
	c := h.client
	h.client, h.clientOf = nil, ""
	h.mu.Unlock()
	closeMember(c)
}
