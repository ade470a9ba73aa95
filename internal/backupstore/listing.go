package backupstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/progress"
)

// listAll lists a store whose answers come on: of some hundred thousand objects the
// pages take minutes, and a store that is silent is given up all the same.
func listAll(ctx context.Context, store blob.Store, prefix string) ([]blob.Info, error) {
	l, end := beginListing(ctx)
	defer end()
	infos, err := store.List(blob.Hearing(l, l.hear), prefix)
	if err != nil {
		return nil, l.explain(err)
	}
	return infos, nil
}

// listing is the context of a listing. It ends like one with a deadline when
// nothing was heard for ObjectTimeout, so that what a driver says of its end is
// what it says of any store that did not answer in time.
type listing struct {
	context.Context // ends with the caller's, and after ListMost
	began           time.Time
	silent          *time.Timer
	step            *progress.Step
	done            chan struct{}

	mu      sync.Mutex // guards what follows
	err     error      // once done is closed
	objects int
	over    string // which bound it was; empty: none of these
}

func beginListing(ctx context.Context) (l *listing, end func()) {
	l = &listing{began: time.Now(), done: make(chan struct{}), step: progress.Begin(ctx, 0, progress.Objects, "listing the store")}
	whole, cancel := context.WithTimeout(ctx, ListMost)
	l.Context = whole
	l.mu.Lock() // the timer's own end reads it
	l.silent = time.AfterFunc(ObjectTimeout, func() {
		l.end(context.DeadlineExceeded, fmt.Sprintf("no further answer within %s", ObjectTimeout))
	})
	l.mu.Unlock()
	unhook := context.AfterFunc(whole, func() {
		over := ""
		if ctx.Err() == nil {
			over = fmt.Sprintf("it was not over after %s", ListMost)
		}
		l.end(whole.Err(), over)
	})
	return l, func() {
		unhook()
		l.end(context.Canceled, "")
		cancel()
	}
}

// end is heeded once.
func (l *listing) end(err error, over string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err, l.over = err, over
	l.silent.Stop()
	close(l.done)
}

// hear may come after the end, from a driver that is not waited for.
func (l *listing) hear(objects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.objects = objects
	l.step.Set(int64(objects))
	l.silent.Reset(ObjectTimeout)
}

// Done implements context.Context.
func (l *listing) Done() <-chan struct{} { return l.done }

// Err implements context.Context.
func (l *listing) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// explain says how far a listing came whose time was up.
func (l *listing) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over != "":
		return fmt.Errorf("%s, after %d objects in %s: %w", l.over, l.objects, time.Since(l.began).Round(time.Second), err)
	case l.err != nil && l.objects > 0:
		return fmt.Errorf("it was given up after %d objects in %s: %w", l.objects, time.Since(l.began).Round(time.Second), err)
	}
	return err
}
