package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sourceEnds is what a source may take to end after its context has, in which it says what it waited for. One that does not is a
// file on a hung disk or mount: the kernel calls nothing off.
const sourceEnds = 500 * time.Millisecond

// patience is for a call that may not end with its context. Such a one is left to itself, and no other one is begun before it ends.
type patience struct {
	mu    sync.Mutex      // guards what follows
	left  <-chan struct{} // closed at the end of a call that was given up; nil: none was
	since time.Time       // when that was begun
}

// standing says since when a call that was given up has not ended.
func (p *patience) standing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		return nil
	}
	select {
	case <-p.left:
		p.left = nil
		return nil
	default:
		return fmt.Errorf("it has not answered since %s", p.since.UTC().Format(time.RFC3339))
	}
}

// within has do called, and waits for it until ctx ends, and sourceEnds more.
func within[T any](ctx context.Context, p *patience, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := p.standing(); err != nil {
		return none, err
	}
	var value T
	var err error
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		value, err = do(ctx)
	}()
	select {
	case <-ended:
		return value, err
	case <-ctx.Done():
	}
	grace := time.NewTimer(sourceEnds)
	defer grace.Stop()
	select {
	case <-ended:
		return value, err
	case <-grace.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.since = ended, began
	return none, fmt.Errorf("it did not answer: %w", ctx.Err())
}

// Patient is an announcer that may not end with its context, and is not waited for beyond it.
type Patient struct {
	Announcer
	patience patience
}

// Announce implements Announcer. After a call that did not end it fails at once, until that has ended.
func (p *Patient) Announce(ctx context.Context, self Seed) error {
	_, err := within(ctx, &p.patience, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.Announcer.Announce(ctx, self) })
	return err
}
