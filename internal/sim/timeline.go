package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
)

// timeline is what happened: lines for people, and the trace, which has every
// call, message, fault and write besides. Two runs of one seed are the same run
// if and only if their traces are equal, which is what the hash is for. What
// happens at one instant has no order in the trace: goroutines of one daemon
// that were woken together may run in any.
type timeline struct {
	full bool // keep the lines of the trace, too

	mu    sync.Mutex // guards what follows
	lines []line
	hash  uint64        // of the instants that are over
	last  time.Duration // the instant that is not
	sum   uint64        // of its events
	size  int           // of the trace, in events
}

type line struct {
	at   time.Duration
	host cluster.HostID
	text string
}

// tracef tells people something.
func (w *World) tracef(h cluster.HostID, format string, args ...any) {
	w.record(h, true, fmt.Sprintf(format, args...))
}

// event is a part of the trace that nobody reads unless two traces differ.
func (w *World) event(h cluster.HostID, what, detail string) { w.record(h, false, what, detail) }

func (w *World) record(h cluster.HostID, people bool, words ...string) {
	at := time.Since(w.began)
	t := &w.lines
	t.mu.Lock()
	defer t.mu.Unlock()
	if at != t.last {
		t.hash, t.last, t.sum = t.hashed(), at, 0
	}
	e := mix(hashOf(string(h)))
	for _, word := range words {
		e = mix(e ^ hashOf(word))
	}
	t.size++
	t.sum += e
	if people || t.full {
		t.lines = append(t.lines, line{at: at, host: h, text: strings.Join(words, " ")})
	}
}

func (t *timeline) hashed() uint64 { return mix(mix(t.hash^uint64(t.last)) ^ t.sum) }

// Trace is the hash of the trace and the number of its events.
func (w *World) Trace() (hash uint64, events int) {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	return w.lines.hashed(), w.lines.size
}

// Timeline renders what happened, the last lines only if there are many. The
// lines of a whole trace that are of one instant are sorted.
func (w *World) Timeline(most int) string {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	var b strings.Builder
	ls := w.lines.lines
	if w.lines.full {
		ls = slices.Clone(ls)
		slices.SortFunc(ls, func(a, b line) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.host, b.host), cmp.Compare(a.text, b.text))
		})
	}
	if len(ls) > most {
		fmt.Fprintf(&b, "… %d lines before\n", len(ls)-most)
		ls = ls[len(ls)-most:]
	}
	for _, l := range ls {
		who := string(l.host)
		if who == "" {
			who = "-"
		}
		fmt.Fprintf(&b, "%16.9f %-4s %s\n", l.at.Seconds(), who, l.text)
	}
	return b.String()
}
