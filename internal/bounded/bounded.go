// Package bounded looks at files that may lie on a disk or mount that hangs.
//
// Nothing calls off a read of such a file, nor what else looks at it. So a look has a
// goroutine of its own, and who asked for it waits for a bounded time. It goes on until the
// disk or mount answers, or the program ends; at one path one look is under way at a time,
// so that however often a place is asked for that does not answer, one goroutine waits there.
package bounded

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A SilentError says that what was looked at has not answered in time. It is a
// [context.DeadlineExceeded].
type SilentError struct {
	Path  string
	Since time.Time // when the look began that has not ended
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the disk or mount of %s has not answered since %s", e.Path, e.Since.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *SilentError) Is(target error) bool { return target == context.DeadlineExceeded }

// look is one that is under way.
type look struct {
	path  string
	began time.Time
	ended chan struct{}
	had   time.Duration // the longest that it was waited for; guarded by mu
}

var (
	mu    sync.Mutex // guards under
	under = map[string]*look{}
)

// Do looks at a path, and gives what read returns. Errors: those of read; a [SilentError]
// when it has not ended after most, or when an earlier look at this path was waited for half
// as long or longer and has not ended yet; the cause of ctx, when that ends before.
//
// What read changes beside what it returns, it may change at any time later.
func Do[T any](ctx context.Context, path string, most time.Duration, read func() (T, error)) (T, error) {
	var none T
	up := time.NewTimer(most)
	defer up.Stop()
	var l *look
	for {
		var mine bool
		if l, mine = begin(path); mine {
			break
		}
		if most < 2*l.waited() {
			return none, l.silent()
		}
		if err := l.await(ctx, up.C, most); err != nil {
			return none, err
		}
	}
	var got T
	var failed error
	go func() {
		defer l.end()
		got, failed = read()
	}()
	if err := l.await(ctx, up.C, most); err != nil {
		return none, err
	}
	return got, failed
}

// begin is the look at a path that is under way, or one that the caller is to make.
func begin(path string) (l *look, mine bool) {
	mu.Lock()
	defer mu.Unlock()
	if l := under[path]; l != nil {
		return l, false
	}
	l = &look{path: path, began: time.Now(), ended: make(chan struct{})}
	under[path] = l
	return l, true
}

func (l *look) end() {
	mu.Lock()
	defer mu.Unlock()
	delete(under, l.path)
	close(l.ended)
}

// await waits for the end of a look until the caller's time is up.
func (l *look) await(ctx context.Context, up <-chan time.Time, most time.Duration) error {
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
	case <-up:
		mu.Lock()
		l.had = max(l.had, most)
		mu.Unlock()
	}
	select {
	case <-l.ended: // whatever select drew
		return nil
	default:
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%w: %w", l.silent(), err)
	}
	return l.silent()
}

func (l *look) waited() time.Duration {
	mu.Lock()
	defer mu.Unlock()
	return l.had
}

func (l *look) silent() error { return &SilentError{Path: l.path, Since: l.began} }
