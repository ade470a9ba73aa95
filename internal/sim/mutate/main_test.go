package main

import (
	"errors"
	"path/filepath"
	"regexp"
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
