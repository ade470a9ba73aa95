package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"etcdadm.io/internal/wake"
)

// watcherTimeout is how long the making of a watcher may take, which is one look at
// a directory. Whoever asks for it begins to look at the store only afterwards, and
// can do without it.
const watcherTimeout = 2 * time.Second

// Notify tells of changes to objects directly below a prefix that ends with
// "/", by the file system's events: a value is sent soon after a change, and
// perhaps without one. Changes made on another machine give no event, so a
// caller looks now and then as well. The channel is closed when ctx ends, or
// when events cannot be had any more. A file system that does not answer within
// watcherTimeout gives an error.
func (s *Store) Notify(ctx context.Context, prefix string) (<-chan struct{}, error) {
	making, cancel := context.WithTimeout(ctx, watcherTimeout)
	defer cancel()
	w, err := within(making, s, s.watcher, func(w *fsnotify.Watcher) { w.Close() })
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", s.dir, err)
	}
	folder := filepath.Join(s.dir, filepath.FromSlash(strings.TrimSuffix(prefix, "/")))
	told := make(chan struct{}, 1)
	go follow(ctx, w, s.dir, folder, told)
	return told, nil
}

func (s *Store) watcher() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(s.dir); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// follow passes events on until ctx ends. The folder may be made later, and
// anew, so it is watched again whenever the root tells of it.
func follow(ctx context.Context, w *fsnotify.Watcher, root, folder string, told chan<- struct{}) {
	defer close(told)
	defer w.Close()
	watched := watchFolder(w, root, folder)
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if filepath.Dir(e.Name) == root && folder != root {
				if e.Name != folder && !strings.HasPrefix(folder, e.Name+string(filepath.Separator)) {
					continue // another folder's business
				}
				watched = watchFolder(w, root, folder) || watched
			}
			if !watched && e.Name != folder || strings.HasPrefix(filepath.Base(e.Name), tempPrefix) {
				continue
			}
		}
		wake.Up(told)
	}
}

func watchFolder(w *fsnotify.Watcher, root, folder string) bool {
	if folder == root {
		return true
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return false
	}
	return w.Add(folder) == nil
}
