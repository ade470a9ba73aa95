package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"etcdadm.io/internal/progress"
	"github.com/spf13/cobra"
)

const (
	// workSays is when the first word comes of work that takes longer. What takes less
	// needs none.
	workSays = 5 * time.Second
	// workPause is the longest pause between two words: they come less and less often,
	// so that hours are no thousands of lines.
	workPause = time.Minute
	// workTimeout bounds a restore or a drill with programs of etcd, as a host bounds
	// what it makes ready: a program that hangs is ended. Of a
	// drill it does not hold for the backup, which comes in from a store.
	workTimeout = 2 * time.Hour
)

// working has a person be told how far the work is that a command does itself, in lines
// of their own, on a terminal and elsewhere. The words go beside the result, never into
// it. What names the work as long as no part of it has begun.
func working(ctx context.Context, say io.Writer, what string) (context.Context, func()) {
	var mu sync.Mutex // held while something is said
	line := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(say, format+"\n", args...)
	}
	return progress.Tell(ctx, progress.Words{
		First: workSays, Most: workPause,
		Still: func(s *progress.Step, after time.Duration) {
			if s != nil {
				what = stepWords(s)
			}
			line("still at it after %s: %s", tookWords(after), what)
		},
		Waits: func(sentence string) { line("waiting: %s", sentence) },
	})
}

// tells has a command's work be told of on its standard error.
func tells(c *cobra.Command, do func(ctx context.Context) error) error {
	ctx, end := working(c.Context(), c.ErrOrStderr(), c.CommandPath())
	defer end()
	return do(ctx)
}

// stepWords is a step and how much of it is done.
func stepWords(s *progress.Step) string {
	amount := func(n int64) string { return counted(n, string(s.Unit)) }
	if s.Unit == progress.Bytes {
		amount = sizeWords
	}
	done := s.Done()
	switch {
	case s.Unit == "":
		return s.What
	case s.Total > 0 && s.Unit == progress.Bytes:
		return fmt.Sprintf("%s, %s of %s", s.What, amount(done), amount(s.Total))
	case s.Total > 0:
		return fmt.Sprintf("%s, %d of %s", s.What, done, amount(s.Total))
	}
	return fmt.Sprintf("%s, %s so far", s.What, amount(done))
}
