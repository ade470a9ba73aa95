package teststore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Prepare fetches programs before the first test of a package, as testetcd.Prepare does
// releases.
func Prepare(within time.Duration, names ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, name := range names {
		if _, err := Fetch(ctx, name); err != nil && !errors.Is(err, ErrNoNode) {
			fmt.Fprintf(os.Stderr, "before the tests: %v\n", err)
		}
	}
}
