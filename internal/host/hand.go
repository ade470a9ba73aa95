package host

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A hand does one thing at a time of those that the host does by itself: they read and
// write files, which nobody can call off, or wait for the member's end.
type hand struct {
	ended chan struct{} // of what it does; nil: nothing
}

// handMoment is how long the host waits for a hand before it sees to what else happens:
// on a disk that answers, a hand is done long before, and one thing comes after the other.
const handMoment = time.Second

// have has a hand do something, which ends before the host does. The host waits for it for
// a moment, and for no longer than ctx.
func (h *Host) have(ctx context.Context, on *hand, work func()) {
	ended := make(chan struct{})
	on.ended = ended
	h.tasks.Go(func() {
		defer close(ended)
		work()
	})
	moment := time.NewTimer(handMoment)
	defer moment.Stop()
	select {
	case <-ended:
		on.ended = nil
	case <-moment.C:
	case <-ctx.Done():
	}
}

func (on *hand) free() bool { return on.ended == nil }

// whenFree is c while the hand has nothing to do, so that what c tells is kept until then.
func whenFree[T any](on *hand, c <-chan T) <-chan T {
	if !on.free() {
		return nil
	}
	return c
}

// looksFor notes what the host's hand waits for from now on, beside an op, until something
// else is noted, or it is done.
func (h *Host) looksFor(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own = phase{what, time.Now()}
}

// ownLook says what the host's hand has been waiting for, for longer than a busy disk
// takes; the caller holds the mutex.
func (h *Host) ownLook() string { return h.own.waited() }

// How soon it is logged that a host does not end, and how often after that: as for one
// that does not come up.
const (
	endSays      = bootSays      // the same person waits
	endSaysAgain = bootSaysAgain // and reads the same log
)

// join waits for what was begun, and says what that is while it takes long. Who ends the
// host bounds the wait.
func (h *Host) join() {
	joined := make(chan struct{})
	go func() {
		h.tasks.Wait()
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
		h.o.Log.Warn("the end of this host waits: "+h.unended(), "since", began.UTC().Format(time.RFC3339),
			"hint", "see whether the disk of the data directory, and other mounts that it has, answer")
	}
}

// unended is what a host that is to end has not come to the end of.
func (h *Host) unended() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	if t := h.running; t != nil {
		word := fmt.Sprintf("it has carried out %s since %s", t.op, t.since.UTC().Format(time.RFC3339))
		if why := h.awaited(); why != "" {
			word += ", and " + why
		}
		all = append(all, word)
	}
	for _, word := range []string{h.stall(), h.ownLook()} {
		if word != "" {
			all = append(all, word)
		}
	}
	if len(h.overdue) > 0 {
		all = append(all, fmt.Sprintf("a look at it has not ended since %s", h.overdue[0].began.UTC().Format(time.RFC3339)))
	}
	if len(all) == 0 {
		return "work with backups or data goes on beside the ops"
	}
	return strings.Join(all, "; ")
}
