package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/wake"
)

// install unpacks a checked archive and puts it in its place.
func (d *Downloader) install(ctx context.Context, version, part, dir string) error {
	fresh := d.beside(version, ".new")
	if err := os.RemoveAll(fresh); err != nil { // ours, under the lock, of a process that was killed
		return err
	}
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // gone after the rename
	archive, err := os.Open(part)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := extract(archive, fullName(version), fresh); err != nil {
		return err
	}
	told, err := ask(ctx, filepath.Join(fresh, "etcd"), answerDeadline)
	if err != nil {
		return fmt.Errorf("try it: %w", err)
	}
	if told != version {
		return fmt.Errorf("%w: the archive of %s has etcd %s in it", ErrTrust, version, told)
	}
	disk := durable.On(d.files)
	if err := errors.Join(disk.SyncTree(fresh), makeRoom(dir)); err != nil {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	return disk.SyncDir(d.Cache)
}

// makeRoom moves what is no whole release out of the way, under a name that no
// release has.
func makeRoom(dir string) error {
	for n := 1; ; n++ {
		aside := filepath.Join(filepath.Dir(dir), fmt.Sprintf(".%s.broken-%d", filepath.Base(dir), n))
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if err := os.Rename(dir, aside); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
}

// whole says why a directory is no downloaded release as it was unpacked.
func whole(dir string) error {
	sums, err := contents(dir)
	if err != nil {
		return err
	}
	if sums["etcd"] == "" {
		// A directory that a person filled is theirs.
		if found, err := findProgram(filepath.Join(dir, "etcd")); found || err != nil {
			return err
		}
		return os.ErrNotExist
	}
	for _, name := range programs {
		if sums[name] == "" {
			continue
		}
		if got, err := sumOf(filepath.Join(dir, name)); err != nil {
			return err
		} else if got != sums[name] {
			return ErrAltered
		}
	}
	return nil
}

// lockPoll is how often a lock that another download holds is asked for again.
const lockPoll = 100 * time.Millisecond

// lockFile takes a lock that other processes see. The kernel ends it with this
// process. There is no event to wait for, so it is asked for again; held is
// called once when somebody else has it.
func lockFile(ctx context.Context, path string, held func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, err
		}
		if !told {
			held()
		}
		if !wake.After(ctx, lockPoll) {
			f.Close()
			return nil, ctx.Err()
		}
	}
}
