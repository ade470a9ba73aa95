package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/internal/progress"
)

// Who waits for a building site hears once who builds there, and how long the wait
// may last.
func TestAHeldSiteIsSaid(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	held, err := openSite(within(t), dir)
	must(t, err)
	for _, c := range []struct {
		name string
		sign func()
		who  string
	}{
		{"by us", func() {}, fmt.Sprintf("process %d (%s)", os.Getpid(), filepath.Base(os.Args[0]))},
		{"by a tool of ours", func() { held.sign(4711, "etcdutl") }, "process 4711 (etcdutl)"},
		{"by one that has not signed", func() { must(t, held.lock.Truncate(0)) }, "another process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sign()
			var said []string
			ctx, cancel := context.WithTimeout(within(t), 20*lockPoll)
			defer cancel()
			_, err := openSite(hearing(t, ctx, func(s string) { said = append(said, s) }), dir)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.who) {
				t.Errorf("it ended with %v, want the word of %s", err, c.who)
			}
			if want := c.who + " builds in " + dir + "; this waits "; len(said) != 1 || !strings.HasPrefix(said[0], want) {
				t.Errorf("said %q, want %q once", said, want)
			}
		})
	}
	// One that is let go is taken, and not asked for ten minutes.
	var waits atomic.Int32
	ctx := hearing(t, within(t), func(s string) {
		if strings.HasSuffix(s, "this waits 1m0s at most") || strings.HasSuffix(s, "this waits 59s at most") {
			waits.Add(1)
			must(t, held.close())
		}
	})
	began := time.Now()
	s, err := openSite(ctx, dir)
	must(t, err)
	must(t, s.close())
	if waits.Load() != 1 || time.Since(began) > 30*time.Second {
		t.Errorf("it was said %d times, and took %s", waits.Load(), time.Since(began))
	}
}

// hearing has a function told what is waited for.
func hearing(t *testing.T, ctx context.Context, waits func(string)) context.Context {
	ctx, end := progress.Tell(ctx, progress.Words{First: time.Hour, Still: func(*progress.Step, time.Duration) {}, Waits: waits})
	t.Cleanup(end)
	return ctx
}
