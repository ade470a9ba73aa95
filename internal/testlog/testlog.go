// Package testlog keeps what a test's subject logs, to be read while that goes on.
package testlog

import (
	"strings"
	"sync"
)

// Lines is a writer for a log. The zero value is empty; it may be used by several
// goroutines.
type Lines struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

// Write implements io.Writer.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// String is all that was written.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Count is how many lines that are.
func (l *Lines) Count() int { return strings.Count(l.String(), "\n") }
