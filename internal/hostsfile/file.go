package hostsfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/wake"
)

// lockPoll is how often a lock that another daemon holds is asked for again.
const lockPoll = 20 * time.Millisecond

// File is one cluster's view of a hosts file.
type File struct {
	Path    string // /etc/hosts; a symbolic link is followed and stays
	Cluster string

	rename func(from, to string) error // of a test; nil: os.Rename
}

// Set makes the cluster's block hold these entries and reports whether the file
// was changed. Without entries the block is removed. A file with the right block
// is not written, one that is missing is created. It waits for other writers
// until ctx ends. Errors are a *MalformedError, an *InputError, or wrap those of
// the system; the file is as before then, except after an error while it had to
// be written in place.
func (f File) Set(ctx context.Context, entries []Entry) (changed bool, err error) {
	return f.edit(ctx, entries, func(before []byte) ([]byte, error) { return Edit(before, f.Cluster, entries) })
}

// Merge is Set for entries that are not all there is, as the function Merge says.
func (f File) Merge(ctx context.Context, entries []Entry, stays func(name string) bool) (kept []string, err error) {
	_, err = f.edit(ctx, entries, func(before []byte) (after []byte, err error) {
		after, kept, err = Merge(before, f.Cluster, entries, stays)
		return after, err
	})
	return kept, err
}

func (f File) edit(ctx context.Context, entries []Entry, edit func(before []byte) ([]byte, error)) (changed bool, err error) {
	// The entries are checked before a missing file is created for them.
	if _, err := Edit(nil, f.Cluster, entries); err != nil {
		return false, err
	}
	if len(entries) == 0 {
		if _, err := os.Stat(f.Path); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	held, err := f.open(ctx)
	if err != nil {
		return false, fmt.Errorf("edit hosts file: %w", err)
	}
	defer held.Close()
	before, err := io.ReadAll(held)
	if err != nil {
		return false, fmt.Errorf("edit hosts file: %w", err)
	}
	after, err := edit(before)
	if malformed, ok := errors.AsType[*MalformedError](err); ok {
		malformed.File = f.Path
	}
	if err != nil {
		return false, err
	}
	if bytes.Equal(before, after) {
		return false, nil
	}
	if err := f.replace(held, after); err != nil {
		return false, fmt.Errorf("edit hosts file: %w", err)
	}
	return true, nil
}

// open returns the file with an exclusive lock on it, which Close gives back.
// As writers rename, the one that was opened may not be the file any more once
// the lock is there; then it begins again.
func (f File) open(ctx context.Context) (*os.File, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		held, err := regular.OpenFile(f.Path, os.O_RDONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := lock(ctx, held); err != nil {
			held.Close()
			return nil, err
		}
		mine, err := held.Stat()
		if err != nil {
			held.Close()
			return nil, err
		}
		if current, err := os.Stat(f.Path); err == nil && os.SameFile(mine, current) {
			return held, nil
		}
		held.Close()
	}
}

// lock takes the lock, or wraps the context's error. flock cannot wait for a
// context, so it asks again.
func lock(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !wake.After(ctx, lockPoll) {
			return fmt.Errorf("wait for another writer of %s: %w", f.Name(), ctx.Err())
		}
	}
}

// replace puts the content into the place of the file that is held: by rename,
// or where that cannot be, in place. In a container /etc/hosts is a mount of its
// own, over which nothing can be renamed (EBUSY) and beside which nothing may be
// writable.
func (f File) replace(held *os.File, content []byte) error {
	target, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return err
	}
	err = f.renameOver(held, target, content)
	for _, cannot := range []error{unix.EBUSY, unix.EXDEV, unix.EROFS, fs.ErrPermission} {
		if errors.Is(err, cannot) {
			return writeInPlace(target, content)
		}
	}
	return err
}

func (f File) renameOver(held *os.File, target string, content []byte) (err error) {
	info, err := held.Stat()
	if err != nil {
		return err
	}
	// One name for all: the lock is held, and what a crash left is overwritten.
	fresh := target + ".etcdadm-new"
	out, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		out.Close()
		if err != nil {
			os.Remove(fresh)
		}
	}()
	if _, err := out.Write(content); err != nil {
		return err
	}
	if err := sameOwner(out, info); err != nil {
		return err
	}
	if err := out.Chmod(info.Mode().Perm()); err != nil { // after chown, which may clear bits
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	rename := f.rename
	if rename == nil {
		rename = os.Rename
	}
	if err := rename(fresh, target); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(target))
}

// writeInPlace overwrites the file. A crash can leave a part of the old content
// behind the new one, so the new length is set last; nothing else can be done
// where no rename is possible.
func writeInPlace(path string, content []byte) error {
	f, err := regular.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(content))); err != nil {
		return err
	}
	return f.Sync()
}

// sameOwner gives the new file to the owner of the old one.
func sameOwner(f *os.File, like os.FileInfo) error {
	old, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if fresh, ok := info.Sys().(*syscall.Stat_t); ok && fresh.Uid == old.Uid && fresh.Gid == old.Gid {
		return nil
	}
	return f.Chown(int(old.Uid), int(old.Gid))
}
