// Package wake has loops woken: by channels that hold one value, and by time.
package wake

import (
	"context"
	"time"
)

// Up leaves a value in a channel that holds one, unless it is there already.
func Up(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready takes a value from a channel, if there is one. By it a loop that waits for several
// things says which of them goes first: select draws one of those that are ready, and
// another one when a simulation is replayed.
func Ready[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// After waits, and tells whether it waited that long: false, the context ended.
func After(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
