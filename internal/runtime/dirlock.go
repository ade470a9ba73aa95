package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DirLock is the lock of a state directory. It ends with the process, or by
// Unlock.
type DirLock struct{ file *os.File }

// lockFile is never removed: a process could hold the lock of a removed file.
const lockFile = "lock"

// LockStateDir takes the lock of a daemon's state directory, or returns a
// [*LockedError]. It does not wait.
//
// The lock belongs to an open file that no program we start inherits. It does
// last until a child that is being started has reached its exec; the package
// comment says what that is good for. So it is let go only by closing the file,
// never by LOCK_UN, which would take it from such a child as well.
func LockStateDir(dir string) (*DirLock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
		}
		return nil, stateLockedBy(f, path)
	}
	if err := writeHolder(f, path); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	return &DirLock{file: f}, nil
}

// StateDirHeld says whether a process holds the lock of a state directory, without taking it
// for longer than a moment. A directory that was never locked is not held.
func StateDirHeld(dir string) (bool, error) {
	err := checkFlock(filepath.Join(dir, lockFile))
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	}
	return false, err
}

// writeHolder leaves the holder's pid for people and for [stateLockedBy].
func writeHolder(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(held, now) {
		return fmt.Errorf("%s was replaced while it was being locked", path)
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// stateLockedBy names the holder: the kernel knows best, but not across pid
// namespaces; what the file says may be about an earlier holder.
func stateLockedBy(f *os.File, path string) *LockedError {
	e := lockedBy(path)
	if e.PID == 0 {
		buf := make([]byte, 32)
		n, _ := f.ReadAt(buf, 0)
		e.PID, _ = strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	}
	return e
}

// Place names what is locked, as this kernel has it: only within one place does the lock tell of other daemons, and no other file has
// its name as long as the lock is held. Empty: it cannot be told.
func (l *DirLock) Place() string {
	boot, err := BootID()
	var is unix.Stat_t
	if err != nil || unix.Fstat(int(l.file.Fd()), &is) != nil {
		return ""
	}
	return fmt.Sprintf("%s/%x/%d", boot, is.Dev, is.Ino)
}

// Unlock gives the lock back.
func (l *DirLock) Unlock() error { return l.file.Close() }
