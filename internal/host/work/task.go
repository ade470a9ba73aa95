package work

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// OpDeadline is how long an op may take, everything together. It has it, whatever its
// caller has.
const OpDeadline = 2 * time.Minute

// ReadDeadline is how long a read of the intent from the store may take.
const ReadDeadline = 5 * time.Second

// Task is an op, or one of the host's own, while it is carried out.
type Task struct {
	op    cluster.Op
	fence cluster.Fence
	since time.Time
	most  time.Duration // how long it may take; zero: nobody knows
	done  chan struct{}
}

// late says that the op should have ended; the moment is told, so that nothing new
// is said at each look.
func (t *Task) late() string {
	if t.most <= 0 || time.Since(t.since) <= t.most {
		return ""
	}
	return fmt.Sprintf("it should have ended at %s", t.since.Add(t.most).UTC().Format(time.RFC3339))
}

// TakeTurn excludes others from admitting an op and from promising.
func (w *Supervisor) TakeTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Supervisor) EndTurn() { <-w.turn }

// TakePersonsTurn is takeTurn for what a person asks for, who is told what it waited for.
func (w *Supervisor) TakePersonsTurn(ctx context.Context) error {
	if !w.AwaitBoot(ctx) {
		return fmt.Errorf("host %s is starting: %w", w.host, ctx.Err())
	}
	err := w.TakeTurn(ctx)
	if err == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Errorf("host %s makes a promise or begins an op, %s: %w", w.host, cmp.Or(w.keeper.Stalls(), "which takes its disk long"), err)
}

// Begin registers a task; the caller holds the turn. It returns nil when one
// is running already, or the host is shutting down.
func (w *Supervisor) Begin(op cluster.Op, fence cluster.Fence) *Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil || w.closing {
		return nil
	}
	t := &Task{op: op, fence: fence, since: time.Now(), most: OpDeadline, done: make(chan struct{})}
	if op.Kind == cluster.OpBoot {
		t.most = 0 // it waits for whatever is in the way
	}
	w.running = t
	w.tasks.Add(1)
	return t
}

func (w *Supervisor) End(t *Task) {
	w.mu.Lock()
	w.running, w.phase = nil, phase{}
	w.mu.Unlock()
	close(t.done)
	w.tasks.Done()
	w.changed()
}

// BeginWait is begin for the host's own tasks: it waits for the running one.
func (w *Supervisor) BeginWait(ctx context.Context, op cluster.Op) *Task {
	for {
		if w.TakeTurn(ctx) != nil {
			return nil
		}
		t := w.Begin(op, cluster.Fence{})
		w.mu.Lock()
		running, closing := w.running, w.closing
		w.mu.Unlock()
		w.EndTurn()
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

// Busy describes the running task, nil when there is none.
func (w *Supervisor) Busy() *cluster.Busy {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		return nil
	}
	b := &cluster.Busy{Op: record.CopyOp(w.running.op), Fence: w.running.fence, For: time.Since(w.running.since), Why: w.running.late()}
	w.explain(b)
	return b
}
