package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
)

// unwritten is an object that the store did not take, though it may be read: credentials
// that only read, a file system that was mounted read-only, a bucket that is full or kept
// by a policy. Reads alone would call that store well, while nothing that is written down
// first gets done.
type unwritten struct {
	why   string // as it is told
	last  string // as it was at the last try
	since time.Time
	heard time.Time // when the store last said what is told
}

// unwrittenAfter is how long the store may refuse one write after the other before that
// is told, and how long it may say something else each time before the latest is told: what it refused once it takes at the next try, mostly.
const unwrittenAfter = 15 * time.Second

// objects is what each topic of a write is told as, with what waits for it: a policy may
// allow some names and not others.
var objects = map[string]string{
	"intent": "the record of the voters, before which none of them is changed",
	"claim":  "the leader's mark in the record, without which a former leader could still write",
	"record": "the record of progress",
	"status": "the status",
}

// Wrote notes, and says once, whether the store took a write. That somebody else wrote
// in between, or that this daemon gave up, says nothing against it, nor does what failed
// before anything was handed to it.
func (r *Writer) Wrote(topic, what string, err error) {
	r.Say(topic, what, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	u, known := r.unwritten[topic]
	var refused *control.NotTakenError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, control.ErrCalledOff):
	case !errors.As(err, &refused), errors.Is(err, control.ErrConflict):
		delete(r.unwritten, topic)
	case !known:
		r.unwritten[topic] = unwritten{why: outcome(err), last: outcome(err), since: time.Now(), heard: time.Now()}
	default:
		// The words of a store may differ from try to try. Those that come once are no
		// other reason, and those that come twice are. Where none comes twice, as with a
		// number of the request in each, what is told counts until it has not been heard
		// for long.
		now, last := outcome(err), u.last
		u.last = now
		switch {
		case say.Steady(now) == say.Steady(u.why):
			u.heard = time.Now()
		case say.Steady(now) == say.Steady(last), say.Steady(last) != say.Steady(u.why) && time.Since(u.heard) >= unwrittenAfter:
			u.why, u.heard = now, time.Now()
		}
		r.unwritten[topic] = u
	}
}

// outcome is what came of a write that failed: one that was not answered in time may
// have been taken all the same. The next try finds that out where it reads first, as
// those of both records do; of the status see landed.
func outcome(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "whether it was written is not known: " + say.Explain(err)
	}
	return say.Explain(err)
}

// Unwanted forgets a write that failed and that nobody asks for any more.
func (r *Writer) Unwanted(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unwritten, topic)
}

// NotWritten is what the store does not take, and why; empty: it does, or that is not
// told yet. A store that was not read now is told as that, and what it did not take
// meanwhile is no sign of one that can be read.
func (r *Writer) NotWritten(read bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !read {
		clear(r.unwritten)
	}
	var told []string
	for _, topic := range slices.Sorted(maps.Keys(r.unwritten)) {
		if u := r.unwritten[topic]; time.Since(u.since) >= unwrittenAfter {
			told = append(told, fmt.Sprintf("%s (%s)", objects[topic], u.why))
		}
	}
	return strings.Join(told, "; ")
}
