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
	var holders []string // of those that are missing
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		holders = append(holders, filepath.Dir(at))
	}
	if err := d.MkdirAll(path, mode); err != nil {
		return err
	}
	if len(holders) == 0 {
		// A process that was killed may have made it. What another user made, or what
		// is a mount, is not ours to sync.
		err := d.SyncDir(filepath.Dir(path))
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
			return nil
		}
		return err
	}
	for _, holder := range slices.Backward(holders) { // a name is worth what the one above it is
		if err := d.SyncDir(holder); err != nil {
			return err
		}
	}
	return nil
}
