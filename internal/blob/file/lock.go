package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
)

const (
	// lockName is the file in the root that is locked while the store is changed. It is never removed: two processes could then
	// hold locks on two files of that name.
	lockName = ".lock"
	// lockPatience bounds the wait for the lock when ctx allows longer. It is held for a few syncs at most.
	lockPatience = 30 * time.Second
	// The wait between two tries grows from the one to the other.
	lockRetryMin = time.Millisecond
	lockRetryMax = 20 * time.Millisecond
)

// errHeld says that another process kept the lock for longer than is reasonable.
var errHeld = errors.New("another process holds the store's lock")

// lock takes the store's lock across processes and goroutines, and gives the function that releases it. The kernel releases it when
// the process dies. It is not given once ctx has ended.
func (s *Store) lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	patient, cancel := context.WithTimeoutCause(ctx, lockPatience, errHeld)
	defer cancel()
	fail := func() (func(), error) {
		held := fmt.Errorf("%w for %v", errHeld, lockPatience)
		switch err := ctx.Err(); {
		case errors.Is(err, context.Canceled):
			return nil, fmt.Errorf("wait for the store's lock: %w", err)
		case err != nil:
			held = fmt.Errorf("%w: %w", errHeld, err)
		}
		who := holder(root)
		return nil, &blob.Error{
			Op: "lock", Object: "store " + s.String(), Err: held,
			Advice: "the last to take it was " + who + "; let it go on or end it: the lock goes with the process, and the file " + s.dir + "/" + lockName + " may stay",
		}
	}
	select {
	case s.turn <- struct{}{}:
	case <-patient.Done():
		return fail()
	}
	if patient.Err() != nil { // both were ready
		<-s.turn
		return fail()
	}
	for wait := lockRetryMin; ; wait = min(2*wait, lockRetryMax) {
		f, err := tryLock(root)
		if err != nil {
			<-s.turn
			return nil, fmt.Errorf("lock the store: %w", bare(err))
		}
		if f != nil {
			unlock := func() {
				// Closing alone would leave the lock with a child that was forked just now, until it executes its program.
				_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
				f.Close()
				<-s.turn
			}
			// Where the file system stood still, the lock comes long after its caller has left.
			if err := ctx.Err(); err != nil {
				unlock()
				return nil, fmt.Errorf("lock the store: %w", err)
			}
			sign(f)
			return unlock, nil
		}
		// flock tells nobody when it comes free, and a blocking one does not end with a context: so ask again, each process
		// at its own pace.
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-patient.Done():
			timer.Stop()
			<-s.turn
			return fail()
		}
	}
}

// sign writes into the lock's file who has it, for those who wait in vain. It
// need not be on the disk, and whether it works is no matter.
func sign(f *os.File) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	_, _ = f.WriteAt(fmt.Appendf(nil, "process %d (%s) on host %s\n", os.Getpid(), filepath.Base(os.Args[0]), host), 0)
}

// holder is who signed last.
func holder(root *os.Root) string {
	const nobody = "a process that did not sign"
	f, err := root.Open(lockName)
	if err != nil {
		return nobody
	}
	defer f.Close()
	signed := make([]byte, 512)
	n, _ := f.ReadAt(signed, 0) // its end comes first
	line, _, whole := strings.Cut(string(signed[:n]), "\n")
	if !whole || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nobody
	}
	return line
}

// tryLock gives the locked file, or nil when somebody else has it.
func tryLock(root *os.Root) (*os.File, error) {
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR):
		f.Close()
		return nil, nil
	case err != nil:
		f.Close()
		return nil, err
	}
	// Somebody may have removed the file between the open and the lock; the others would lock a new one.
	mine, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if now, err := root.Stat(lockName); err != nil || !os.SameFile(mine, now) {
		f.Close()
		return nil, nil
	}
	return f, nil
}
