package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// MakeDir makes a directory and those above it that are missing, and makes their names
// durable: what is synced within a directory is lost with its name.
func MakeDir(path string, mode fs.FileMode) error { return OS().MakeDir(path, mode) }

// MakeDir is the function of that name on this disk.
func (d Disk) MakeDir(path string, mode fs.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	var missing []string // the lowest one first
	at := path
	for ; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, at)
	}
	// A process that was killed may have made the lowest one that is there. What another
	// user made, or what is a mount, is not ours to sync.
	foreign := []error{fs.ErrPermission, unix.EINVAL, unix.ENOTSUP, unix.EROFS}
	err = d.SyncDir(filepath.Dir(at))
	if err != nil && !slices.ContainsFunc(foreign, func(f error) bool { return errors.Is(err, f) }) {
		return err
	}
	for _, dir := range slices.Backward(missing) { // each is durable before the next, so that one at most is left that is not
		if err := d.MkdirAll(dir, mode); err != nil {
			return err
		}
		if err := d.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return d.MkdirAll(path, mode) // a file may have its name
	}
	return nil
}
