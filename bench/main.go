package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

// settings are the flags.
type settings struct {
	n        int
	size     int // MB
	quick    bool
	only     string
	json     string
	strict   bool
	verbose  bool
	keep     string
	programs string
	builtin  bool
}

func main() {
	var s settings
	flag.IntVar(&s.n, "n", 5, "runs of each side of a measure")
	flag.IntVar(&s.size, "size", 900, "size in MB of the database that is backed up and restored")
	flag.BoolVar(&s.quick, "quick", false, "two runs of each, and a short look at the idle daemon")
	flag.StringVar(&s.only, "only", "", "measure only what matches this regular expression")
	flag.StringVar(&s.json, "json", "", "write every sample to this file as well")
	flag.BoolVar(&s.strict, "strict", false, "exit with 1 when a target is missed")
	flag.BoolVar(&s.verbose, "v", false, "print each run with its timeline")
	flag.StringVar(&s.keep, "keep", "", "keep data and logs of all runs in this directory")
	flag.StringVar(&s.programs, "programs", "", "directory with etcd-manager and etcd-manager-ctl, instead of building them")
	flag.BoolVar(&s.builtin, "builtin", false, "ours runs the etcd that the daemon carries, where it has the version")
	flag.Parse()
	if flag.NArg() > 0 || s.n < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	missed, err := run(ctx, s)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	case missed && s.strict:
		os.Exit(1)
	}
}

// run measures, and reports whether a target was missed.
func run(ctx context.Context, s settings) (missed bool, err error) {
	if s.quick {
		s.n = 2
	}
	only, err := regexp.Compile(s.only)
	if err != nil {
		return false, fmt.Errorf("read -only: %w", err)
	}
	b := &bench{settings: s, dir: s.keep}
	if s.keep == "" {
		if b.dir, err = os.MkdirTemp("", "etcdadm-bench-"); err != nil {
			return false, err
		}
		defer os.RemoveAll(b.dir)
	} else if err := os.MkdirAll(s.keep, 0o700); err != nil {
		return false, err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return false, err
	}
	if err := b.prepare(ctx); err != nil {
		return false, err
	}
	about := machine(b.dir)
	about.print(os.Stdout)
	var results []result
	for _, m := range measures() {
		if !only.MatchString(m.name) {
			continue
		}
		rows := b.measure(ctx, m)
		if ctx.Err() != nil {
			break // what was measured before is shown
		}
		results = append(results, rows...)
		printProgress(os.Stdout, rows)
	}
	printTable(os.Stdout, results)
	if s.json != "" {
		if err := writeJSON(s.json, about, results); err != nil {
			return false, err
		}
	}
	return anyMissed(results), errors.Join(context.Cause(ctx), anyFailed(results))
}
