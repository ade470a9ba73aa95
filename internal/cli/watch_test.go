package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

// saidAs is a decision that was said.
func saidAs(number int, rule, reason string, blockers ...plan.Blocker) console.Said {
	return console.Said{Number: number, At: time.Date(2026, 11, 20, 23, 0, number, 0, time.UTC), Decision: plan.Decision{Rule: rule, Reason: plan.Say(reason), Blockers: blockers}}
}

// Lines are the decisions that are new, and that a daemon does not answer, once.
func TestWatchLines(t *testing.T) {
	var out bytes.Buffer
	v := lines{w: &out, by: &reach{endpoints: []string{"a:1"}, clusterName: "test"}}
	r := healthyReport()
	r.Recent = []console.Said{saidAs(1, "grow", "add b")}
	v.show(r, nil)
	v.show(r, nil)
	v.show(console.Report{}, errors.New("no daemon answers"))
	v.show(console.Report{}, errors.New("no daemon answers"))
	r.Recent = append(r.Recent, saidAs(2, "steady", "all is well", plan.Blocker{Code: "no-host", Sentence: plan.Say("no host is free"), Command: "etcdadm member replace b"}))
	v.show(r, nil)
	for want, n := range map[string]int{"add b": 1, "no daemon answers": 1, "daemons answer again": 1, "all is well": 1, "! no-host": 1, "→ etcdadm member replace b --endpoint a:1": 1} {
		if strings.Count(out.String(), want) != n {
			t.Errorf("%q is not there %d times:\n%s", want, n, &out)
		}
	}
}

// Objects come when something is another one.
func TestWatchJSON(t *testing.T) {
	var out bytes.Buffer
	v := jsonWatch{w: &out}
	r := healthyReport()
	for i := range 3 {
		r.At = time.Now().Add(time.Duration(i) * time.Second)
		v.show(r, nil)
	}
	v.show(console.Report{}, errors.New("broken"))
	v.show(console.Report{}, errors.New("broken"))
	v.show(r, nil)
	all := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(all) != 3 || !strings.Contains(all[0], `"health":"well"`) || all[1] != `{"error":"broken"}` {
		t.Errorf("%d lines: %.200s", len(all), &out)
	}
	for _, l := range all {
		if !json.Valid([]byte(l)) {
			t.Errorf("%.100q is no JSON", l)
		}
	}
}

// A picture fits its screen, whatever there is to be shown, and says how it ends.
func TestWatchPictureFits(t *testing.T) {
	r := healthyReport()
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("decision %d %s", i, strings.Repeat("wörter ", 40)))
	}
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 5}, {1, 1}, {80, 3}} {
		for what, c := range map[string]struct {
			last   *console.Report
			failed error
		}{"well": {&r, nil}, "gone": {&r, errors.New("no daemon\nanswers")}, "never there": {nil, errors.New("no daemon answers")}} {
			p := picture(c.last, c.failed, many, size[0], size[1])
			rows := strings.Split(p, "\n")
			if len(rows) > max(size[1], 2) {
				t.Errorf("%s at %v: %d rows", what, size, len(rows))
			}
			for _, row := range rows {
				if utf8.RuneCountInString(row) > size[0] {
					t.Errorf("%s at %v: %q", what, size, row)
				}
			}
			if size[0] > 20 && !strings.HasSuffix(p, "q ends this") {
				t.Errorf("%s at %v does not say how it ends: %q", what, size, p)
			}
			if c.failed != nil && size[0] > 20 && !strings.HasPrefix(p, "! no daemon answers") {
				t.Errorf("%s at %v: %q", what, size, p)
			}
		}
	}
	if p := picture(&r, nil, many, 120, 40); !strings.Contains(p, "decision 99") || strings.Contains(p, "decision 1 ") {
		t.Errorf("the last decisions are wanted:\n%s", p)
	}
}

// q ends it, and so does Ctrl-C in a terminal that makes no signal of it.
func TestWatchQuits(t *testing.T) {
	for keys, ends := range map[string]bool{"xyq": true, "\x03": true, "Q": true, "\x04": true, "": true} {
		ended := false
		untilQuit(strings.NewReader(keys), func() { ended = true })
		if ended != ends {
			t.Errorf("%q", keys)
		}
	}
	r, w := io.Pipe()
	defer w.Close()
	var once sync.Once
	ended := make(chan struct{})
	go untilQuit(r, func() { once.Do(func() { close(ended) }) })
	_, _ = w.Write([]byte("abc"))
	select {
	case <-ended:
		t.Error("any key ends it")
	case <-time.After(20 * time.Millisecond):
	}
}

// Over any cluster, as long as nobody ends it.
func TestStatusWatch(t *testing.T) {
	a := &answering{report: healthyReport()}
	a.report.Recent = []console.Said{saidAs(1, "steady", "3 of 3 voters are up")}
	r := reach{endpoints: []string{a.serve(t, "test", "a")}, clusterName: "test", output: "table"}
	ctx, cancel := context.WithTimeout(t.Context(), 2*watchPause+watchPause/2)
	defer cancel()
	var out bytes.Buffer
	if err := r.watch(ctx, nil, &out); err != nil || strings.Count(out.String(), "3 of 3 voters are up") != 1 {
		t.Errorf("%v, %q", err, &out)
	}
	r.output = "yaml"
	if err := r.watch(t.Context(), nil, &out); err == nil {
		t.Error("yaml has no objects a line")
	}
}
