// Package durable writes files such that a reader, also one after a power
// cut, finds the old bytes or the new ones and never something between
// (SAFETY.md, rule 23): a new file beside the old one, synced, renamed over
// it, and the directory synced.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace makes path hold data.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return publish(path, data, mode, os.Rename)
}

// Create is Replace that fails with fs.ErrExist rather than touch a file that
// is there: unlike a rename, a link never overwrites.
func Create(path string, data []byte, mode fs.FileMode) error {
	return publish(path, data, mode, os.Link)
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func publish(path string, data []byte, mode fs.FileMode, expose func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return named(err, path)
	}
	// After a link it is a second name, after an error our own half-written
	// file, after a rename it is gone.
	defer os.Remove(f.Name())
	_, werr := f.Write(data)
	if err := errors.Join(werr, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return named(err, path)
	}
	if err := expose(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// named says the error of the file that is to be written: the name of the new
// one is another each time, and would make one and the same trouble look new.
func named(err error, path string) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return &fs.PathError{Op: "write", Path: path, Err: failed.Err}
	}
	return err
}
