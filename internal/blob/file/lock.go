package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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
// the process dies.
func (s *Store) lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	patient, cancel := context.WithTimeoutCause(ctx, lockPatience, errHeld)
	defer cancel()
	fail := func() (func(), error) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for the store's lock: %w", ctx.Err())
		}
		return nil, &blob.Error{
			Op: "lock", Object: "store " + s.String(), Err: fmt.Errorf("%w for %v", errHeld, lockPatience),
			Advice: "find it with `fuser " + s.dir + "/" + lockName + "`; the lock goes with the process, the file may stay",
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
			return func() {
				// Closing alone would leave the lock with a child that was forked just now, until it executes its program.
				_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
				f.Close()
				<-s.turn
			}, nil
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
