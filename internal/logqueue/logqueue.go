// Package logqueue stands between a program's log and the writer that takes it, such as standard
// error.
//
//	logger → Write → queue, bounded → one goroutine, while there is something → writer
//
// The invariant: whoever logs goes on, whatever the writer does. A pipe that nobody reads, a
// terminal that was stopped and a journald that hangs all block a write without an end, and a
// daemon that logs between a decision and its act would act on what was true long ago. So a line
// is waited for lineWait at most, and for no time at all once the writer is behind; when the queue
// is full, new lines are dropped, counted, and told of as soon as the writer goes on. The lines
// that come out are in the order in which they were logged.
//
// The short wait is for a program that is killed or crashes right after a line: while the writer
// keeps up, a line is out before its logger goes on.
package logqueue

import (
	"io"
	"sync"
	"time"
)

const (
	// maxBytes bounds what is queued: some thousand lines, which is hours of a quiet daemon.
	maxBytes = 1 << 20
	// resumeBytes is what may be queued still when lines are taken again after it was full, so
	// that a slow writer gets stretches of the log with a word between them, and not every other
	// line.
	resumeBytes = maxBytes / 2
	// lineWait is how long a line is waited for while the writer keeps up, which takes far less.
	lineWait = 10 * time.Millisecond
)

// Queue is the writer of a log. It may be used by several goroutines.
type Queue struct {
	to   io.Writer
	tell func(lines uint64, over time.Duration) []byte

	mu     sync.Mutex // guards what follows; never held over a write
	lines  []*line    // oldest first; the first one is being written while idle is there
	bytes  int        // of lines
	idle   chan struct{}
	behind bool // a line was waited for in vain since the queue was empty last
	full   bool // until there is room again, so that what comes is dropped in one piece

	lost  uint64 // lines that were dropped and are not told of yet
	since time.Time
	fails bool // the last write failed
	total uint64
}

// line is one of the log, or tells of lines that were dropped.
type line struct {
	text  []byte
	taken chan struct{} // closed once the writer has had it

	lost  uint64 // of how many lines it tells
	since time.Time
}

// New makes a queue before a writer, whose errors are lines that were dropped. tell words the
// line that says how many were dropped, and in how long; it must not write to the queue.
func New(to io.Writer, tell func(lines uint64, over time.Duration) []byte) *Queue {
	return &Queue{to: to, tell: tell}
}

// Write queues one line, and never fails.
func (q *Queue) Write(text []byte) (int, error) {
	if l := q.put(text); l != nil {
		q.await(l)
	}
	return len(text), nil
}

// put queues a line, or drops it. It returns the line if it is to be waited for.
func (q *Queue) put(text []byte) *line {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := maxBytes
	if q.full {
		limit = resumeBytes
	}
	if q.full = q.bytes > 0 && q.bytes+len(text) > limit; q.full { // a line alone is taken however long it is
		q.lose(1, time.Now())
		q.total++
		return nil
	}
	q.tellLost()
	l := q.add(&line{text: append([]byte(nil), text...)})
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.drain()
	}
	if q.behind {
		return nil
	}
	return l
}

// await waits for a line, and for no further one if that is in vain.
func (q *Queue) await(l *line) {
	timer := time.NewTimer(lineWait)
	defer timer.Stop()
	select {
	case <-l.taken:
		return
	case <-timer.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.behind = q.idle != nil
}

// drain writes until the queue is empty.
func (q *Queue) drain() {
	for {
		l := q.next()
		if l == nil {
			return
		}
		_, err := q.to.Write(l.text)
		q.wrote(l, err)
	}
}

// next is the line to be written; nil: there is none, and another drain begins with the next one.
func (q *Queue) next() *line {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 && !q.fails { // else it comes with the next line, which tries the writer
		q.tellLost()
	}
	if len(q.lines) == 0 {
		close(q.idle)
		q.lines, q.idle, q.behind = nil, nil, false
		return nil
	}
	return q.lines[0]
}

// wrote is told what became of the first line.
func (q *Queue) wrote(l *line, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[0] = nil
	q.lines, q.bytes = q.lines[1:], q.bytes-len(l.text)
	q.fails = err != nil
	switch {
	case err != nil && l.lost > 0:
		q.lose(l.lost, l.since)
	case err != nil:
		q.lose(1, time.Now())
		q.total++
	}
	close(l.taken)
}

// add queues a line. The caller holds the mutex, as in what follows.
func (q *Queue) add(l *line) *line {
	l.taken = make(chan struct{})
	q.lines, q.bytes = append(q.lines, l), q.bytes+len(l.text)
	return l
}

func (q *Queue) lose(n uint64, since time.Time) {
	if q.lost == 0 || since.Before(q.since) {
		q.since = since
	}
	q.lost += n
}

// tellLost queues the word of what was dropped, if anything was.
func (q *Queue) tellLost() {
	if q.lost == 0 {
		return
	}
	q.add(&line{text: q.tell(q.lost, time.Since(q.since)), lost: q.lost, since: q.since})
	q.lost = 0
}

// Flush waits until everything that was logged is written, or the time is up, and says which.
// It is for the end of a program.
func (q *Queue) Flush(within time.Duration) bool {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return true
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// Dropped is how many lines were dropped so far.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
