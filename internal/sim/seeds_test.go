package sim_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/sim"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "run this seed only, and show its timeline with -v")
	manySeeds = flag.Int("seeds", 100, "how many seeds to run")
	tries     = flag.Int("tries", 1, "how often to run the one seed, until it fails")
	firstSeed = flag.Uint64("first-seed", 1, "the first of them")
)

func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		for range *tries {
			r := inBubble(t, *oneSeed)
			if testing.Verbose() && *tries == 1 {
				fmt.Println(r.Timeline)
			}
			if report(t, r); t.Failed() {
				return
			}
		}
		return
	}
	began := time.Now()
	var virtual, points, changes, acked, worst atomic.Int64
	seeds := make(chan uint64)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for seed := range seeds {
				r := inBubble(t, seed)
				virtual.Add(int64(r.Virtual))
				points.Add(int64(r.Points))
				changes.Add(int64(r.Changes))
				acked.Add(int64(r.Acked))
				for w := worst.Load(); int64(r.Converged) > w && !worst.CompareAndSwap(w, int64(r.Converged)); w = worst.Load() {
				}
				report(t, r)
			}
		})
	}
	for i := range *manySeeds {
		seeds <- *firstSeed + uint64(i)
	}
	close(seeds)
	workers.Wait()
	took := time.Since(began)
	t.Logf("%d seeds in %s (%.1f a second): %s of virtual time, %d changes of the world, %d changes of voters, %d writes acknowledged; the slowest took %s to converge",
		*manySeeds, took.Round(time.Millisecond), float64(*manySeeds)/took.Seconds(), time.Duration(virtual.Load()).Round(time.Minute), points.Load(), changes.Load(), acked.Load(), time.Duration(worst.Load()).Round(time.Second))
}

// inBubble runs a seed in a bubble of its own.
func inBubble(t *testing.T, seed uint64) (r sim.Report) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		synctest.Test(t, func(*testing.T) { r = sim.RunSeed(seed) })
	})
	return r
}

func report(t *testing.T, r sim.Report) {
	t.Helper()
	if len(r.Failures) == 0 {
		return
	}
	for _, f := range r.Failures {
		t.Errorf("seed %d: %s", r.Seed, f)
	}
	// Go's scheduler has a say in the order of what happens at one instant, so
	// the timeline of this very run is kept, and a replay may take some tries.
	kept := filepath.Join(t.ArtifactDir(), fmt.Sprintf("seed-%d.txt", r.Seed))
	if err := os.WriteFile(kept, []byte(r.Timeline), 0o644); err != nil {
		t.Error(err)
	}
	lines := strings.Split(r.Timeline, "\n")
	t.Logf("the end of its timeline:\n%s", strings.Join(lines[max(0, len(lines)-80):], "\n"))
	t.Logf("replay with: go test ./internal/sim -run TestSeeds -v -seed=%d -tries=20; for whole timelines add -artifacts -outputdir=DIR", r.Seed)
}

// TestMain trades memory for time: worlds are small and die young.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
