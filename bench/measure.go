package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// runDeadline bounds one run of one side, with its preparations.
const runDeadline = 5 * time.Minute

// measure is one thing that is measured: one or more rows of the table.
type measure struct {
	name string
	rows []row
	most int // runs at most, whatever -n says; 0: no bound
	hand side
	ours side
}

// side runs once in an empty directory and gives one value a row.
type side func(ctx context.Context, b *bench, dir string) (sample, error)

// row is one line of the table.
type row struct {
	name   string
	unit   string
	digits int
	target target
}

// target is what ours must keep: a bound, the median by hand and some more, or
// so many times the median by hand.
type target struct {
	bound  float64
	byHand bool
	times  bool
}

func (t target) limit(hand float64) float64 {
	switch {
	case t.times:
		return hand * t.bound
	case t.byHand:
		return hand + t.bound
	}
	return t.bound
}

func atMost(v float64) target     { return target{bound: v} }
func overByHand(v float64) target { return target{bound: v, byHand: true} }
func timesByHand(v float64) target {
	return target{bound: v, byHand: true, times: true}
}

func seconds(name string, t target) row { return row{name: name, unit: "s", digits: 2, target: t} }

// sample is the outcome of one run.
type sample struct {
	Values []float64 `json:"values"` // in the order of the rows
	Events []event   `json:"events,omitempty"`
	Load   float64   `json:"load"` // the machine's load average before it
	Err    string    `json:"error,omitempty"`
}

// event is something that happened on the way, seconds after the start.
type event struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

func took(d time.Duration, events ...event) sample {
	return sample{Values: []float64{d.Seconds()}, Events: events}
}

func at(since, t time.Time, what string) event {
	return event{At: t.Sub(since).Seconds(), What: what}
}

// bench is one run of the program.
type bench struct {
	settings
	dir   string
	bin   string
	cache string // of etcd's releases
}

// measure runs both sides of a measure alternately, the one that goes first
// changing, and sums up each row.
func (b *bench) measure(ctx context.Context, m measure) []result {
	n := b.n
	if m.most > 0 {
		n = min(n, m.most)
	}
	var hand, ours []sample
	for i := range n {
		turns := []func(){
			func() { hand = b.once(ctx, m, m.hand, "hand", i, hand) },
			func() { ours = b.once(ctx, m, m.ours, "ours", i, ours) },
		}
		if i%2 == 1 {
			turns[0], turns[1] = turns[1], turns[0]
		}
		for _, turn := range turns {
			turn()
		}
	}
	var out []result
	for i, r := range m.rows {
		out = append(out, sumUp(m.name, r, i, hand, ours))
	}
	return out
}

// once runs one side in a directory of its own.
func (b *bench) once(ctx context.Context, m measure, s side, who string, i int, before []sample) []sample {
	if s == nil || ctx.Err() != nil {
		return before
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%s-%d", m.name, who, i+1))
	ctx, cancel := context.WithTimeout(ctx, runDeadline)
	defer cancel()
	load := loadAverage()
	var got sample
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		got, err = s(ctx, b, dir)
	}
	got.Load = load
	if err == nil && len(got.Values) != len(m.rows) {
		err = fmt.Errorf("%d values for %d rows", len(got.Values), len(m.rows))
	}
	if err != nil {
		got.Err = err.Error()
		fmt.Fprintf(os.Stderr, "%s, %s, run %d: %v\n", m.name, who, i+1, err)
	}
	if b.verbose {
		printRun(os.Stdout, m, who, i+1, got)
	}
	if b.keep == "" && err == nil {
		_ = os.RemoveAll(dir) // a leftover goes with the program's directory
	}
	return append(before, got)
}
