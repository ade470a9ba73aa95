package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestRun(t *testing.T) {
	const both = "echo out; echo err >&2; exit 7"
	for _, test := range []struct {
		name           string
		flags          []string
		log, out, errs string
		script         string
		code           int
		withoutLog     bool
	}{
		{name: "into a file", log: "out\nerr\n", script: both, code: 7},
		{name: "and printed", flags: []string{"--also-stdout"}, log: "out\nerr\n", out: "out\nerr\n", script: both, code: 7},
		{name: "standard error apart", flags: []string{"--redirect-stderr=false"}, log: "out\n", errs: "err\n", script: both, code: 7},
		{name: "without a file", withoutLog: true, out: "out\nerr\n", script: both, code: 7},
		{name: "ended by a signal", script: "kill -9 $$", code: 137},
		{name: "its child holds the output", flags: []string{"--also-stdout"}, script: "sleep 5 & exit 3", code: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			args := test.flags
			if !test.withoutLog {
				args = append(args, "--log-file="+path)
			}
			var out, errs bytes.Buffer
			code, err := run(append(args, "/bin/sh", "-c", test.script), &out, &errs)
			if err != nil || code != test.code || out.String() != test.out || errs.String() != test.errs {
				t.Errorf("exit code %d, %v, printed %q and %q", code, err, &out, &errs)
			}
			if log, _ := os.ReadFile(path); string(log) != test.log {
				t.Errorf("the file has %q", log)
			}
		})
	}
	if code, err := run([]string{"/does/not/exist"}, os.Stdout, os.Stderr); code != 1 || err == nil {
		t.Errorf("no such program: exit code %d, %v", code, err)
	}
	if code, err := run(nil, os.Stdout, os.Stderr); code != 2 || err == nil {
		t.Errorf("no program: exit code %d, %v", code, err)
	}
}
