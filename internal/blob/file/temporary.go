package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/durable"
)

const (
	// tempPrefix begins the names of files in the root that are being written.
	tempPrefix = ".tmp-"
	// abandoned is the age at which a temporary file is removed, if no process holds it any more.
	abandoned = time.Hour
	// copyBuffer is large enough that a system call costs little.
	copyBuffer = 256 << 10 // bytes
)

// temporary is a file in the root that becomes an object by being renamed. While its writer lives, the file is locked: that
// tells it from one that a crashed process left.
type temporary struct {
	root *os.Root
	name string
	file *os.File
	size int64
	hash hash.Hash // of the first bytes, up to hashedSize
	sync syncer
}

// syncer makes a file, or the names in a directory, durable.
type syncer func(*os.File) error

func newTemporary(root *os.Root, sync syncer) (*temporary, error) {
	name := tempPrefix + strings.ToLower(rand.Text())
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil, &blob.Error{Op: "write to", Object: "store " + URL(root.Name()), Err: fmt.Errorf("%w: %w", blob.ErrReadOnly, bare(err)), Advice: "run as the owner of the directory, or change its owner or its mode"}
	} else if err != nil {
		return nil, fmt.Errorf("create temporary file: %w", bare(err))
	}
	t := &temporary{root: root, name: name, file: f, hash: sha256.New(), sync: sync}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.discard()
		return nil, fmt.Errorf("lock temporary file: %w", err)
	}
	return t, nil
}

// fill writes the body, and makes a large one durable, so that commit need not take long over it.
func (t *temporary) fill(r io.Reader) error {
	n, err := io.Copy(io.MultiWriter(t.file, t.hash), io.LimitReader(r, hashedSize+1))
	if err == nil && n > hashedSize {
		var more int64
		large := durable.NewLarge(t.file, n)
		more, err = io.CopyBuffer(large, r, make([]byte, copyBuffer))
		if n += more; err == nil {
			err = large.Finish()
		}
	}
	if err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	t.size = n
	if n <= hashedSize {
		return nil // commit syncs it in no time
	}
	if err := t.sync(t.file); err != nil {
		return fmt.Errorf("sync temporary file: %w", bare(err))
	}
	return nil
}

// commit makes the file the object of that key, unless ctx has ended by then. The caller holds the store's lock.
func (t *temporary) commit(ctx context.Context, key string) (blob.ETag, error) {
	before, err := modifiedBefore(t.root, key)
	if err != nil {
		return "", err
	}
	info, err := t.settle(before)
	if err != nil {
		return "", err
	}
	if err := t.sync.makeParents(t.root, key); err != nil {
		return "", fmt.Errorf("make directory: %w", bare(err))
	}
	// Each of the steps so far may have stood still, and somebody else have written since.
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := blob.Still(ctx); err != nil {
		return "", err
	}
	if err := t.root.Rename(t.name, key); err != nil {
		return "", fmt.Errorf("rename temporary file: %w", bare(err))
	}
	t.name = ""
	if err := t.sync.directory(t.root, parent(key)); err != nil {
		return "", err
	}
	if t.size > hashedSize {
		return largeTag(t.size, info.ModTime()), nil
	}
	return smallTag(info.ModTime(), t.hash.Sum(nil)), nil
}

// settle syncs content and time, of which the ETag is made. The time is the file
// system's own, which for a shared one is that of its server and not this host's;
// where it stood still or went back it is made to grow.
func (t *temporary) settle(before time.Time) (fs.FileInfo, error) {
	for again := false; ; again = true {
		if err := t.sync(t.file); err != nil {
			return nil, fmt.Errorf("sync temporary file: %w", bare(err))
		}
		info, err := t.file.Stat()
		if err != nil {
			return nil, bare(err)
		}
		if again || info.ModTime().After(before) {
			return info, nil
		}
		modified := before.Add(time.Nanosecond)
		if err := t.root.Chtimes(t.name, modified, modified); err != nil {
			return nil, fmt.Errorf("set time of temporary file: %w", bare(err))
		}
	}
}

// discard closes the file, and removes it unless it became an object.
func (t *temporary) discard() {
	if t.name != "" {
		_ = t.root.Remove(t.name) // if this fails, sweep finds it one day
	}
	t.file.Close()
}

// sweep removes temporary files that a crashed process left. The caller holds the store's lock. It is about tidiness only, so it
// passes over what it cannot do.
func sweep(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), tempPrefix) || !entry.Type().IsRegular() {
			continue
		}
		if info, err := entry.Info(); err != nil || time.Since(info.ModTime()) < abandoned {
			continue
		}
		f, err := root.OpenFile(entry.Name(), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = root.Remove(entry.Name()) // the next sweep tries again
		}
		f.Close()
	}
}

// makeParents makes the directories of a key, and syncs each directory that has an entry of them: also where it was there,
// since a process that was killed may have made it, and not come to the sync.
func (y syncer) makeParents(root *os.Root, key string) error {
	dir := parent(key)
	if dir == "." {
		return nil
	}
	if err := y.makeParents(root, dir); err != nil {
		return err
	}
	if err := root.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return y.directory(root, parent(dir))
}

func (y syncer) directory(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", bare(err))
	}
	defer d.Close()
	if err := y(d); err != nil {
		return fmt.Errorf("sync directory: %w", bare(err))
	}
	return nil
}

func parent(path string) string { return filepath.Dir(path) }
