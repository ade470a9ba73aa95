package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A part that ends is waited for, with a word while it takes long; one that
// does not is left behind, and named, when its time is up.
func TestPartsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g := group{log: slog.New(slog.NewTextHandler(&said, nil))}
		wedged := make(chan struct{})
		g.start(t.Context(), "quick", func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.start(t.Context(), "slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(25 * time.Second); return nil })
		g.start(t.Context(), "wedged", func(context.Context) error { <-wedged; return nil })
		began := time.Now()
		g.stop("quick", "slow")
		if took := time.Since(began); took != 25*time.Second || len(g.left) > 0 {
			t.Errorf("two parts that end took %s; left: %v", took, g.left)
		}
		if n := strings.Count(said.String(), "part=slow"); n != 2 || strings.Contains(said.String(), "part=quick") {
			t.Errorf("said of the slow part %d times:\n%s", n, &said)
		}
		began = time.Now()
		g.stop("wedged")
		g.stop("wedged") // asked again, as the order of an end has it
		if took := time.Since(began); took != partEnds || len(g.left) != 1 || g.left[0] != "wedged" {
			t.Errorf("one that does not end took %s; left: %v", took, g.left)
		}
		if !strings.Contains(said.String(), `level=ERROR msg="a part of this daemon did not end`) {
			t.Errorf("nobody heard of it:\n%s", &said)
		}
		close(wedged)
	})
}
