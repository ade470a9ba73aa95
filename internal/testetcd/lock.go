package testetcd

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// LockFile takes an exclusive lock on path, across processes, and returns what
// releases it. The kernel releases it too when this process ends. flock cannot
// wait for a context, and a signal to break a blocking call would be worse than
// asking again every 100 ms.
func LockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err := tryLock(path)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLock is LockFile without the wait: EWOULDBLOCK when another holds it.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return func() { f.Close() }, nil
}
