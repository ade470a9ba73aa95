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

// Files are the system calls that change files. A test counts them, and dies
// between any two of them (package crashdisk).
type Files interface {
	// Temp makes a new file in a directory, as os.CreateTemp does.
	Temp(dir, pattern string) (File, error)
	Mkdir(path string, mode fs.FileMode) error
	Rename(from, to string) error
	Link(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// File is a new file that is being written.
type File interface {
	Name() string
	Write(p []byte) (int, error)
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

// Disk writes through Files.
type Disk struct{ Files }

// OS is the disk of this machine.
func OS() Disk { return Disk{osFiles{}} }

// On writes through files; nil: those of this machine.
func On(files Files) Disk {
	if files == nil {
		return OS()
	}
	return Disk{files}
}

// osFiles are the system calls themselves.
type osFiles struct{}

func (osFiles) Temp(dir, pattern string) (File, error)    { return os.CreateTemp(dir, pattern) }
func (osFiles) Mkdir(path string, mode fs.FileMode) error { return os.Mkdir(path, mode) }
func (osFiles) Rename(from, to string) error              { return os.Rename(from, to) }
func (osFiles) Link(from, to string) error                { return os.Link(from, to) }
func (osFiles) Remove(path string) error                  { return os.Remove(path) }
func (osFiles) RemoveAll(path string) error               { return os.RemoveAll(path) }

func (osFiles) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Replace makes path hold data.
func Replace(path string, data []byte, mode fs.FileMode) error { return OS().Replace(path, data, mode) }

// Create is Replace that fails with fs.ErrExist rather than touch a file that
// is there: unlike a rename, a link never overwrites.
func Create(path string, data []byte, mode fs.FileMode) error { return OS().Create(path, data, mode) }

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error { return OS().SyncDir(dir) }

// Replace makes path hold data.
func (d Disk) Replace(path string, data []byte, mode fs.FileMode) error {
	return d.publish(path, data, mode, d.Rename)
}

// Create is Replace that fails with fs.ErrExist where path is.
func (d Disk) Create(path string, data []byte, mode fs.FileMode) error {
	return d.publish(path, data, mode, d.Link)
}

// MkdirAll makes a directory and those above it that are missing. Their names
// are not durable by that.
func (d Disk) MkdirAll(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if up := filepath.Dir(path); up != path {
		if err := d.MkdirAll(up, mode); err != nil {
			return err
		}
	}
	err := d.Mkdir(path, mode)
	if info, serr := os.Stat(path); errors.Is(err, fs.ErrExist) && serr == nil && info.IsDir() {
		return nil // somebody was faster
	}
	return err
}

func (d Disk) publish(path string, data []byte, mode fs.FileMode, expose func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := d.Temp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return named(err, path)
	}
	// After a link it is a second name, after an error our own half-written
	// file, after a rename it is gone.
	defer func() { _ = d.Remove(f.Name()) }()
	_, werr := f.Write(data)
	if err := errors.Join(werr, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return named(err, path)
	}
	if err := expose(f.Name(), path); err != nil {
		return err
	}
	return d.SyncDir(dir)
}

// named says the error of the file that is to be written: the name of the new
// one is another each time, and would make one and the same trouble look new.
func named(err error, path string) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "write", Path: path, Err: failed.Err}
	}
	return err
}
