package seeds_test

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/internal/sim"
)

var replayed = flag.Int("replayed", 10, "how many seeds TestReplay runs twice")

// TestReplay runs seeds twice, in two processes and in another order, and wants
// the same trace each time. A seed that took two ways is run again: the machine
// may have been too busy (see tries), but one of the two has to come back.
func TestReplay(t *testing.T) {
	if sim.Raced {
		t.Skip("under the race detector Go's scheduler draws whom it runs next")
	}
	var mu sync.Mutex
	traces := map[uint64]uint64{}
	inProcesses(t, *firstSeed, *replayed, func(r sim.Report) {
		mu.Lock()
		defer mu.Unlock()
		traces[r.Seed] = r.Trace
	})
	equal, later, many := 0, 0, 0
	for i := range *replayed {
		seed := *firstSeed + uint64(*replayed-1-i)
		second := live(t, seed, false).Trace
		switch {
		case second == traces[seed]:
			equal++
		case comesBack(t, seed, traces[seed], second):
			later++
		default:
			many++
			t.Errorf("seed %d takes many ways", seed)
			showDifference(t, seed)
		}
	}
	t.Logf("%d of %d seeds gave the same trace at once, %d when they were run again, %d did not", equal, *replayed, later, many)
}

func comesBack(t *testing.T, seed uint64, ways ...uint64) bool {
	t.Helper()
	for range tries {
		way := live(t, seed, false).Trace
		if slices.Contains(ways, way) {
			return true
		}
		ways = append(ways, way)
	}
	return false
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
