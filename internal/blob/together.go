package blob

import (
	"context"
	"sync"
)

type togetherKey struct{}

// Together has reads under the returned context share what a store answers, where several objects lie in one of its own: none of
// them is older than the context. It is for one look at many objects; a write is not seen by the reads after it.
func Together(ctx context.Context) context.Context {
	return context.WithValue(ctx, togetherKey{}, &answers{by: map[any]*answer{}})
}

// answers are those of one context.
type answers struct {
	mu sync.Mutex // guards by
	by map[any]*answer
}

type answer struct {
	done  chan struct{}
	value any
	err   error
}

// Shared is how a driver takes part: it gives what ask has given to another read under ctx that asked the same, or asks. What failed is
// asked again. The question is comparable, and the driver's own.
func Shared[T any](ctx context.Context, question any, ask func(context.Context) (T, error)) (T, error) {
	all, together := ctx.Value(togetherKey{}).(*answers)
	if !together {
		return ask(ctx)
	}
	all.mu.Lock()
	a, asked := all.by[question]
	if !asked {
		a = &answer{done: make(chan struct{})}
		all.by[question] = a
	}
	all.mu.Unlock()
	if !asked {
		defer close(a.done)
		v, err := ask(ctx)
		a.value, a.err = v, err
		return v, err
	}
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	if a.err != nil {
		return ask(ctx)
	}
	return a.value.(T), nil //nolint:forcetypeassert // of the same question
}
