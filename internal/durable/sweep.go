package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leftover is the name that a new file of Replace or Create was to get, by the
// name that it has until then; empty for any other file's.
func Leftover(name string) string {
	of, ok := strings.CutSuffix(name, ".tmp")
	if !ok || !strings.HasPrefix(of, ".") {
		return ""
	}
	at := strings.LastIndexByte(of, '.')
	random := of[at+1:]
	if at < 2 || random == "" || strings.Trim(random, "0123456789") != "" {
		return ""
	}
	return of[1:at]
}

// Sweep removes from a directory the new files of Replace and Create that a
// process left when it was killed, and returns their paths. Of is the names that
// they were to get, as patterns of filepath.Match. The caller sees to it that
// nobody writes such a file meanwhile. A directory that is not there holds none.
func (d Disk) Sweep(dir string, of ...string) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err = nil
	for _, e := range entries {
		name := Leftover(e.Name())
		ours := func(pattern string) bool { ok, _ := filepath.Match(pattern, name); return ok }
		if name == "" || !e.Type().IsRegular() || !slices.ContainsFunc(of, ours) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if gone := d.Remove(path); gone != nil {
			err = errors.Join(err, gone)
			continue
		}
		removed = append(removed, path)
	}
	return removed, err
}
