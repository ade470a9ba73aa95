package durable

import (
	"io/fs"
	"path/filepath"
)

// SyncTree makes every file and directory at and below a path durable, whoever
// wrote them. The path's own name is not: that is for who gives it its last one.
func (d Disk) SyncTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || entry.Type().IsRegular() {
			return d.SyncDir(path) // the call is the same for a file
		}
		return nil
	})
}
