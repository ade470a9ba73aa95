package sim_test

import (
	"flag"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/internal/sim"
)

var replayed = flag.Int("replayed", 20, "how many seeds TestReplay runs twice")

// TestReplay runs seeds twice, in two processes and in another order, and wants
// the same trace each time.
func TestReplay(t *testing.T) {
	if raced {
		t.Skip("under the race detector Go's scheduler draws whom it runs next")
	}
	var mu sync.Mutex
	traces := map[uint64]uint64{}
	inProcesses(t, *firstSeed, *replayed, func(r sim.Report) {
		mu.Lock()
		defer mu.Unlock()
		traces[r.Seed] = r.Trace
	})
	equal := 0
	for i := range *replayed {
		seed := *firstSeed + uint64(*replayed-1-i)
		if live(t, seed, false).Trace == traces[seed] {
			equal++
			continue
		}
		t.Errorf("seed %d took two ways", seed)
		showDifference(t, seed)
	}
	t.Logf("%d of %d seeds gave the same trace twice", equal, *replayed)
}

// showDifference runs a seed until two traces differ, and shows where.
func showDifference(t *testing.T, seed uint64) {
	t.Helper()
	first := strings.Split(live(t, seed, true).Timeline, "\n")
	for range 10 {
		again := strings.Split(live(t, seed, true).Timeline, "\n")
		for i := range first {
			if i < len(again) && first[i] == again[i] {
				continue
			}
			before := strings.Join(first[max(0, i-10):i], "\n")
			t.Logf("after\n%s\nonce\n%s\nand once\n%s", before, head(first[i:]), head(again[min(i, len(again)):]))
			return
		}
	}
	t.Logf("ten more runs of it were equal")
}

func head(lines []string) string { return strings.Join(lines[:min(5, len(lines))], "\n") }
