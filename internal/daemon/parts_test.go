package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Parts that end are waited for, with a word while it takes long; those that do not
// are left behind, and named, when the time of all is up.
func TestPartsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g := group{log: slog.New(slog.NewTextHandler(&said, nil))}
		wedged := make(chan struct{})
		g.start(t.Context(), "quick", func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.start(t.Context(), "slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(25 * time.Second); return nil })
		for _, name := range []string{"wedged", "another", "the third"} {
			g.start(t.Context(), name, func(context.Context) error { <-wedged; return nil })
		}
		for _, name := range []string{"quick one", "later"} {
			g.start(t.Context(), name, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}
		began := time.Now()
		g.stop(began.Add(partsEnd), "slow", "quick")
		if took := time.Since(began); took != 25*time.Second || len(g.left) > 0 {
			t.Errorf("two parts that end took %s; left: %v", took, g.left)
		}
		if n := strings.Count(said.String(), "parts=[slow]"); n != 2 || strings.Contains(said.String(), "quick") {
			t.Errorf("said of the slow part %d times:\n%s", n, &said)
		}
		began = time.Now()
		g.stop(began.Add(decidingEnds), "wedged", "another", "quick one")
		g.stop(began.Add(hostEnds), "wedged") // asked again, as the order of an end has it
		if took := time.Since(began); took != decidingEnds || !slices.Equal(g.left, []string{"wedged", "another"}) {
			t.Errorf("two that do not end took %s; left: %v", took, g.left)
		}
		g.stop(began.Add(partsEnd), "the third")
		if took := time.Since(began); took != partsEnd || len(g.left) != 3 {
			t.Errorf("three that do not end took %s in all; left: %v", took, g.left)
		}
		if !strings.Contains(said.String(), `level=ERROR msg="parts of this daemon did not end`) || !strings.Contains(said.String(), `parts="[wedged another]" since=`) {
			t.Errorf("nobody heard of it:\n%s", &said)
		}
		again := time.Now()
		g.stop(began.Add(partsEnd), "later") // its time is up before it begins to end
		if took := time.Since(again); took > partLeast || len(g.left) != 3 {
			t.Errorf("one that ends took %s; left: %v", took, g.left)
		}
		close(wedged)
	})
}
