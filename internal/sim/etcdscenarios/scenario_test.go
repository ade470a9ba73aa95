package etcdscenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// atOnce is how many real clusters run side by side. They mostly wait.
const atOnce = 10

// step is one command of a scenario.
type step struct {
	pos  string
	cmd  string
	args []datadriven.CmdArg
}

// run is one pass of a scenario on one kind of etcd.
type run struct {
	version string
	real    bool
	answers []string
}

func (r run) String() string {
	if r.real {
		return "real " + r.version
	}
	return "fake " + r.version
}

// only narrows a run to the scenarios whose name begins so.
var only = flag.String("scenario", "", "run only the scenarios whose file name begins with this")

// everyRelease runs each scenario on every release of real etcd, and not on one of them.
var everyRelease = flag.Bool("every-release", false, "run each scenario on every release of real etcd")

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/" + *only + "*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	if testing.Short() {
		t.Log("-short: real etcd is NOT run, the fake is compared with the files only")
	} else {
		if !*everyRelease {
			t.Log("each scenario is run on one release of real etcd, and the fake of every one is compared: -every-release")
		}
		for _, v := range testetcd.Versions() {
			testetcd.Binary(t, v)
		}
	}
	passes := make(map[string][]*run)
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, f := range files {
		steps := parse(t, f)
		for j, v := range testetcd.Versions() {
			fake := &run{version: v, answers: onFake(t, v, steps)}
			passes[f] = append(passes[f], fake)
			if testing.Short() || !*everyRelease && i%len(testetcd.Versions()) != j {
				continue
			}
			r := &run{version: v, real: true}
			passes[f] = append(passes[f], r)
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				began := time.Now()
				r.answers = onReal(t, v, steps)
				t.Logf("%s on %s: %s", filepath.Base(f), r, time.Since(began).Round(100*time.Millisecond))
			})
		}
	}
	all.Wait()
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { compare(t, f, passes[f]) })
	}
}

// parse reads a scenario's commands and leaves the file as it is.
func parse(t *testing.T, file string) []step {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	datadriven.RunTestFromString(t, string(content), func(_ *testing.T, d *datadriven.TestData) string {
		steps = append(steps, step{pos: d.Pos, cmd: d.Cmd, args: d.CmdArgs})
		return d.Expected
	})
	return steps
}

func onFake(t *testing.T, version string, steps []step) (answers []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		w := newFakeWorld(cluster.MustVersion(version))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.net.Run(ctx)
		}()
		answers = play(ctx, w, steps)
		cancel()
		<-done
	})
	return answers
}

func onReal(t *testing.T, version string, steps []step) []string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir := t.TempDir()
	w, err := newRealWorld(ctx, dir, version)
	if err != nil {
		t.Errorf("real %s: %v", version, err)
		return nil
	}
	// A log is 64 MB from its first byte, and there are hundreds.
	defer os.RemoveAll(dir)
	defer w.close()
	return play(ctx, w, steps)
}

// compare holds the passes against each other and against the file.
func compare(t *testing.T, file string, passes []*run) {
	at := 0
	var differences []string
	datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string {
		defer func() { at++ }()
		answer := make(map[string]string)
		for _, r := range passes {
			if at >= len(r.answers) {
				differences = append(differences, fmt.Sprintf("%s: %s ended early", d.Pos, r))
				return d.Expected
			}
			got := r.answers[at]
			first, known := answer[r.version]
			if known && first != got {
				differences = append(differences, fmt.Sprintf("%s: %s\nfake %s: %s\nreal %s: %s", d.Pos, d.Cmd, r.version, first, r.version, got))
			}
			answer[r.version] = got
		}
		return merge(answer)
	})
	// At the end, because the file is not rewritten once its test has failed.
	for _, d := range differences {
		t.Error(d)
	}
}

// merge writes the releases' answers: once when they agree.
func merge(answer map[string]string) string {
	versions := testetcd.Versions()
	var groups [][]string
	for _, v := range versions {
		placed := false
		for i, g := range groups {
			if answer[g[0]] == answer[v] {
				groups[i] = append(g, v)
				placed = true
			}
		}
		if !placed {
			groups = append(groups, []string{v})
		}
	}
	if len(groups) == 1 {
		return answer[versions[0]] + "\n"
	}
	var b strings.Builder
	for _, g := range groups {
		for i, v := range g {
			g[i] = minor(v)
		}
		fmt.Fprintf(&b, "[%s] %s\n", strings.Join(g, " "), answer[full(g[0])])
	}
	return b.String()
}

func minor(v string) string { return v[:strings.LastIndexByte(v, '.')] }

func full(minorVersion string) string {
	for _, v := range testetcd.Versions() {
		if minor(v) == minorVersion {
			return v
		}
	}
	return ""
}
