package hosts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"etcdadm.io/internal/register"
)

// batch lets callers that read at the same time share one read. It begins after each of them called: a read that was under
// way may have missed what one of them saw before.
type batch struct {
	mu   sync.Mutex
	next *shared // what callers wait for now; guarded by mu
	busy bool    // guarded by mu
}

type shared struct {
	done chan struct{}
	doc  *register.Document
	err  error
}

// readTimeout bounds a shared read, which is nobody's alone: those who come meanwhile wait for the one after it.
const readTimeout = 4 * time.Second

func (b *batch) do(ctx context.Context, read func(context.Context) (*register.Document, error)) (*register.Document, error) {
	b.mu.Lock()
	if b.next == nil {
		b.next = &shared{done: make(chan struct{})}
	}
	mine := b.next
	if !b.busy {
		b.busy = true
		go b.run(context.WithoutCancel(ctx), read)
	}
	b.mu.Unlock()
	select {
	case <-mine.done:
		return mine.doc, mine.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *batch) run(ctx context.Context, read func(context.Context) (*register.Document, error)) {
	for {
		b.mu.Lock()
		now := b.next
		b.next = nil
		if now == nil {
			b.busy = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		func() {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			if now.doc, now.err = read(ctx); now.err != nil && ctx.Err() != nil { // it is not the callers' time that is up
				now.err = fmt.Errorf("the hosts that keep the record did not agree within %s: %s", readTimeout, now.err.Error())
			}
		}()
		close(now.done)
	}
}
