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

// LockedError says what is locked and, where it can be found out, by whom.
type LockedError struct {
	Path string
	PID  int    // 0 when it cannot be seen, as from inside a container
	Name string // of the process
}

func (e *LockedError) Error() string {
	switch {
	case e.PID == 0:
		return fmt.Sprintf("%s is locked by another process", e.Path)
	case e.Name == "":
		return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
	}
	return fmt.Sprintf("%s is locked by process %d (%s)", e.Path, e.PID, e.Name)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

func lockedBy(path string) *LockedError {
	e := &LockedError{Path: path, PID: lockHolder(path)}
	if e.PID != 0 {
		if stat, err := readStat(e.PID); err == nil {
			e.Name = stat.comm
		}
	}
	return e
}

// CheckUnlocked returns a [*LockedError] when a process holds etcd's locks in
// dataDir, nil when none does. A directory that does not exist, or has no member
// in it, is not locked. What cannot be read is another error: it may be locked.
//
// etcd 3 holds two: flock(2) on member/snap/db, taken by bbolt, and a lock that
// belongs to the open file (F_OFD_SETLK) on files of member/wal. etcd 2 has no
// db. The test for the first takes a shared lock for a moment, which bbolt
// would wait out; the test for the second only asks.
func CheckUnlocked(dataDir string) error {
	db := filepath.Join(dataDir, "member", "snap", "db")
	err := checkFlock(db)
	hasDB := !errors.Is(err, os.ErrNotExist)
	if hasDB && err != nil {
		return err
	}
	wal := filepath.Join(dataDir, "member", "wal")
	files, err := os.ReadDir(wal)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("test lock: %w", err)
	}
	for _, entry := range files {
		if filepath.Ext(entry.Name()) != ".wal" {
			continue
		}
		file := filepath.Join(wal, entry.Name())
		err := checkOFD(file)
		if err == nil && !hasDB {
			err = checkFlock(file)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func checkFlock(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("test lock: %w", err)
	}
	defer f.Close() // lets go of the lock too
	switch err := flock(f, unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return lockedBy(path)
	case err != nil:
		return fmt.Errorf("test lock of %s: %w", path, err)
	}
	return nil
}

func checkOFD(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("test lock: %w", err)
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk)
	switch {
	case errors.Is(err, unix.EINVAL): // a kernel or file system without them
		return checkFlock(path)
	case err != nil:
		return fmt.Errorf("test lock of %s: %w", path, err)
	case lk.Type != unix.F_UNLCK:
		return lockedBy(path)
	}
	return nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lockHolder finds the process that holds a lock on path in /proc/locks, or 0.
// The list leaves out processes of other pid namespaces, and gives no pid for
// locks that belong to an open file. It numbers files as the disk does, which on
// btrfs and overlayfs is not what stat tells: then the open files of all processes
// are looked through.
func lockHolder(path string) int {
	node, err := inodeOf(path)
	if err != nil {
		return 0
	}
	data, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(node.dev), unix.Minor(node.dev), node.ino)
	for line := range strings.Lines(string(data)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] == "->" || f[5] != id {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return lockHolderByFiles(path, node)
}

// lockHolderByFiles finds the process with an open file that is node, has the name of
// path, and is locked; 0: none can be seen, as those of other users by who is not root.
// Files of other names are not touched: they may lie on a disk that hangs.
func lockHolderByFiles(path string, node inode) int {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		files, err := os.ReadDir(filepath.Join("/proc", p.Name(), "fd"))
		if err != nil {
			continue
		}
		for _, f := range files {
			at := filepath.Join("/proc", p.Name(), "fd", f.Name())
			if name, err := os.Readlink(at); err != nil || filepath.Base(name) != filepath.Base(path) {
				continue
			}
			if got, err := inodeOf(at); err != nil || got != node {
				continue
			}
			info, err := os.ReadFile(filepath.Join("/proc", p.Name(), "fdinfo", f.Name()))
			if err == nil && strings.Contains(string(info), "\nlock:") {
				return pid
			}
		}
	}
	return 0
}
