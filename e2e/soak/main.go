// Command soak runs the fault bench (e2e/faults) seed after seed, each as a process of its own:
//
//	go run ./e2e/soak -for 2h                 go on for two hours, from a random seed
//	go run ./e2e/soak -seed 17                replay one seed
//	go run ./e2e/soak -seed 17 -job growing   its faults, over another job
//	go run ./e2e/soak -table                  measure recovery times, beside plain etcd
//
// A seed that fails leaves logs, history and a timeline (timeline.html) in a directory that is named at the end. It needs
// root and Linux; see needsFaultBench in e2e/faults.
//
// What holds: every run has a deadline, and whatever it made (processes, mounts, namespaces) is gone when it has ended, also
// after Ctrl-C: the run's own watchdog, which outlives it, sees to that.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	buildDeadline = 15 * time.Minute
	// seedDeadline bounds one run. Most take a minute; every wait in it is bounded too.
	seedDeadline = 20 * time.Minute
	// endDeadline is for the watchdog of a run that was broken off.
	endDeadline = time.Minute
)

type settings struct {
	lasts   time.Duration
	seed    uint64
	seeded  bool
	job     string
	out     string
	table   bool
	rounds  int
	verbose bool
}

func main() {
	var s settings
	flag.DurationVar(&s.lasts, "for", 0, "begin no further seed after so long; 0: one seed only")
	flag.Uint64Var(&s.seed, "seed", 0, "begin with this seed (default a random one)")
	flag.StringVar(&s.job, "job", "", "the job that runs meanwhile (default the seed's own choice)")
	flag.StringVar(&s.out, "out", "", "keep what is known of runs that fail here (default a new directory)")
	flag.BoolVar(&s.table, "table", false, "measure recovery times instead")
	flag.IntVar(&s.rounds, "n", 3, "with -table: how often each fault is measured")
	flag.BoolVar(&s.verbose, "v", false, "print all that a run says")
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { s.seeded = s.seeded || f.Name == "seed" })
	if flag.NArg() > 0 || s.rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if !s.seeded {
		s.seed = uint64(rand.Uint32())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := s.run(ctx)
	switch {
	case ctx.Err() != nil:
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	case failed > 0:
		os.Exit(1)
	}
}

// run runs seed after seed and says what came of it.
func (s settings) run(ctx context.Context) (failed int, err error) {
	if s.out == "" {
		if s.out, err = os.MkdirTemp("", "etcdadm-soak-"); err != nil {
			return 0, err
		}
		defer func() { _ = os.Remove(s.out) }() // only if nothing is in it
	}
	if s.out, err = filepath.Abs(s.out); err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp("", "etcdadm-soak-work-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	b := bench{settings: s, work: work}
	if err := b.build(ctx); err != nil {
		return 0, err
	}
	if s.table {
		return 0, b.measure(ctx)
	}
	began, runs, skipped := time.Now(), 0, 0
	var all totals
	for seed := s.seed; ctx.Err() == nil && (runs == 0 || time.Since(began) < s.lasts); seed++ {
		one := b.seed(ctx, seed)
		if ctx.Err() != nil {
			break // it was broken off, and says nothing
		}
		runs++
		all.add(one)
		fmt.Println(one)
		if one.skipped != "" {
			skipped++
			break // the next one would be, too
		}
		if one.err != nil {
			failed++
		}
	}
	fmt.Printf("%d seeds, %d failed, %d skipped, %s; %s\n", runs, failed, skipped, time.Since(began).Round(time.Second), all)
	if failed > 0 {
		fmt.Printf("logs, histories and timelines: %s\n", s.out)
	}
	return failed, nil
}

// totals are what all seeds together came to.
type totals struct{ faults, answered, unknown, events int }

func (t *totals) add(o outcome) {
	var answered, unknown, keys, events int
	if n, _ := fmt.Sscanf(o.found, "%d operations answered and %d not on %d keys, %d events", &answered, &unknown, &keys, &events); n == 4 {
		t.answered, t.unknown, t.events = t.answered+answered, t.unknown+unknown, t.events+events
	}
	t.faults += o.faults
}

func (t totals) String() string {
	return fmt.Sprintf("%d faults, %d operations answered and %d not, %d events watched", t.faults, t.answered, t.unknown, t.events)
}

// bench is what all runs share.
type bench struct {
	settings
	work string
}

func (b bench) programs() string { return filepath.Join(b.work, "bin") }
func (b bench) test() string     { return filepath.Join(b.work, "faults.test") }

// build makes the programs under test, and the bench.
func (b bench) build(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	for _, args := range [][]string{
		{"build", "-buildvcs=false", "-ldflags=-X etcdadm.io/internal/release.SystemRoot=/nonexistent", "-o", b.programs() + "/", "etcdadm.io/cmd/..."},
		{"test", "-c", "-o", b.test(), "etcdadm.io/e2e/faults"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.WaitDelay = 5 * time.Second
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said)
		}
	}
	return nil
}

// outcome is what came of a seed.
type outcome struct {
	seed    uint64
	what    string // the schedule's first line
	found   string // the clients' summary
	faults  int    // that were injected
	skipped string
	err     error
	took    time.Duration
	why     []string // lines of failure
}

func (o outcome) String() string {
	verdict := "ok"
	switch {
	case o.skipped != "":
		verdict = "skipped: " + o.skipped
	case o.err != nil:
		verdict = "FAILED: " + o.err.Error() + "\n    " + strings.Join(o.why, "\n    ")
	}
	return fmt.Sprintf("%s  seed %d  %4.0fs  %s\n    %s\n    %s", time.Now().UTC().Format(time.TimeOnly), o.seed, o.took.Seconds(), verdict, o.what, o.found)
}

// roundOf is the line that tells what a round is about to do, or has done.
var roundOf = regexp.MustCompile(`  round \d+: (.*)`)

// faultsIn counts the faults of such a line. What stands before is no fault: a time has a
// plus of its own.
func faultsIn(line string) (n int, ok bool) {
	found := roundOf.FindStringSubmatch(line)
	if found == nil {
		return 0, false
	}
	return 1 + strings.Count(found[1], " + "), true
}

var (
	// said is what the test itself says, and not a daemon whose log it shows.
	said = regexp.MustCompile(`^\w+_test\.go:\d+: `)
	// told is a line of the run's story.
	told = regexp.MustCompile(`^\w+_test\.go:\d+: \d\d:\d\d:\d\d\.`)
)

// complains: a line of a failed run that may be why.
func complains(text string) bool {
	return said.MatchString(text) && !told.MatchString(text) || strings.HasPrefix(text, "--- FAIL") || strings.HasPrefix(text, "panic")
}

// seed runs one seed and reads its words.
func (b bench) seed(ctx context.Context, seed uint64) outcome {
	o := outcome{seed: seed}
	began, injected := time.Now(), 0
	args := []string{"-test.run=^TestFaultSeeds$", fmt.Sprintf("-e2e.faults.seeds=%d", seed)}
	if b.job != "" {
		args = append(args, "-e2e.faults.job="+b.job)
	}
	o.err = b.runTest(ctx, args, func(line string) {
		text := strings.TrimSpace(line)
		faults, round := faultsIn(text)
		switch {
		case strings.Contains(text, "SKIPPED"):
			_, o.skipped, _ = strings.Cut(text, "SKIPPED, ")
		case strings.Contains(text, fmt.Sprintf("seed %d: ", seed)) && o.what == "":
			_, after, _ := strings.Cut(text, fmt.Sprintf("seed %d: ", seed))
			o.what = after
		case strings.Contains(text, "healed after"):
			o.faults += injected
		case round:
			injected = faults
		case strings.Contains(text, "operations answered"):
			_, after, _ := strings.Cut(text, "s  ")
			o.found = strings.TrimSpace(after)
		case complains(text):
			if len(o.why) < 12 {
				o.why = append(o.why, text)
			}
		}
	})
	o.took = time.Since(began)
	return o
}

// runTest runs the bench's test and waits for all that it started, its watchdog
// included: every one of them has inherited a pipe that ends with the last.
func (b bench) runTest(ctx context.Context, args []string, line func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, seedDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.test(), append(args, "-test.v", "-test.timeout="+seedDeadline.String(), "-e2e.faults.out="+b.out)...)
	dir, err := sourceDir(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(b.work, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // what is mounted below is gone by then
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ETCDADM_E2E_PROGRAMS="+b.programs(), "TMPDIR="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program, which breaks the run off
	cmd.WaitDelay = endDeadline
	alive, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	cmd.ExtraFiles = []*os.File{held}
	said, err := cmd.StdoutPipe()
	if err != nil {
		held.Close()
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		held.Close()
		return err
	}
	held.Close()
	b.follow(said, line)
	err = cmd.Wait()
	if alive.SetReadDeadline(time.Now().Add(endDeadline)) == nil {
		if _, readErr := alive.Read(make([]byte, 1)); !errors.Is(readErr, io.EOF) {
			err = errors.Join(err, fmt.Errorf("something that the run started does not end: %w", readErr))
		}
	}
	return err
}

func (b bench) follow(from io.Reader, line func(string)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if b.verbose {
			fmt.Println(lines.Text())
		}
		line(lines.Text())
	}
	_, _ = io.Copy(io.Discard, from) // a line too long must not stop the run
}

// sourceDir is where the test's files are.
func sourceDir(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "etcdadm.io/e2e/faults").Output()
	if err != nil {
		return "", fmt.Errorf("find the package e2e/faults: %w", err)
	}
	return strings.TrimSpace(string(said)), nil
}

// measure runs the measures of recovery times and prints the table.
func (b bench) measure(ctx context.Context) error {
	args := []string{"-test.run=^TestRecoveryTimes$", fmt.Sprintf("-e2e.faults.measure=%d", b.rounds)}
	return b.runTest(ctx, args, func(line string) {
		if _, row, ok := strings.Cut(line, "TABLE "); ok && !b.verbose {
			fmt.Println(row)
		}
		if strings.Contains(line, "SKIPPED") {
			fmt.Println(line)
		}
	})
}
