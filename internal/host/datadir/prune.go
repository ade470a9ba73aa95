package datadir

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// dirPruning lies in the state directory. What is in it is being removed: no
// half of a directory is ever taken for one that was set aside.
const dirPruning = "pruning"

// RemoveAside takes a directory out of what is set aside, and then gives what
// removes it for good.
func (d *Dir) RemoveAside(name string) (remove func() error, err error) {
	from, err := d.AsideDir(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		if err := d.held(from); err != nil {
			return nil, err
		}
	}
	pruning := filepath.Join(d.StateDir(), dirPruning)
	// Without the name of this directory nobody would find what is moved into it.
	if err := errors.Join(d.files.MkdirAll(pruning, 0o700), d.files.SyncDir(d.StateDir())); err != nil {
		return nil, err
	}
	to := filepath.Join(pruning, name)
	if err := d.files.RemoveAll(to); err != nil { // what an earlier one of this name left
		return nil, err
	}
	if err := d.files.Rename(from, to); err != nil {
		return nil, err
	}
	if err := errors.Join(d.files.SyncDir(pruning), d.files.SyncDir(filepath.Dir(from))); err != nil {
		return nil, err
	}
	return func() error { return d.removeTaken(name) }, nil
}

// removeTaken removes what was taken out under a name, and the note beside
// where it was.
func (d *Dir) removeTaken(name string) error {
	pruning := filepath.Join(d.StateDir(), dirPruning)
	if err := d.files.Remove(filepath.Join(d.root, dirAside, name+fileNote)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// As long as its directory is there, the note is looked for again.
	if err := d.files.SyncDir(filepath.Join(d.root, dirAside)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.files.RemoveAll(filepath.Join(pruning, name)); err != nil {
		return err
	}
	_ = d.files.Remove(pruning) // the last one does
	return nil
}

// FinishRemovals removes what an earlier daemon had taken out, and did not come
// to the end of.
func (d *Dir) FinishRemovals() error {
	left, err := names(filepath.Join(d.StateDir(), dirPruning))
	for _, name := range left {
		err = errors.Join(err, d.removeTaken(name))
	}
	return err
}
