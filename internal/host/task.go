package host

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// task is an op, or one of the host's own, while it is carried out.
type task struct {
	op    cluster.Op
	fence cluster.Fence
	since time.Time
	most  time.Duration // how long it may take; zero: nobody knows
	done  chan struct{}
}

// late says that the op should have ended; the moment is told, so that nothing new
// is said at each look.
func (t *task) late() string {
	if t.most <= 0 || time.Since(t.since) <= t.most {
		return ""
	}
	return fmt.Sprintf("it should have ended at %s", t.since.Add(t.most).UTC().Format(time.RFC3339))
}

// takeTurn excludes others from admitting an op and from promising.
func (h *Host) takeTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) endTurn() { <-h.turn }

// takePersonsTurn is takeTurn for what a person asks for, who is told what it waited for.
func (h *Host) takePersonsTurn(ctx context.Context) error {
	if !h.awaitBoot(ctx) {
		return fmt.Errorf("host %s is starting: %w", h.o.ID, ctx.Err())
	}
	err := h.takeTurn(ctx)
	if err == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Errorf("host %s makes a promise or begins an op, %s: %w", h.o.ID, cmp.Or(h.stall(), "which takes its disk long"), err)
}

// begin registers a task; the caller holds the turn. It returns nil when one
// is running already, or the host is shutting down.
func (h *Host) begin(op cluster.Op, fence cluster.Fence) *task {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running != nil || h.closing {
		return nil
	}
	t := &task{op: op, fence: fence, since: time.Now(), most: opDeadline, done: make(chan struct{})}
	if op.Kind == cluster.OpBoot {
		t.most = 0 // it waits for whatever is in the way
	}
	h.running = t
	h.tasks.Add(1)
	return t
}

func (h *Host) end(t *task) {
	h.mu.Lock()
	h.running, h.phase = nil, phase{}
	h.mu.Unlock()
	close(t.done)
	h.tasks.Done()
	h.changed()
}

// beginWait is begin for the host's own tasks: it waits for the running one.
func (h *Host) beginWait(ctx context.Context, op cluster.Op) *task {
	for {
		if h.takeTurn(ctx) != nil {
			return nil
		}
		t := h.begin(op, cluster.Fence{})
		h.mu.Lock()
		running, closing := h.running, h.closing
		h.mu.Unlock()
		h.endTurn()
		if t != nil || closing {
			return t
		}
		if running == nil {
			continue // it ended in between
		}
		select {
		case <-running.done:
		case <-ctx.Done():
			return nil
		}
	}
}

// busy describes the running task, nil when there is none.
func (h *Host) busy() *cluster.Busy {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		return nil
	}
	b := &cluster.Busy{Op: record.CopyOp(h.running.op), Fence: h.running.fence, For: time.Since(h.running.since), Why: h.running.late()}
	h.explain(b)
	return b
}
