package discovery

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"etcdadm.io/internal/wake"
)

// DefaultPoll is how often a watched directory is looked at beside the events, which some file systems do not give, and none gives
// for changes made on another machine.
const DefaultPoll = 10 * time.Second

// watchDirectory tells when entries of a directory change. The directory may come, go, and be replaced.
func watchDirectory(ctx context.Context, path string, poll time.Duration) <-chan struct{} {
	if poll <= 0 {
		poll = DefaultPoll
	}
	w := &directoryWatch{path: filepath.Clean(path), changes: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, poll)
	}()
	out := make(chan struct{}, 1)
	go forward(ctx, w.changes, ended, out)
	return out
}

// forward passes changes on until the watch has ended, or has had the time for it: a look at a hung disk keeps nobody
// who waits for the end of the channel.
func forward(ctx context.Context, changes <-chan struct{}, ended <-chan struct{}, out chan<- struct{}) {
	defer close(out)
	for ctx.Err() == nil {
		select {
		case <-changes:
			wake.Up(out)
		case <-ctx.Done():
		}
	}
	grace := time.NewTimer(sourceEnds)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
}

type directoryWatch struct {
	path    string
	changes chan struct{}

	deaf    bool              // go without events, as on a system that gives none
	events  *fsnotify.Watcher // nil when the system has no more of them
	watched os.FileInfo       // the directory that events come for, or nil
	parent  bool              // events come for the parent, as the directory is not there
	print   uint64            // of the entries, when they were last polled
}

func (w *directoryWatch) run(ctx context.Context, poll time.Duration) {
	var events <-chan fsnotify.Event
	var errors <-chan error
	if !w.deaf {
		if watcher, err := fsnotify.NewWatcher(); err == nil {
			w.events, events, errors = watcher, watcher.Events, watcher.Errors
			defer watcher.Close()
		}
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	w.attach()
	w.print = w.fingerprint()
	wake.Up(w.changes) // for whatever changed since the caller last looked
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if w.matters(event) {
				wake.Up(w.changes)
			}
		case _, ok := <-errors:
			if !ok {
				errors = nil
				continue
			}
			wake.Up(w.changes) // events may have been dropped
		case <-ticker.C:
			w.attach()
			if print := w.fingerprint(); print != w.print {
				w.print = print
				wake.Up(w.changes)
			}
		}
	}
}

// matters tells whether an event is about an entry, or about the directory itself; then the watch is renewed.
func (w *directoryWatch) matters(event fsnotify.Event) bool {
	if filepath.Clean(event.Name) == w.path {
		if event.Op&^(fsnotify.Chmod|fsnotify.Write) != 0 {
			w.attach()
		}
		return true
	}
	// Hidden files are temporary ones. In the parent only the directory counts.
	return filepath.Dir(event.Name) == w.path && !strings.HasPrefix(filepath.Base(event.Name), ".") && event.Op != fsnotify.Chmod
}

// attach makes events come for the directory as it is now, or for its parent while it is not there.
func (w *directoryWatch) attach() {
	if w.events == nil {
		return
	}
	now, err := os.Stat(w.path)
	if err == nil && w.watched != nil && os.SameFile(now, w.watched) {
		return
	}
	if w.watched != nil {
		_ = w.events.Remove(w.path) // it may have ended by itself
		w.watched = nil
	}
	if w.attachTo(now, err) {
		return
	}
	if !w.parent {
		w.parent = w.events.Add(filepath.Dir(w.path)) == nil
	}
	// It may have come before the watch on its parent began.
	now, err = os.Stat(w.path)
	w.attachTo(now, err)
}

func (w *directoryWatch) attachTo(now os.FileInfo, err error) bool {
	if err != nil || !now.IsDir() || w.events.Add(w.path) != nil {
		return false
	}
	w.watched = now
	if w.parent {
		_ = w.events.Remove(filepath.Dir(w.path))
		w.parent = false
	}
	wake.Up(w.changes)
	return true
}

// fingerprint changes with the names, sizes and times of the entries, and with the directory's coming and going.
func (w *directoryWatch) fingerprint() uint64 {
	sum := fnv.New64a()
	entries, err := os.ReadDir(w.path)
	fmt.Fprintln(sum, err == nil)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if info, err := entry.Info(); err == nil {
			fmt.Fprintf(sum, "%q %d %d\n", entry.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return sum.Sum64()
}
