package work

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Worker does one thing at a time of those that the host does by itself: they read and
// write files, which nobody can call off, or wait for the member's end.
type Worker struct {
	Ended chan struct{} // of what it does; nil: nothing
}

// workMoment is how long the host waits for a worker before it sees to what else happens:
// on a disk that answers, a worker is done long before, and one thing comes after the other.
const workMoment = time.Second

// Have has a worker do something, which ends before the host does. The host waits for it for
// a moment, and for no longer than ctx.
func (w *Supervisor) Have(ctx context.Context, on *Worker, work func()) {
	ended := make(chan struct{})
	on.Ended = ended
	w.tasks.Go(func() {
		defer close(ended)
		work()
	})
	moment := time.NewTimer(workMoment)
	defer moment.Stop()
	select {
	case <-ended:
		on.Ended = nil
	case <-moment.C:
	case <-ctx.Done():
	}
}

// Free reports whether it has nothing to do.
func (on *Worker) Free() bool { return on.Ended == nil }

// WhenFree is c while the worker has nothing to do, so that what c tells is kept until then.
func WhenFree[T any](on *Worker, c <-chan T) <-chan T {
	if !on.Free() {
		return nil
	}
	return c
}

// LooksFor notes what the host's worker waits for from now on, beside an op, until something
// else is noted, or it is done.
func (w *Supervisor) LooksFor(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own = phase{what, time.Now()}
}

// OwnLook says what the host has been waiting for beside an op, for longer than a busy disk
// takes; empty: nothing.
func (w *Supervisor) OwnLook() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own.waited()
}

// How soon it is logged that a host does not end, and how often after that: as for one
// that does not come up.
const (
	endSays      = bootSays      // the same person waits
	endSaysAgain = bootSaysAgain // and reads the same log
)

// join waits for what was begun, and says what that is while it takes long. Who ends the
// host bounds the wait.
func (w *Supervisor) join() {
	joined := make(chan struct{})
	go func() {
		w.tasks.Wait()
		close(joined)
	}()
	began := time.Now()
	says := time.NewTimer(endSays)
	defer says.Stop()
	for {
		select {
		case <-joined:
			return
		case <-says.C:
		}
		says.Reset(endSaysAgain)
		w.log.Warn("this host is shutting down and waits: "+w.unended(), "since", began.UTC().Format(time.RFC3339),
			"hint", "check the disk of the data directory and the host's other mounts")
	}
}

// unended is what a host that is to end has not come to the end of.
func (w *Supervisor) unended() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	if t := w.running; t != nil {
		word := fmt.Sprintf("it has been carrying out %s since %s", t.op, t.since.UTC().Format(time.RFC3339))
		if why := w.awaited(); why != "" {
			word += ", and " + why
		}
		all = append(all, word)
	}
	for _, word := range []string{w.keeper.Stalls(), w.own.waited()} {
		if word != "" {
			all = append(all, word)
		}
	}
	if len(w.overdue) > 0 {
		all = append(all, fmt.Sprintf("a look at it has not ended since %s", w.overdue[0].began.UTC().Format(time.RFC3339)))
	}
	if len(all) == 0 {
		return "work with backups or data goes on beside the ops"
	}
	return strings.Join(all, "; ")
}
