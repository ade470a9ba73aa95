// Package crashdisk is a disk for tests that dies before any chosen system call
// that changes a file, and tells what it may hold after that.
//
// The calls are carried out in a real directory, so a process that is killed
// leaves just what lies there. A power cut leaves less: beside the calls, a model
// keeps what of them is durable. Its rules are the weakest that file systems in
// use keep:
//
//   - bytes of a file are durable when the file was synced. Until then nothing of
//     them may be there, any first part of them, or as many zeros;
//   - names are durable when their directory was synced. Until then any of the
//     changes of names that were made may have come to the disk and any other not,
//     in whatever order;
//   - a rename is one change: it is durable when one of its two directories was
//     synced, and never half.
package crashdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"etcdadm.io/internal/durable"
)

// ErrDied is what every call returns from the chosen one on.
var ErrDied = errors.New("the process was killed")

// Disk is one life of a process. Not for concurrent use.
type Disk struct {
	root  string
	at    int // the call before which it dies; 0: it lives
	calls []string
	top   *node
	open  []change
}

// node is a file or a directory.
type node struct {
	dir   bool
	mode  fs.FileMode
	bytes []byte // as written
	safe  []byte // as durable
	now   map[string]*node
	held  map[string]*node // durable names
}

// change is one of names that is not durable yet.
type change struct {
	from, to         *node // directories; nil: none
	fromName, toName string
	of               *node
}

// New is a disk over a directory, whose content is durable, that dies before
// the call with number at, from 1.
func New(root string, at int) (*Disk, error) {
	d := &Disk{root: root, at: at}
	var err error
	d.top, err = read(root)
	return d, err
}

// Again is the next life of the process on this disk, without a power cut between
// the two: what was not durable is not durable still. It dies before the call with
// number at, from 1.
func (d *Disk) Again(at int) { d.at, d.calls = at, nil }

// Files is the disk for the code under test.
func (d *Disk) Files() durable.Disk { return durable.Disk{Files: d} }

// Calls are the labels of the calls so far, the one that killed it included.
func (d *Disk) Calls() []string { return d.calls }

// Died tells whether the chosen call has come.
func (d *Disk) Died() bool { return d.at > 0 && len(d.calls) >= d.at }

func read(path string) (*node, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	n := &node{dir: info.IsDir(), mode: info.Mode().Perm()}
	if !n.dir {
		n.bytes, err = os.ReadFile(path)
		n.safe = n.bytes
		return n, err
	}
	n.now, n.held = map[string]*node{}, map[string]*node{}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		in, err := read(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		n.now[e.Name()], n.held[e.Name()] = in, in
	}
	return n, err
}

// call counts, and dies when it is time.
func (d *Disk) call(format string, args ...any) error {
	if !d.Died() {
		d.calls = append(d.calls, strings.NewReplacer(d.root+string(filepath.Separator), "", d.root, ".").Replace(fmt.Sprintf(format, args...)))
	}
	if d.Died() {
		return ErrDied
	}
	return nil
}

// find is the directory of a path, and the name in it.
func (d *Disk) find(path string) (dir *node, name string) {
	rel, err := filepath.Rel(d.root, path)
	if err != nil || !filepath.IsLocal(rel) {
		panic("crashdisk: " + path + " is not below " + d.root)
	}
	parts := strings.Split(rel, string(filepath.Separator))
	dir = d.top
	for _, p := range parts[:len(parts)-1] {
		dir = dir.now[p]
	}
	return dir, parts[len(parts)-1]
}

// change carries out one of names.
func (d *Disk) change(c change) {
	c.apply(func(n *node) map[string]*node { return n.now })
	d.open = append(d.open, c)
}

func (c change) apply(of func(*node) map[string]*node) {
	if c.from != nil && of(c.from)[c.fromName] == c.of {
		delete(of(c.from), c.fromName)
	}
	if c.to != nil {
		of(c.to)[c.toName] = c.of
	}
}

// Temp implements durable.Files.
func (d *Disk) Temp(dir, pattern string) (durable.File, error) {
	if err := d.call("create %s", filepath.Join(dir, pattern)); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	n := &node{mode: 0o600}
	in, name := d.find(f.Name())
	d.change(change{to: in, toName: name, of: n})
	return &file{File: f, disk: d, node: n}, nil
}

// Mkdir implements durable.Files.
func (d *Disk) Mkdir(path string, mode fs.FileMode) error {
	if err := d.call("mkdir %s", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	in, name := d.find(path)
	d.change(change{to: in, toName: name, of: &node{dir: true, mode: mode, now: map[string]*node{}, held: map[string]*node{}}})
	return nil
}

// Rename implements durable.Files.
func (d *Disk) Rename(from, to string) error {
	if err := d.call("rename %s %s", from, to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	a, b := change{}, change{}
	a.from, a.fromName = d.find(from)
	b.to, b.toName = d.find(to)
	d.change(change{from: a.from, fromName: a.fromName, to: b.to, toName: b.toName, of: a.from.now[a.fromName]})
	return nil
}

// Link implements durable.Files.
func (d *Disk) Link(from, to string) error {
	if err := d.call("link %s %s", from, to); err != nil {
		return err
	}
	if err := os.Link(from, to); err != nil {
		return err
	}
	in, name := d.find(from)
	at, as := d.find(to)
	d.change(change{to: at, toName: as, of: in.now[name]})
	return nil
}

// Remove implements durable.Files.
func (d *Disk) Remove(path string) error {
	if err := d.call("remove %s", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	in, name := d.find(path)
	d.change(change{from: in, fromName: name, of: in.now[name]})
	return nil
}

// RemoveAll implements durable.Files, one file after the other.
func (d *Disk) RemoveAll(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := d.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return d.Remove(path)
}

// SyncDir implements durable.Files.
func (d *Disk) SyncDir(path string) error {
	if err := d.call("sync directory %s", path); err != nil {
		return err
	}
	n := d.top
	if path != d.root {
		in, name := d.find(path)
		n = in.now[name]
	}
	if n == nil || !n.dir {
		return &fs.PathError{Op: "sync", Path: path, Err: syscall.ENOENT}
	}
	d.open = slices.DeleteFunc(d.open, func(c change) bool {
		if c.from != n && c.to != n {
			return false
		}
		c.apply(func(n *node) map[string]*node { return n.held })
		return true
	})
	return nil
}

// file is one that is being written.
type file struct {
	*os.File
	disk *Disk
	node *node
}

func (f *file) Write(p []byte) (int, error) {
	if err := f.disk.call("write %d bytes to %s", len(p), pattern(f.Name())); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.node.bytes = append(slices.Clip(f.node.bytes), p[:n]...)
	return n, err
}

func (f *file) Chmod(mode fs.FileMode) error {
	if err := f.disk.call("chmod %s", pattern(f.Name())); err != nil {
		return err
	}
	f.node.mode = mode
	return f.File.Chmod(mode)
}

func (f *file) Sync() error {
	if err := f.disk.call("sync %s", pattern(f.Name())); err != nil {
		return err
	}
	f.node.safe = f.node.bytes
	return nil
}

// pattern is a new file's name without its random part.
func pattern(path string) string {
	base := filepath.Base(path)
	if i := strings.LastIndex(strings.TrimSuffix(base, ".tmp"), "."); i > 0 {
		base = base[:i] + ".*.tmp"
	}
	return filepath.Join(filepath.Dir(path), base)
}
