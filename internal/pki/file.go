package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	modeDir    = 0o700
	modeKey    = 0o600
	modePublic = 0o644

	// A PEM file of ours is a few kilobytes. The bound keeps a mistaken path from filling memory.
	maxFileBytes = 1 << 20
)

// readFile reads a small file whole.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%w: %d bytes is too large", ErrPEM, info.Size())
	}
	return os.ReadFile(path)
}

// replaceFile makes path hold data: a reader sees the old bytes or the new ones, also after a power cut.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	return publish(path, data, mode, os.Rename)
}

// createFile is replaceFile that fails with fs.ErrExist rather than touch a file that is already there.
func createFile(path string, data []byte, mode fs.FileMode) error {
	return publish(path, data, mode, os.Link) // unlike rename, link never overwrites
}

func publish(path string, data []byte, mode fs.FileMode, expose func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // a second name after link, our own half-written file after an error, gone after rename
	_, werr := f.Write(data)
	err = errors.Join(werr, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := expose(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// setAside moves a file that cannot be used out of the way, under a name that says so.
func setAside(path string, now time.Time) error {
	aside := fmt.Sprintf("%s.unreadable-%s", path, now.UTC().Format("20060102T150405.000000000Z"))
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
