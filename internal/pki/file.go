package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/internal/durable"
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

// setAside moves a file that cannot be used out of the way, under a name that says so.
func setAside(path string, now time.Time) error {
	aside := fmt.Sprintf("%s.unreadable-%s", path, now.UTC().Format("20060102T150405.000000000Z"))
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
