package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/wake"
)

// A site is a directory in which something is built, beside the place where it
// will be. It holds our mark, a lock, and whatever is being built.
const (
	siteMark = "etcdadm-site"
	siteLock = "etcdadm-site.lock"
	markText = "etcdadm builds here. Without a running etcdadm this directory can be removed.\n"
)

// lockPoll is how often a lock that somebody else holds is tried again. flock
// has no way to wait that can be called off.
const lockPoll = 25 * time.Millisecond

// sitePatience bounds the wait for a site that another process builds in: the
// tool of a daemon that was killed goes on with a large restore for minutes.
const sitePatience = 10 * time.Minute

// ErrNoSpace says that the disk has no room for what is to be built.
var ErrNoSpace = errors.New("not enough space on the disk")

// site is ours until close.
type site struct {
	dir  string
	lock *os.File // children inherit it: a tool that outlives us keeps others out
}

// openSite takes dir, which is made or, if it carries our mark, emptied. One
// without the mark is renamed to a free name first. It waits for the lock until
// ctx ends, at most sitePatience.
func openSite(ctx context.Context, dir string) (*site, error) {
	patient, cancel := context.WithTimeout(ctx, sitePatience)
	defer cancel()
	said := false
	for {
		s, err := tryOpenSite(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, errReplaced) {
			if err != nil {
				return nil, fmt.Errorf("open building site: %w", err)
			}
			s.signSelf()
			return s, nil
		}
		if !said && errors.Is(err, unix.EWOULDBLOCK) {
			said = true
			until, _ := patient.Deadline()
			progress.Waits(ctx, "%s builds in %s; this waits %s at most", signed(dir), dir, time.Until(until).Round(time.Second))
		}
		if !wake.After(patient, lockPoll) {
			if ctx.Err() == nil {
				return nil, fmt.Errorf("open building site %s, which %s has held for %s: let it go on or end it, and try again: %w", dir, signed(dir), sitePatience, patient.Err())
			}
			return nil, fmt.Errorf("open building site %s, which %s holds: %w", dir, signed(dir), ctx.Err())
		}
	}
}

// signSize is how much of the lock's file says who has it.
const signSize = 64

// sign writes into the lock's file who builds here, for those who wait: us, or a program
// of ours that inherits the lock and may outlive us. It need not be on the disk, and
// whether it works is no matter.
func (s *site) sign(pid int, program string) {
	line := fmt.Sprintf("process %d (%.40s)", pid, program)
	_, _ = s.lock.WriteAt(fmt.Appendf(nil, "%-*s\n", signSize-1, line), 0)
}

func (s *site) signSelf() { s.sign(os.Getpid(), filepath.Base(os.Args[0])) }

// signed is who signed last.
func signed(dir string) string {
	const somebody = "another process"
	f, err := os.Open(filepath.Join(dir, siteLock))
	if err != nil {
		return somebody
	}
	defer f.Close()
	line := make([]byte, signSize)
	n, _ := f.ReadAt(line, 0)
	var pid int
	var program string
	if _, err := fmt.Sscanf(string(line[:n]), "process %d (%s", &pid, &program); err != nil {
		return somebody
	}
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSuffix(program, ")"))
}

var errReplaced = errors.New("the building site was cleared by its last holder")

func tryOpenSite(dir string) (*site, error) {
	if foreign, err := isForeign(dir); err != nil {
		return nil, err
	} else if foreign {
		if err := setAside(dir); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// The mark comes first: from then on everything in here is ours.
	if err := os.WriteFile(filepath.Join(dir, siteMark), []byte(markText), 0o600); err != nil {
		return nil, gone(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, siteLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, gone(err)
	}
	s := &site{dir: dir, lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, err
	}
	if !s.holds() {
		lock.Close()
		return nil, errReplaced
	}
	// The last holder may have taken the mark away between our looks.
	err = os.WriteFile(filepath.Join(dir, siteMark), []byte(markText), 0o600)
	if err = errors.Join(err, s.clear()); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// gone turns "no such directory" into a reason to begin again.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errReplaced
	}
	return err
}

// isForeign says whether there is something in dir without our mark. An empty
// directory is one whose maker died before it wrote the mark.
func isForeign(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || len(entries) == 0 {
		return false, err
	}
	for _, e := range entries {
		if e.Name() == siteMark {
			return false, nil
		}
	}
	// A holder that goes takes the mark away before the lock.
	return len(entries) > 1 || entries[0].Name() != siteLock, nil
}

// setAside renames dir to a name that says so and that is free.
func setAside(dir string) error {
	for n := 1; ; n++ {
		err := renameNew(dir, fmt.Sprintf("%s.set-aside-%d", dir, n))
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// renameNew renames without ever replacing anything.
func renameNew(from, to string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// holds says whether the locked file is the one that has the name.
func (s *site) holds() bool {
	held, err := s.lock.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(s.lock.Name())
	return err == nil && os.SameFile(held, now)
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// clear removes what is half built. Only the holder of the lock in a marked
// directory comes here.
func (s *site) clear() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == siteMark || e.Name() == siteLock {
			continue
		}
		if err := os.RemoveAll(s.path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// close clears the site and takes it away. The lock goes after the mark, so
// nobody takes a site that is being cleared; whoever takes it then makes a lock
// of his own, and the directory stays his.
func (s *site) close() error {
	err := s.clear()
	for _, path := range []string{s.path(siteMark), s.path(siteLock), s.dir} {
		if e := os.Remove(path); !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, unix.ENOTEMPTY) {
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, s.lock.Close()); err != nil {
		return fmt.Errorf("clear building site: %w", err)
	}
	return nil
}

// SpaceError is [ErrNoSpace] with its figures, in bytes.
type SpaceError struct {
	Dir  string
	Free int64
	Need int64
	Used int64 // was there already of what is to be built, and goes before it is tried again; and what is made later
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("%s: %s has %d MiB free, and %d MiB are needed", ErrNoSpace, e.Dir, e.Free>>20, (e.Need+1<<20-1)>>20)
}

func (e *SpaceError) Unwrap() error { return ErrNoSpace }

// NeedsRoom is how many bytes have to be free before it is tried again.
func (e *SpaceError) NeedsRoom() int64 { return e.Need + e.Used }

// NeedSpace refuses, with [*SpaceError], to go on with what the disk of a directory
// cannot hold; used is what is there of it, and goes with it, and what will be made later.
func NeedSpace(dir string, bytes, used int64) error {
	err := needSpace(dir, bytes)
	if no, ok := errors.AsType[*SpaceError](err); ok {
		no.Used = used
	}
	return err
}

// needSpace refuses to begin what the disk cannot hold: a member that runs on
// the same disk would stop when it is full.
func needSpace(dir string, bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the free space of %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < bytes {
		return &SpaceError{Dir: dir, Free: free, Need: bytes}
	}
	return nil
}

// publish makes everything below built durable, and renames it to its place,
// where nothing may be.
func publish(disk durable.Disk, built, place string) error {
	if err := disk.SyncTree(built); err != nil {
		return err
	}
	if err := renameNew(built, place); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(place))
}
