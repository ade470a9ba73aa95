package seeds_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
	wanted    = flag.String("trace", "", "run the one seed until it gives this trace, some times at most")
	whole     = flag.Bool("whole", false, "show the whole trace of the one seed in its timeline")
	manySeeds = flag.Int("seeds", sim.Ordinary, "how many seeds to run")
	adopting  = flag.Bool("adopting", false, "run only seeds that begin with a cluster which something else runs")
	hostsKeep = flag.Bool("hosts-keep", false, "run only seeds without a shared store, whose hosts keep the record")
	firstSeed = flag.Uint64("first-seed", 1, "the first of them")
)

func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		r := live(t, *oneSeed, *whole)
		for try := 1; *wanted != "" && *wanted != traceOf(r) && try < tries; try++ {
			r = live(t, *oneSeed, *whole)
		}
		if testing.Verbose() {
			fmt.Println(r.Timeline)
		}
		t.Logf("trace %s of %d events", traceOf(r), r.Events)
		if *wanted != "" && *wanted != traceOf(r) {
			t.Errorf("seed %d did not take the way of trace %s in %d tries", r.Seed, *wanted, tries)
		}
		report(t, r)
		return
	}
	var pruned, versions, refused atomic.Int64
	acts := map[string]int{}
	began := time.Now()
	var virtual, points, changes, acked, worst, generations, persons, recovered atomic.Int64
	inProcesses(t, *firstSeed, *manySeeds, func(r sim.Report) {
		virtual.Add(int64(r.Virtual))
		points.Add(int64(r.Points))
		changes.Add(int64(r.Changes))
		generations.Add(int64(r.Generations))
		persons.Add(int64(r.Persons))
		recovered.Add(int64(r.Recovered))
		acked.Add(int64(r.Acked))
		for w := worst.Load(); int64(r.Converged) > w && !worst.CompareAndSwap(w, int64(r.Converged)); w = worst.Load() {
		}
		pruned.Add(int64(r.Pruned))
		versions.Add(int64(r.Versions))
		refused.Add(int64(len(r.Refused)))
		reporting.Lock()
		for what, n := range r.Acts {
			acts[what] += n
		}
		reporting.Unlock()
		report(t, r)
	})
	took := time.Since(began)
	t.Logf("%d seeds in %s (%.1f a second): %s of virtual time, %d changes of the world, %d changes of voters, %d generations from data (with %d answers of a person, and %d recoveries by themselves), %d writes acknowledged; the slowest took %s to converge",
		*manySeeds, took.Round(time.Millisecond), float64(*manySeeds)/took.Seconds(), time.Duration(virtual.Load()).Round(time.Minute), points.Load(), changes.Load(), generations.Load(), persons.Load(), recovered.Load(), acked.Load(), time.Duration(worst.Load()).Round(time.Second))
	t.Logf("%d directories were pruned; another version was asked for %d times, and etcd refused %d starts for it amid faults", pruned.Load(), versions.Load(), refused.Load())
	t.Logf("actors: %v", acts)
}

// tries is how often a seed is run for a trace. Where the machine has more to do
// than it can, it takes the processor away for so long that Go's monitor puts
// the running goroutine at the end of the queue, and then a seed can take
// another way.
const tries = 10

func traceOf(r sim.Report) string { return fmt.Sprintf("%016x", r.Trace) }

// most is the memory at which garbage is collected also while a seed runs.
const most = 2 << 30

// live runs a seed in a bubble of its own, as it always runs: on one processor,
// whose queue is first in, first out, and without the collector, which takes
// goroutines off the processor and puts them at the queue's end.
func live(t *testing.T, seed uint64, full bool) (r sim.Report) {
	defer runtime.GC()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(most))
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		synctest.Test(t, func(*testing.T) { r = sim.RunSeed(seed, full) })
	})
	return r
}

var reporting sync.Mutex

func report(t *testing.T, r sim.Report) {
	t.Helper()
	if len(r.Failures) == 0 {
		return
	}
	reporting.Lock()
	defer reporting.Unlock()
	for _, f := range r.Failures {
		t.Errorf("seed %d: %s", r.Seed, f)
	}
	kept := filepath.Join(t.ArtifactDir(), fmt.Sprintf("seed-%d.txt", r.Seed))
	if err := os.WriteFile(kept, []byte(r.Timeline), 0o644); err != nil {
		t.Error(err)
	}
	lines := strings.Split(r.Timeline, "\n")
	t.Logf("the end of its timeline:\n%s", strings.Join(lines[max(0, len(lines)-80):], "\n"))
	t.Logf("replay with: go test ./internal/sim/seeds -run TestSeeds -v -seed=%d -trace=%s; for whole timelines add -artifacts -outputdir=DIR, for every call and message -whole", r.Seed, traceOf(r))
}

// TestMain trades memory for time: worlds are small and die young. With the race
// detector it uses one processor: the process ended with SIGSEGV in the detector once.
// The timers of a bubble share one context of the detector, and by our reading two
// processors that look at timers of the same bubble at once spoil it
// (runtime.(*timer).maybeRunChan in Go 1.26); that was not reproduced.
// The detector goes by what happens before what, so that it sees as much.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	if sim.Raced {
		runtime.GOMAXPROCS(1)
	}
	os.Exit(m.Run())
}
