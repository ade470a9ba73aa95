package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Sweep removes what a daemon that was killed left half written of the files that
// this package and its neighbours keep in the data directory, private keys among
// them, and returns the paths. Nothing reads these files; etcd's are not among
// them. An error leaves the rest for the next start.
func (d *Dir) Sweep() (removed []string, err error) {
	for _, in := range []struct {
		dirs string // pattern, below the root
		of   []string
	}{
		{".", []string{fileMyID, filePredecessor}},
		{dirState, []string{"*"}},
		{filepath.Join(dirState, "pki", "*"), []string{"*"}},
		{filepath.Join("pki", "*", "*"), []string{"*.crt", "*.key"}}, // shared with etcd-manager
		{dirAside, []string{"*" + fileNote}},
		{memberDir("*"), []string{fileMark}},
		{filepath.Join(dirState, "staging", "*", "*", "member"), []string{fileMark}},
	} {
		dirs, globErr := fs.Glob(os.DirFS(d.root), in.dirs)
		err = errors.Join(err, globErr)
		for _, dir := range dirs {
			gone, sweepErr := d.files.Sweep(filepath.Join(d.root, dir), in.of...)
			removed, err = append(removed, gone...), errors.Join(err, sweepErr)
		}
	}
	return removed, err
}
