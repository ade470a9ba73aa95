package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/internal/runtime"
)

// lockState makes the state directory where it is not there yet, and takes its
// lock. It returns what it made, the innermost first.
func (d *daemon) lockState() (lock *runtime.DirLock, made []string, err error) {
	const advice = "--data-dir names a directory that this user can write"
	dir := filepath.Join(d.cfg.DataDir, "etcdadm")
	for p := dir; p != filepath.Dir(p); p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, p)
	}
	if len(made) > 0 {
		made = append([]string{filepath.Join(dir, "lock")}, made...)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		unmake(made)
		return nil, nil, &Error{Problem: "make the data directory", Err: err, Advice: advice}
	}
	lock, err = runtime.LockStateDir(dir)
	if errors.Is(err, runtime.ErrLocked) {
		return nil, nil, &Error{Problem: "the data directory " + d.cfg.DataDir + " is another daemon's", Err: err, Advice: "one daemon a data directory; stop that one first"}
	}
	if err != nil {
		return nil, nil, &Error{Problem: "lock the data directory", Err: err, Advice: advice}
	}
	d.place = lock.Place()
	return lock, made, nil
}

// unmake takes back what a start made that was refused: the lock, which is
// still held, and the directories that are empty after it.
func unmake(made []string) {
	for _, path := range made {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // there is something in it by now
		}
	}
}

// errStateGone says that the state directory was wiped, or replaced by another
// one, while the daemon ran and no etcd of its did any more.
var errStateGone = errors.New("the data directory was wiped while the daemon ran")

const (
	// stateLook is how often the state directory is looked at.
	stateLook = time.Second
	// stateRest is the same while etcd runs, which nothing is done about then.
	stateRest = 10 * time.Second
)

// watchState ends with errStateGone when what this daemon has locked is no
// longer what lies in the data directory: it could neither promise nor write
// anything down any more. While etcd runs it waits: a member that still serves
// is not given up for that.
func (d *daemon) watchState(ctx context.Context) error {
	path := filepath.Join(d.cfg.DataDir, "etcdadm", "lock")
	held, err := os.Stat(path)
	if err != nil {
		held = nil
	}
	return d.watchLock(ctx, path, held)
}

// watchLock watches the file that this daemon has locked; nil: it was gone at once.
func (d *daemon) watchLock(ctx context.Context, path string, held fs.FileInfo) error {
	t := time.NewTimer(stateLook)
	defer t.Stop()
	for missed := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		now, err := os.Stat(path)
		switch {
		case held == nil || errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(held, now):
			missed++
		default:
			missed = 0
		}
		if d.process.Status().PID != 0 {
			t.Reset(stateRest)
			continue
		}
		// Twice: whoever wipes may not be done yet.
		if missed >= 2 {
			return errStateGone
		}
		t.Reset(stateLook)
	}
}
