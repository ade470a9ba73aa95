// Command mutate switches the rules of SAFETY.md off, one at a time, in a copy
// of the tree, and finds out whether the tests notice:
//
//	go run ./internal/sim/mutate [-only REGEXP] [-v]
//
// A mutation is a file in mutations: header lines "rule:", "why:" and "test:"
// (arguments of go test), and edits of the form
//
//	== path/of/file.go
//	-- old
//	lines that are there exactly once
//	-- new
//	lines that take their place
//
// One that is not caught, does not apply or does not compile fails the run.
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

//go:embed mutations/*.txt
var definitions embed.FS

// testTimeout bounds one test run.
const testTimeout = 6 * time.Minute

func main() {
	only := flag.String("only", "", "run mutations whose file name matches this")
	verbose := flag.Bool("v", false, "show what the tests said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, *only, *verbose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, verbose bool) (ok bool, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return false, fmt.Errorf("read -only: %w", err)
	}
	all, err := load(wanted)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir); err != nil {
		return false, fmt.Errorf("copy the tree: %w", err)
	}
	missed := 0
	for _, m := range all {
		began := time.Now()
		verdict, said, err := m.try(ctx, dir)
		if err != nil {
			return false, fmt.Errorf("mutation %s: %w", m.name, err)
		}
		fmt.Printf("%-12s rule %-3s %-34s %s (%s)\n", verdict, m.rule, m.name, m.why, time.Since(began).Round(time.Second))
		if verdict != caught {
			missed++
		}
		if verbose || verdict == broken {
			fmt.Println(said)
		}
	}
	fmt.Printf("%d of %d mutations were caught\n", len(all)-missed, len(all))
	return missed == 0, nil
}

// Verdicts.
const (
	caught    = "caught"
	notCaught = "NOT caught"
	broken    = "BROKEN"
)

type mutation struct {
	name, rule, why string
	test            []string
	edits           []edit
}

type edit struct{ file, old, new string }

func load(wanted *regexp.Regexp) ([]mutation, error) {
	files, err := fs.Glob(definitions, "mutations/*.txt")
	if err != nil {
		return nil, err
	}
	var out []mutation
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		if !wanted.MatchString(name) {
			continue
		}
		b, err := definitions.ReadFile(f)
		if err != nil {
			return nil, err
		}
		m, err := parse(name, string(b))
		if err != nil {
			return nil, fmt.Errorf("read mutation %s: %w", name, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func parse(name, text string) (mutation, error) {
	m := mutation{name: name}
	var into *string
	for line := range strings.Lines(text) {
		head, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case head == "==":
			m.edits = append(m.edits, edit{file: value})
			into = nil
		case head == "--" && value == "old" && len(m.edits) > 0:
			into = &m.edits[len(m.edits)-1].old
		case head == "--" && value == "new" && len(m.edits) > 0:
			into = &m.edits[len(m.edits)-1].new
		case into != nil:
			*into += line
		case head == "rule:":
			m.rule = value
		case head == "why:":
			m.why = value
		case head == "test:":
			m.test = strings.Fields(value)
		case strings.TrimSpace(line) != "":
			return m, fmt.Errorf("what is %q?", strings.TrimSpace(line))
		}
	}
	for i := range m.edits { // so that an edit can be a part of a line
		e := &m.edits[i]
		e.old, e.new = strings.TrimSuffix(e.old, "\n"), strings.TrimSuffix(e.new, "\n")
	}
	if m.rule == "" || m.why == "" || len(m.test) == 0 || len(m.edits) == 0 {
		return m, errors.New("it needs a rule, a reason, a test and an edit")
	}
	return m, nil
}

// copyTree copies everything of the module that a build reads.
func copyTree(to string) error {
	return filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), b, 0o644)
	})
}

// try applies the edits, runs the test, and takes the edits back. What does not
// compile shows in what go test says.
func (m mutation) try(ctx context.Context, dir string) (verdict, said string, err error) {
	before := map[string][]byte{}
	defer func() {
		for file, b := range before {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), b, 0o644))
		}
	}()
	for _, e := range m.edits {
		path := filepath.Join(dir, e.file)
		b, err := os.ReadFile(path)
		if err != nil {
			return broken, err.Error(), nil
		}
		if _, known := before[e.file]; !known {
			before[e.file] = b
		}
		if n := strings.Count(string(b), e.old); n != 1 || e.old == "" {
			return broken, fmt.Sprintf("%s has the old text %d times:\n%s", e.file, n, e.old), nil
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), e.old, e.new, 1)), 0o644); err != nil {
			return "", "", err
		}
	}
	out, err := goCommand(ctx, dir, append([]string{"test", "-vet=off", "-failfast", "-p", "2"}, m.test...)...)
	if ctx.Err() != nil {
		return "", out, ctx.Err()
	}
	return judge(out, err), out, nil
}

var (
	// failed is what go test says of a package whose tests ran and failed: with
	// the time that they took.
	failed = regexp.MustCompile(`(?m)^FAIL\t\S+\t[0-9.]+s$`)
	// unbuilt is what it says of one whose tests did not run.
	unbuilt = regexp.MustCompile(`(?m)^FAIL\t\S+ \[\w+ failed\]$`)
)

// judge reads how a run of go test ended. It looks at what the go command says
// and not at what tests say, who may speak of full disks of their own.
func judge(out string, err error) string {
	switch {
	case err == nil:
		return notCaught
	case failed.MatchString(out) && !unbuilt.MatchString(out):
		return caught
	}
	return broken
}

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	c.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}
