package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
)

// hashedSize is the size in bytes up to which an ETag holds a hash of the content. Whatever is written under a condition is far
// smaller; a backup is larger, and is not read twice for its ETag.
const hashedSize = 1 << 20

// open opens the object's file and gives its ETag. A small object is read here and now, so that ETag and body are of the same
// moment even when somebody else writes the file in place.
func open(root *os.Root, key string) (*blob.Object, error) {
	// A pipe put there by somebody would block a plain open.
	f, err := root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if absent(err) {
		return nil, blob.ErrNotFound
	} else if err != nil {
		return nil, bare(err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, bare(err)
	}
	if info.IsDir() {
		f.Close()
		return nil, blob.ErrNotFound
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > hashedSize {
		return &blob.Object{Body: f, ETag: largeTag(info.Size(), info.ModTime()), Size: info.Size(), Modified: info.ModTime()}, nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, hashedSize+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(data) > hashedSize {
		return nil, errors.New("the file grew while it was read")
	}
	sum := sha256.Sum256(data)
	return &blob.Object{
		Body: io.NopCloser(bytes.NewReader(data)),
		ETag: smallTag(info.ModTime(), sum[:]), Size: int64(len(data)), Modified: info.ModTime(),
	}, nil
}

// An ETag holds the time of modification, which commit makes grow with every write of an object that is there; so two writes
// of equal bytes differ, as far as the file system keeps nanoseconds. The hash tells apart what the clock does not: writes by
// others in place, and file systems with coarse times.

func smallTag(modified time.Time, sum []byte) blob.ETag {
	return blob.ETag(strconv.FormatInt(modified.UnixNano(), 36) + "-" + hex.EncodeToString(sum[:16]))
}

func largeTag(size int64, modified time.Time) blob.ETag {
	return blob.ETag(strconv.FormatInt(modified.UnixNano(), 36) + "-" + strconv.FormatInt(size, 10) + "b")
}

// check judges a condition on the object as it is now.
func check(root *os.Root, key string, cond blob.Condition) error {
	if cond == blob.Any {
		return nil
	}
	object, err := open(root, key)
	if errors.Is(err, blob.ErrNotFound) {
		object, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("judge the condition: %w", err)
	}
	var tag blob.ETag
	if object != nil {
		tag = object.ETag
		object.Body.Close()
	}
	if !cond.Holds(object != nil, tag) {
		return blob.ErrPreconditionFailed
	}
	return nil
}

// modifiedBefore gives the time of modification of the file that a write replaces, or the zero time.
func modifiedBefore(root *os.Root, key string) (time.Time, error) {
	info, err := root.Stat(key)
	switch {
	case absent(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, bare(err)
	case info.IsDir():
		return time.Time{}, errors.New("there is a directory of that name, which holds other objects")
	}
	return info.ModTime(), nil
}

// makeDirectory is os.MkdirAll, and makes the name of each directory that it makes durable, and of the one above those.
func (y syncer) makeDirectory(dir string) error {
	err := os.Mkdir(dir, dirMode)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := y.makeDirectory(parent(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	case err == nil:
		err = y.madeByAnother(parent(dir))
	}
	if errors.Is(err, fs.ErrExist) {
		return nil // the caller sees to what is there
	} else if err != nil {
		return err
	}
	return y.names(parent(dir))
}

// madeByAnother makes the name of a directory durable that is there: a process that was killed may have made it, and not come
// to the sync. Who may not write where the name is cannot be what made it, and neither did anybody who runs now make a
// mount point's; where directories take no sync at all, there is nothing to be had.
func (y syncer) madeByAnother(dir string) error {
	up := parent(dir)
	if unix.Access(up, unix.R_OK|unix.W_OK) != nil || isMountPoint(dir, up) {
		return nil
	}
	err := y.names(up)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// isMountPoint: the directory is of another file system than the one above it.
func isMountPoint(dir, up string) bool {
	var here, above unix.Stat_t
	return unix.Stat(dir, &here) == nil && unix.Stat(up, &above) == nil && here.Dev != above.Dev
}

// names makes the names in a directory durable.
func (y syncer) names(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return y(d)
}
