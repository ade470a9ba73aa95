package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
)

// timeline is what happened: lines for people, and the trace, which has every
// call, message, fault and write besides. Two runs of one seed are the same run
// if and only if their traces are equal, which is what the hash is for.
type timeline struct {
	full bool // keep the lines of the trace, too

	mu    sync.Mutex // guards what follows
	lines []line
	hash  uint64
	size  int // of the trace, in events
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
	t.size++
	t.hash = mix(t.hash ^ uint64(at))
	t.hash = mix(t.hash ^ hashOf(string(h)))
	for _, word := range words {
		t.hash = mix(t.hash ^ hashOf(word))
	}
	if people || t.full {
		t.lines = append(t.lines, line{at: at, host: h, text: strings.Join(words, " ")})
	}
}

// Trace is the hash of the trace and the number of its events.
func (w *World) Trace() (hash uint64, events int) {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	return w.lines.hash, w.lines.size
}

// Timeline renders what happened, the last lines only if there are many.
func (w *World) Timeline(most int) string {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	var b strings.Builder
	ls := w.lines.lines
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
