package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMutationsApply: what a mutation changes is still there, exactly once, and the
// changed file parses. It is found out here, and not only when somebody next runs
// all of them, which takes hours.
func TestMutationsApply(t *testing.T) {
	all, err := load(regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	files := newTree(filepath.Join("..", "..", ".."))
	for _, m := range all {
		if _, err := files.apply(m); err != nil {
			t.Errorf("mutation %s: %v", m.name, err)
		}
	}
}

// TestEveryMutationHasItsTest: each alternative of a mutation's -run names a test in the
// packages that it runs. One that names none catches nothing, whatever is broken: a test
// that moved to another package leaves such a line behind.
func TestEveryMutationHasItsTest(t *testing.T) {
	all, err := load(regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	tests := map[string][]string{}
	for _, m := range all {
		run, dirs := "", []string(nil)
		for i, arg := range m.test {
			switch {
			case arg == "-run" && i+1 < len(m.test):
				run = m.test[i+1]
			case strings.HasPrefix(arg, "-run="):
				run = strings.TrimPrefix(arg, "-run=")
			case strings.HasPrefix(arg, "./"):
				dirs = append(dirs, filepath.Join(m.module, arg))
			}
		}
		var names []string
		for _, dir := range dirs {
			if _, read := tests[dir]; !read {
				files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*_test.go"))
				if err != nil || len(files) == 0 {
					t.Errorf("mutation %s: no tests in %s: %v", m.name, dir, err)
				}
				tests[dir] = []string{}
				for _, f := range files {
					text, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					for _, d := range declared.FindAllStringSubmatch(string(text), -1) {
						tests[dir] = append(tests[dir], d[1])
					}
				}
			}
			names = append(names, tests[dir]...)
		}
		alternatives := strings.Split(run, "|")
		if strings.Contains(run, "(") { // they are parts of names
			alternatives = []string{run}
		}
		for _, a := range alternatives {
			a, _, _ = strings.Cut(a, "/")
			if pattern := regexp.MustCompile(a); !slices.ContainsFunc(names, pattern.MatchString) {
				t.Errorf("mutation %s: no test of %v matches %q", m.name, dirs, a)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	exit := errors.New("exit status 1")
	for _, c := range []struct {
		what, out string
		err       error
		want      string
	}{
		{"all well", "ok  \tetcdadm.io/internal/sim\t3.2s\n", nil, notCaught},
		{"a test failed", "--- FAIL: TestRule23 (0.10s)\nFAIL\nFAIL\tetcdadm.io/internal/sim\t0.1s\nFAIL\n", exit, caught},
		{"a test speaks of a full disk", "save state: no space left on device\n--- FAIL: TestRule23 (0.10s)\nFAIL\nFAIL\tetcdadm.io/internal/sim\t0.1s\nFAIL\n", exit, caught},
		{"a panic", "panic: boom\n\ngoroutine 1 [running]:\nFAIL\tetcdadm.io/internal/sim\t0.1s\nFAIL\n", exit, caught},
		{"no build", "# etcdadm.io/internal/host\nhost.go:1:1: syntax error\nFAIL\tetcdadm.io/internal/sim [build failed]\nFAIL\n", exit, broken},
		{"no setup", "FAIL\tetcdadm.io/internal/sim [setup failed]\nFAIL\n", exit, broken},
		{"one failed and one did not build", "FAIL\tetcdadm.io/plan\t0.1s\nFAIL\tetcdadm.io/internal/sim [build failed]\nFAIL\n", exit, broken},
		{"the disk of the go command is full", "go: creating work dir: mkdir /tmp/go-build1: no space left on device\n", exit, broken},
		{"out of time", "", errors.New("signal: killed"), broken},
	} {
		if got := judge(c.out, c.err); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
