package testkube

import (
	"context"
	"testing"
	"time"
)

// lookAgain is between two looks at what gives no event.
const lookAgain = 50 * time.Millisecond

// Within waits for something to hold.
func Within(t testing.TB, limit time.Duration, what string, holds func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error
	for {
		err := holds(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil { // else it is no more than that the time is over
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, last)
		case <-time.After(lookAgain):
		}
	}
}

// Must ends a test that cannot go on.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
