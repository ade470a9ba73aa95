package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file as a whole or not at all: to a new file, synced,
// renamed, its directory synced (SAFETY.md, rule 23). What a crash leaves
// beside it is a file named path + ".new", which the next Replace writes anew.
// There is one writer.
func Replace(path string, data []byte, mode fs.FileMode) error {
	fresh := path + ".new"
	if err := writeSynced(fresh, data, mode); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func writeSynced(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(mode); err != nil { // one that a crash left may have another
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
