package logqueue

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writer keeps what is written. While shut is there, and not closed, it blocks.
type writer struct {
	mu   sync.Mutex // guards all
	text bytes.Buffer
	shut chan struct{}
	err  error
	slow time.Duration
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	shut, err, slow := w.shut, w.err, w.slow
	w.mu.Unlock()
	if shut != nil {
		<-shut
	}
	time.Sleep(slow)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *writer) set(change func(*writer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *writer) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Split(strings.TrimSuffix(w.text.String(), "\n"), "\n")
}

func words(n uint64, over time.Duration) []byte {
	return fmt.Appendf(nil, "dropped %d in %s\n", n, over)
}

// A line is out before its logger goes on: whoever is killed then has said it.
func TestWrittenBeforeTheLoggerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{slow: lineWait / 2}
		q := New(w, words)
		for n := range 20 {
			fmt.Fprintf(q, "line %d\n", n)
			if got := w.lines(); got[len(got)-1] != fmt.Sprintf("line %d", n) {
				t.Fatalf("after line %d: %q", n, got)
			}
		}
	})
}

func TestBlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shut := make(chan struct{})
		w := &writer{shut: shut}
		q := New(w, words)
		line := strings.Repeat("x", 1023) + "\n"
		const room = maxBytes / 1024
		began := time.Now()
		for range room + 100 {
			fmt.Fprint(q, line)
		}
		if took := time.Since(began); took > lineWait {
			t.Errorf("loggers waited %s, more than for the first line", took)
		}
		if n := q.Dropped(); n != 100 {
			t.Errorf("%d lines were dropped", n)
		}
		if q.bytes > maxBytes {
			t.Errorf("%d bytes are queued", q.bytes)
		}
		began = time.Now()
		if q.Flush(2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("the flush of a blocked writer ended after %s", time.Since(began))
		}
		close(shut)
		if !q.Flush(time.Second) {
			t.Fatal("it does not go on")
		}
		got := w.lines()
		if len(got) != room+1 || got[room] != "dropped 100 in 2s" {
			t.Fatalf("%d lines, the last one %.100q", len(got), got[len(got)-1])
		}
		// All is as before.
		w.set(func(w *writer) { w.shut, w.slow = nil, lineWait/2 })
		fmt.Fprintln(q, "again")
		if got = w.lines(); got[len(got)-1] != "again" || q.Dropped() != 100 || !q.Flush(0) {
			t.Errorf("%d dropped, the last line %.100q", q.Dropped(), got[len(got)-1])
		}
	})
}

// A writer that takes less than is logged gets stretches of the log, in order, and between them a
// word with how much is missing: all that was logged is there or counted.
func TestSlowWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{slow: 2 * lineWait}
		q := New(w, words)
		const all = 9000
		filler := strings.Repeat("x", 1000)
		for n := range all {
			fmt.Fprintf(q, "%d %s\n", n, filler)
			time.Sleep(time.Millisecond)
		}
		if !q.Flush(time.Minute) {
			t.Fatal("it does not come to an end")
		}
		next, told := 0, 0
		for _, line := range w.lines() {
			var n int
			var over string
			if _, err := fmt.Sscanf(line, "dropped %d in %s", &n, &over); err == nil {
				next, told = next+n, told+1
				continue
			}
			if _, err := fmt.Sscanf(line, "%d ", &n); err != nil || n != next {
				t.Fatalf("%.40q, and line %d is next", line, next)
			}
			next++
		}
		if next != all || told == 0 || told > 20 || q.Dropped() == 0 {
			t.Errorf("%d lines of %d are accounted for, with %d words of %d that were dropped", next, all, told, q.Dropped())
		}
	})
}

func TestConcurrentWriters(t *testing.T) {
	w := &writer{}
	q := New(w, words)
	var all sync.WaitGroup
	for who := range 8 {
		all.Go(func() {
			for n := range 200 {
				fmt.Fprintf(q, "%d %d\n", who, n)
			}
		})
	}
	all.Wait()
	if !q.Flush(time.Minute) {
		t.Fatal("it does not come to an end")
	}
	next := map[int]int{}
	for _, line := range w.lines() {
		var who, n int
		if _, err := fmt.Sscanf(line, "%d %d", &who, &n); err != nil || n != next[who] {
			t.Fatalf("%q, and %d is next of it", line, next[who])
		}
		next[who]++
	}
	if len(next) != 8 || next[3] != 200 || q.Dropped() != 0 {
		t.Errorf("%v, %d dropped", next, q.Dropped())
	}
}

// A writer that refuses, as a file on a full disk does, has lost what it refused, and that is told
// once it takes something again.
func TestFailingWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{err: errors.New("no room")}
		q := New(w, words)
		for range 3 {
			fmt.Fprintln(q, "lost")
			time.Sleep(time.Second)
		}
		if !q.Flush(0) || q.Dropped() != 3 {
			t.Fatalf("%d dropped", q.Dropped())
		}
		w.set(func(w *writer) { w.err = nil })
		fmt.Fprintln(q, "kept")
		q.Flush(time.Second)
		if got := strings.Join(w.lines(), "|"); got != "dropped 3 in 3s|kept" {
			t.Errorf("%q", got)
		}
	})
}

// A line that is longer than the queue is a line.
func TestLongLine(t *testing.T) {
	w := &writer{}
	q := New(w, words)
	fmt.Fprintln(q, strings.Repeat("x", 2*maxBytes))
	if !q.Flush(time.Minute) || q.Dropped() != 0 || len(w.lines()[0]) != 2*maxBytes {
		t.Error("it was dropped")
	}
}

// The buffer is the logger's again when Write returns.
func TestBufferIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shut := make(chan struct{})
		w := &writer{shut: shut}
		q := New(w, words)
		buffer := []byte("mine\n")
		q.Write(buffer)
		copy(buffer, "rest\n")
		close(shut)
		q.Flush(time.Second)
		if got := w.lines(); got[0] != "mine" {
			t.Errorf("%q", got)
		}
	})
}

// A pipe that nobody reads, as the kernel has it.
func TestFullPipe(t *testing.T) {
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q := New(pipe, words)
	began := time.Now()
	line := strings.Repeat("x", 511) + "\n"
	for range 10_000 {
		fmt.Fprint(q, line)
	}
	if took := time.Since(began); took > 10*time.Second || q.Dropped() == 0 {
		t.Errorf("it took %s to log, and %d lines were dropped", took, q.Dropped())
	}
	pipe.Close() // ends the write
	q.Flush(time.Minute)
}
