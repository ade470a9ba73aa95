// Package progress carries, beside the context of long work, who hears how far that is:
// a person before a terminal, a daemon's log. The work says which part of it begins and
// counts what is done. Whoever began the work reads that when it likes, and where nobody
// hears, nothing is kept.
//
// The invariant: hearing changes nothing. No function here blocks, fails, or is waited for.
package progress

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Unit is of what a step counts.
type Unit string

// The units.
const (
	Bytes   Unit = "byte"
	Keys    Unit = "key"
	Records Unit = "record"
	Pages   Unit = "page"
	Backups Unit = "backup"
	Objects Unit = "object"
)

// Step is one part of the work. The methods of a nil step do nothing.
type Step struct {
	What  string // such as "reading backup …"
	Total int64  // zero: it is not known
	Unit  Unit   // empty: nothing is counted
	done  atomic.Int64
}

// Add counts what was done since.
func (s *Step) Add(n int64) {
	if s != nil {
		s.done.Add(n)
	}
}

// Set counts what is done in all.
func (s *Step) Set(n int64) {
	if s != nil {
		s.done.Store(n)
	}
}

// Done is how much of it is done.
func (s *Step) Done() int64 { return s.done.Load() }

// Words are how somebody is told. Both are called from a goroutine of their own, one
// call of Still after the other.
type Words struct {
	// Still is told of the step that is under way, nil before the first one, with how
	// long the work takes by then: first after First, and then with pauses that double
	// up to Most.
	Still       func(step *Step, after time.Duration)
	First, Most time.Duration
	// Waits is told at once what is waited for, and for how long at most.
	Waits func(sentence string)
}

type hearer struct {
	waits func(sentence string)
	mu    sync.Mutex // guards what follows
	step  *Step
}

func (h *hearer) now() *Step {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.step
}

type key struct{}

// Tell has somebody be told of the work under the returned context, until end is called,
// after which no word comes. A word that is being said is waited for then.
func Tell(ctx context.Context, w Words) (work context.Context, end func()) {
	h := &hearer{waits: w.Waits}
	over, said := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(said)
		h.still(over, w)
	}()
	return context.WithValue(ctx, key{}, h), sync.OnceFunc(func() {
		close(over)
		<-said
	})
}

func (h *hearer) still(over <-chan struct{}, w Words) {
	began, pause := time.Now(), w.First
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-over:
			return
		case <-next.C:
		}
		w.Still(h.now(), time.Since(began))
		next.Reset(pause)
		pause = min(2*pause, w.Most)
	}
}

// Begin says that a step begins, which ends the one before.
func Begin(ctx context.Context, total int64, unit Unit, what string, args ...any) *Step {
	h, ok := ctx.Value(key{}).(*hearer)
	if !ok {
		return nil
	}
	s := &Step{What: fmt.Sprintf(what, args...), Total: total, Unit: unit}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.step = s
	return s
}

// Waits says what is waited for, and for how long at most.
func Waits(ctx context.Context, what string, args ...any) {
	if h, ok := ctx.Value(key{}).(*hearer); ok && h.waits != nil {
		h.waits(fmt.Sprintf(what, args...))
	}
}
