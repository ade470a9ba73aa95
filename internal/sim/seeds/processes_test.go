package seeds_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/internal/sim"
)

// A seed runs on one processor, so many seeds run in several processes: the
// test runs itself, and hands out seeds on standard input.

var worker = flag.Bool("worker", false, "run the seeds that standard input names, and print their reports; the tests start themselves so")

// reportMark begins the line of a report.
const reportMark = "report: "

// TestWorker is such a process.
func TestWorker(t *testing.T) {
	if !*worker {
		t.Skip("it is started by TestSeeds and TestReplay")
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var seed uint64
		if _, err := fmt.Sscan(in.Text(), &seed); err != nil {
			t.Fatal(err)
		}
		r := live(t, seed, false)
		if len(r.Failures) == 0 {
			r.Timeline = ""
		}
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s%s\n", reportMark, line)
	}
}

// inProcesses runs seeds in as many processes as there are processors, and
// gives each report to done, which may be called from several goroutines.
func inProcesses(t *testing.T, first uint64, count int, done func(sim.Report)) {
	t.Helper()
	seeds := make(chan uint64)
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), count) {
		workers.Go(func() {
			if err := inProcess(t, seeds, done); err != nil {
				t.Error(err)
				for range seeds { // so that nobody waits
				}
			}
		})
	}
	for seed := first; count > 0; seed++ {
		if *adopting && !sim.Adopts(seed) || *hostsKeep && !sim.HostsKeep(seed) {
			continue
		}
		seeds <- seed
		count--
	}
	close(seeds)
	workers.Wait()
}

// inProcess runs seeds in one process.
func inProcess(t *testing.T, seeds <-chan uint64, done func(sim.Report)) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test's own program: %w", err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestWorker$", "-worker")
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	var said strings.Builder
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("start a process for seeds: %w", err)
	}
	lines := bufio.NewReader(out)
	for seed := range seeds {
		_, err := fmt.Fprintln(in, seed)
		for err == nil {
			var line string
			line, err = lines.ReadString('\n')
			told, isReport := strings.CutPrefix(line, reportMark)
			if !isReport {
				said.WriteString(line)
				continue
			}
			var r sim.Report
			if err = json.Unmarshal([]byte(told), &r); err == nil {
				done(r)
			}
			break
		}
		if err != nil {
			return fmt.Errorf("seed %d ended its process: %w: %w\n%s", seed, err, c.Wait(), said.String())
		}
	}
	in.Close()
	for err == nil {
		_, err = lines.ReadString('\n')
	}
	return c.Wait()
}
