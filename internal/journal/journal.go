// Package journal makes a list of file operations survive a crash.
//
// A procedure that moves data is a list of small steps, each of which can tell
// whether it was taken already. The list is durable before the first step, also
// where a process was killed before it had made it so, and the loop is
//
//	Open → finish what a crash left → Run(steps): write the list · take each
//	step that is not taken yet · write that the list is done
//
// and a crash anywhere leaves a list that the next Open finishes. Three things
// hold:
//
//   - nothing is deleted: there is no step for it, and a rename never replaces
//     what is there;
//   - a step is durable before the next one begins;
//   - paths stay below the directory that the journal was opened for.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"etcdadm.io/internal/durable"
)

// Kind names a step.
type Kind string

const (
	// Mkdir makes a directory, and is taken when there is one. Its parent exists.
	Mkdir Kind = "mkdir"
	// Write makes a file with the given content, and is taken when the file
	// has it. A file with other content is an error.
	Write Kind = "write"
	// Rename moves From to Path, and is taken when From is gone and Path is
	// there. A Path that is there beside From is an error.
	Rename Kind = "rename"
)

// Step is one file operation. Paths are relative to the journal's directory.
type Step struct {
	Kind Kind        `json:"kind"`
	Path string      `json:"path"`
	From string      `json:"from,omitempty"`
	Data []byte      `json:"data,omitempty"`
	Mode fs.FileMode `json:"mode,omitempty"` // of what is made; zero: 0700 and 0600
}

// Errors that callers decide on.
var (
	// ErrConflict: something else is where a step wants to put something.
	ErrConflict = errors.New("something else is there")
	// ErrCorrupt: the journal itself cannot be read.
	ErrCorrupt = errors.New("the journal cannot be read")
)

// Journal runs lists of steps below one directory, one list at a time. It is
// not for concurrent use.
type Journal struct {
	disk durable.Disk
	root string
	file string // path of the list, relative to root
}

// Open returns the journal of a directory, whose list is kept in file (a path
// relative to root, in a directory that exists). It finishes a list that was
// begun before; when that fails, the error is returned and the list is kept.
// It writes through disk.
func Open(disk durable.Disk, root, file string) (*Journal, error) {
	j := &Journal{disk: disk, root: root, file: file}
	steps, err := j.load()
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return j, nil
	}
	if err := j.finish(steps); err != nil {
		return nil, fmt.Errorf("finish the journal %s: %w", j.path(file), err)
	}
	return j, nil
}

// Run takes the steps in order. When it returns nil they are all durable; an
// error leaves the list, and the next Open or Run finishes it first.
func (j *Journal) Run(steps []Step) error {
	if err := j.Finish(); err != nil {
		return err
	}
	// What could not even begin is refused before it is written down: a list
	// that is written has to be finished before anything else can be run.
	for i, s := range steps {
		err := j.check(s)
		if err == nil {
			err = remade(s, steps[:i])
		}
		if err != nil {
			return fmt.Errorf("step %d, %s %s: %w", i+1, s.Kind, s.Path, err)
		}
	}
	if err := j.save(steps); err != nil {
		return err
	}
	return j.finish(steps)
}

// Finish takes the steps that an error left, if there are any: whoever looks where
// they lead, or takes away what they move, does it after that.
func (j *Journal) Finish() error {
	left, err := j.load()
	if err != nil || len(left) == 0 {
		return err
	}
	if err := j.finish(left); err != nil {
		return fmt.Errorf("finish the journal: %w", err)
	}
	return nil
}

func (j *Journal) path(p string) string { return filepath.Join(j.root, p) }

func (j *Journal) finish(steps []Step) error {
	for i, s := range steps {
		if err := j.take(s); err != nil {
			return fmt.Errorf("step %d, %s %s: %w", i+1, s.Kind, s.Path, err)
		}
	}
	return j.save(nil)
}

// list is the journal's file. An empty list says that everything is done.
type list struct {
	Steps []Step `json:"steps"`
}

func (j *Journal) load() ([]Step, error) {
	b, err := os.ReadFile(j.path(j.file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var l list
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("read journal %s: %w: %w", j.path(j.file), ErrCorrupt, err)
	}
	// A process that was killed between the rename and the sync has left a list that
	// a power cut takes back, and then nobody would know of the steps taken by it.
	if err := j.disk.SyncDir(filepath.Dir(j.path(j.file))); err != nil {
		return nil, fmt.Errorf("make the journal durable: %w", err)
	}
	for _, s := range l.Steps {
		if err := local(s); err != nil {
			return nil, fmt.Errorf("read journal %s: %w: %w", j.path(j.file), ErrCorrupt, err)
		}
	}
	return l.Steps, nil
}

func (j *Journal) save(steps []Step) error {
	if steps == nil {
		steps = []Step{}
	}
	b, err := json.Marshal(list{Steps: steps})
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := j.disk.Replace(j.path(j.file), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// local refuses paths that leave the root.
func local(s Step) error {
	if !filepath.IsLocal(s.Path) || s.Kind == Rename && !filepath.IsLocal(s.From) {
		return fmt.Errorf("%s %q from %q leaves the directory", s.Kind, s.Path, s.From)
	}
	return nil
}

// check refuses a step that could not be taken as things are before the first
// one. So what a Rename moves has to be there already.
func (j *Journal) check(s Step) error {
	if err := local(s); err != nil {
		return err
	}
	_, err := j.taken(s)
	return err
}

// remade refuses a step that makes what an earlier one moved away: after a
// crash nobody could tell whether the earlier one was taken.
func remade(s Step, earlier []Step) error {
	for _, e := range earlier {
		if e.Kind == Rename && filepath.Clean(e.From) == filepath.Clean(s.Path) {
			return fmt.Errorf("an earlier step moves %s away", s.Path)
		}
	}
	return nil
}

// taken tells whether the step was taken, or that it can never be.
func (j *Journal) taken(s Step) (bool, error) {
	info, err := os.Lstat(j.path(s.Path))
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	switch s.Kind {
	case Mkdir:
		if there && !info.IsDir() {
			return false, ErrConflict
		}
		return there, nil
	case Write:
		if !there {
			return false, nil
		}
		have, err := os.ReadFile(j.path(s.Path))
		if err != nil {
			return false, err
		}
		if !bytes.Equal(have, s.Data) {
			return false, ErrConflict
		}
		return true, nil
	case Rename:
		_, err := os.Lstat(j.path(s.From))
		switch {
		case err == nil && there:
			return false, ErrConflict
		case err == nil:
			return false, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		case !there:
			return false, fmt.Errorf("neither %s nor its new place is there: %w", s.From, fs.ErrNotExist)
		}
		return true, nil
	}
	return false, fmt.Errorf("unknown kind of step %q", s.Kind)
}

// take takes a step and makes it durable. A step that was taken is made durable
// all the same: the crash may have come before the sync.
func (j *Journal) take(s Step) error {
	was, err := j.taken(s)
	if err != nil {
		return err
	}
	switch s.Kind {
	case Mkdir:
		if !was {
			if err := j.disk.Mkdir(j.path(s.Path), orMode(s.Mode, 0o700)); err != nil {
				return err
			}
		}
		if err := j.disk.SyncDir(j.path(s.Path)); err != nil {
			return err
		}
	case Write:
		if !was {
			return j.disk.Replace(j.path(s.Path), s.Data, orMode(s.Mode, 0o600))
		}
	case Rename:
		if !was {
			if err := j.disk.Rename(j.path(s.From), j.path(s.Path)); err != nil {
				return err
			}
		}
		if err := j.disk.SyncDir(filepath.Dir(j.path(s.From))); err != nil {
			return err
		}
	}
	return j.disk.SyncDir(filepath.Dir(j.path(s.Path)))
}

func orMode(m, otherwise fs.FileMode) fs.FileMode {
	if m == 0 {
		return otherwise
	}
	return m
}
