package pki

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
)

const (
	modeDir    = 0o700
	modeKey    = 0o600
	modePublic = 0o644
)

// readFile reads a small file whole.
func readFile(path string) ([]byte, error) { return readBy(regular.Read, path) }

func readBy(read func(path string, limit int64) ([]byte, error), path string) ([]byte, error) {
	data, err := read(path, regular.SmallSize)
	if errors.Is(err, regular.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrPEM, err)
	}
	return data, err
}

// setAside moves a file that cannot be used out of the way, under a name that says so.
func setAside(disk durable.Disk, path string, now time.Time) error {
	aside := fmt.Sprintf("%s.unreadable-%s", path, now.UTC().Format("20060102T150405.000000000Z"))
	if err := disk.Rename(path, aside); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}
