package progress

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever is told hears the newest step with what it has counted, after the first pause
// and then after longer and longer ones, and nothing after the end.
func TestTheNewestStepIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var still, waited []string
		ctx, end := Tell(t.Context(), Words{
			First: 5 * time.Second, Most: 15 * time.Second,
			Still: func(s *Step, after time.Duration) {
				if s == nil {
					still = append(still, after.String())
					return
				}
				still = append(still, fmt.Sprint(after, " ", s.What, " ", s.Done(), " of ", s.Total))
			},
			Waits: func(s string) { waited = append(waited, s) },
		})
		time.Sleep(6 * time.Second)
		Begin(ctx, 10, Bytes, "reading %s", "a").Add(9)
		time.Sleep(5 * time.Second)
		second := Begin(ctx, 0, Keys, "writing")
		second.Add(2)
		second.Add(3)
		time.Sleep(10 * time.Second)
		second.Set(4)
		time.Sleep(30 * time.Second)
		Waits(ctx, "for %d", 7)
		end()
		end()
		time.Sleep(time.Hour)
		if want := []string{"5s", "10s reading a 9 of 10", "20s writing 5 of 0", "35s writing 4 of 0", "50s writing 4 of 0"}; !slices.Equal(still, want) {
			t.Errorf("told %q, want %q", still, want)
		}
		if len(waited) != 1 || waited[0] != "for 7" {
			t.Errorf("waited for %q", waited)
		}
	})
}

// Work that nobody hears says the same, and keeps nothing.
func TestNobodyHears(t *testing.T) {
	ctx := context.Background()
	s := Begin(ctx, 1, Bytes, "reading")
	s.Add(1)
	s.Set(1)
	Waits(ctx, "for it")
	if s != nil {
		t.Error("a step is kept that nobody hears")
	}
	ctx, end := Tell(ctx, Words{Still: func(*Step, time.Duration) {}, First: time.Hour})
	defer end()
	Waits(ctx, "for it")
}
