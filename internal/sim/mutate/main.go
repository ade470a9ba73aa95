// Command mutate switches the rules of SAFETY.md off, one at a time, in a copy
// of the tree, and finds out whether the tests notice:
//
//	go run ./internal/sim/mutate [-only REGEXP] [-v]
//	go run ./internal/sim/mutate -slice COMMIT -most DURATION
//	go run ./internal/sim/mutate -build
//
// The second form runs a slice: the commit decides the order, and no mutation is
// begun after that time. One is always run, and one that was begun is ended. The
// third runs no test, and finds out whether all of them compile.
//
// A mutation is a file in mutations: header lines "rule:", "why:" and "test:"
// (arguments of go test), "module:" where it is about another module than the
// root's, and edits of the form
//
//	== plan view.takeOut
//	-- old
//	an expression or statement that the declaration has exactly once
//	-- new
//	what takes its place
//
// The head names a directory and a declaration in it: a function, a method as
// Type.Name, "const name", "var name" or "type Name". Any file of the directory may
// have it, with any build tag; a file of tests only if the head ends in "in tests".
// Go tokens are compared: comments, spaces, line breaks, and a comma before a
// closing bracket do not count. A head that is one word is the path of a file whose
// bytes are compared, for what is in no declaration of Go.
//
// One that is not caught, does not apply or does not compile fails the run.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed mutations/*.txt
var definitions embed.FS

// testTimeout bounds one test run.
const testTimeout = 6 * time.Minute

func main() {
	only := flag.String("only", "", "run mutations whose file name matches this")
	verbose := flag.Bool("v", false, "show what the tests said")
	commit := flag.String("slice", "", "run mutations in an order that this word decides")
	most := flag.Duration("most", 0, "begin no mutation after this time (0: run all)")
	build := flag.Bool("build", false, "run no test, and say which mutations do not compile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, *only, *commit, *most, *verbose, *build)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, only, commit string, most time.Duration, verbose, build bool) (ok bool, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return false, fmt.Errorf("read -only: %w", err)
	}
	all, err := load(wanted)
	if err != nil {
		return false, err
	}
	if build {
		return builds(ctx, all)
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir); err != nil {
		return false, fmt.Errorf("copy the tree: %w", err)
	}
	if commit != "" {
		shuffle(all, commit)
	}
	missed, tried, start, files := 0, 0, time.Now(), newTree(dir)
	for _, m := range all {
		if tooLate(tried, most, time.Since(start)) {
			break
		}
		tried++
		began := time.Now()
		verdict, said, err := m.try(ctx, files)
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
	fmt.Println(summary(tried, missed, len(all), commit))
	return missed == 0, nil
}

// shuffle orders mutations by a hash of the commit and their names, so that every
// commit tries others first.
func shuffle(all []mutation, commit string) {
	rank := func(m mutation) []byte {
		sum := sha256.Sum256([]byte(commit + "\x00" + m.name))
		return sum[:]
	}
	slices.SortFunc(all, func(a, b mutation) int { return bytes.Compare(rank(a), rank(b)) })
}

// tooLate reports whether no further mutation is begun. The first one always is.
func tooLate(tried int, most, passed time.Duration) bool {
	return tried > 0 && most > 0 && passed >= most
}

// summary is the last line of a run.
func summary(tried, missed, all int, commit string) string {
	s := fmt.Sprintf("%d of %d mutations were caught", tried-missed, tried)
	if commit != "" {
		s += fmt.Sprintf("; slice %.12s of %d, %d were not run", commit, all, all-tried)
	} else if tried < all {
		s += fmt.Sprintf("; %d of %d were not run", all-tried, all)
	}
	return s
}

// Verdicts.
const (
	caught    = "caught"
	notCaught = "NOT caught"
	broken    = "BROKEN"
)

type mutation struct {
	name, rule, why string
	module          string // its directory; empty: the root's
	test            []string
	edits           []edit
}

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
			m.edits = append(m.edits, place(value))
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
		case head == "module:":
			m.module = value
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
func (m mutation) try(ctx context.Context, files *tree) (verdict, said string, err error) {
	changed, err := files.apply(m)
	if err != nil {
		return broken, err.Error(), nil
	}
	defer func() {
		for path := range changed {
			err = errors.Join(err, os.WriteFile(filepath.Join(files.root, path), files.files[path].text, 0o644))
		}
	}()
	for path, text := range changed {
		if err := os.WriteFile(filepath.Join(files.root, path), text, 0o644); err != nil {
			return "", "", err
		}
	}
	out, err := goCommand(ctx, filepath.Join(files.root, m.module), append([]string{"test", "-vet=off", "-failfast", "-p", "2"}, m.test...)...)
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
