package removal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/setup"
	"golang.org/x/sys/unix"
)

// takeFile moves a small file to its place, or removes it.
func takeFile(one Item, purge bool) error {
	if !there(one.Path) {
		if purge && one.To != "" { // it was set aside before somebody asked for more
			return removed(os.Remove(one.To))
		}
		return nil
	}
	if purge || one.To == "" {
		return gone(os.Remove(one.Path), filepath.Dir(one.Path))
	}
	if err := durable.MakeDir(filepath.Dir(one.To), modeAside); err != nil {
		return err
	}
	err := os.Rename(one.Path, one.To)
	if errors.Is(err, unix.EXDEV) {
		err = carry(one.Path, one.To)
	}
	return errors.Join(err, durable.SyncDir(filepath.Dir(one.To)), durable.SyncDir(filepath.Dir(one.Path)))
}

// carry moves a small file to another file system.
func carry(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := regular.Read(from, regular.SmallSize)
	if err != nil {
		return err
	}
	if err := durable.Replace(to, data, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Remove(from)
}

// takeData moves the data directory, or what is in it, and with purge removes that then: what is half removed does not
// lie where a daemon could take it for data.
func takeData(one Item, purge bool) error {
	var err error
	move, whole := setup.MoveInside, func(from, to string) error { return gone(os.Rename(from, to), filepath.Dir(to)) }
	if guarded(one.Path) {
		move, whole = moveFromGuard, moveFromGuard
	}
	if one.Inside {
		err = move(one.Path, one.To)
	} else if there(one.Path) {
		err = whole(one.Path, one.To)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV) { // a mount of the same file system
			one.To = filepath.Join(one.Path, strings.TrimPrefix(filepath.Base(one.To), filepath.Base(one.Path)+"."))
			err = move(one.Path, one.To)
		}
	}
	if err != nil || !purge {
		return err
	}
	return gone(os.RemoveAll(one.To), filepath.Dir(one.To))
}

func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// gone is the error of a step that took something out of a directory, whose names are made durable.
func gone(err error, dir string) error {
	if err := removed(err); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}
