package crashdisk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Cuts makes every state that a power cut may leave at this moment, one after
// the other, in a directory that does not exist before and after, and calls f
// with it. It returns how many there were.
func (d *Disk) Cuts(dir string, f func(what string)) (n int, err error) {
	for kept := range 1 << len(d.open) {
		top := d.top.durableCopy()
		names := map[*node]*node{}
		index(d.top, top, names)
		for i, c := range d.open {
			if kept&(1<<i) != 0 {
				c.onto(names).apply(func(n *node) map[string]*node { return n.held })
			}
		}
		dirty := unsynced(top)
		for _, torn := range tears(dirty) {
			what := fmt.Sprintf("of the names that were not durable, those in %b came to the disk; %s", kept, torn.what)
			if torn.set != nil {
				dirty.safe = torn.set
			}
			if err := top.write(dir); err != nil {
				return n, err
			}
			f(what)
			n++
			if err := os.RemoveAll(dir); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// durableCopy is a copy of what is durable. Files are shared until one is torn.
func (n *node) durableCopy() *node {
	c := &node{dir: n.dir, mode: n.mode, bytes: n.bytes, safe: n.safe}
	if n.dir {
		c.held = map[string]*node{}
		for name, in := range n.held {
			c.held[name] = in.durableCopy()
		}
	}
	return c
}

// index tells which copy is of which node.
func index(of, copied *node, into map[*node]*node) {
	into[of] = copied
	for name, in := range of.held {
		index(in, copied.held[name], into)
	}
}

// onto is the change of the copies. What has no durable name yet has no copy yet.
func (c change) onto(names map[*node]*node) change {
	for _, n := range []*node{c.of, c.from, c.to} {
		if n != nil && names[n] == nil {
			names[n] = n.durableCopy()
			index(n, names[n], names)
		}
	}
	c.of = names[c.of]
	if c.from != nil {
		c.from = names[c.from]
	}
	if c.to != nil {
		c.to = names[c.to]
	}
	return c
}

// unsynced is the file of a state that holds more than is durable; code that
// is careful has one at a time.
func unsynced(n *node) *node {
	if !n.dir && len(n.bytes) != len(n.safe) {
		return n
	}
	for _, in := range n.held {
		if u := unsynced(in); u != nil {
			return u
		}
	}
	return nil
}

// tear is what may be there of a file that was not synced.
type tear struct {
	what string
	set  []byte
}

// tears are every first part of the file, up to 64 of a large one, and zeros.
func tears(n *node) []tear {
	if n == nil {
		return []tear{{what: "every file is whole"}}
	}
	whole, out := n.bytes, []tear{}
	for i := 0; i <= len(whole); i += max(1, len(whole)/64) {
		out = append(out, tear{fmt.Sprintf("a file is torn after %d of %d bytes", i, len(whole)), whole[:i:i]})
	}
	return append(out, tear{"a file is of zeros", make([]byte, len(whole))}, tear{"a file is whole", whole})
}

// write makes a state real.
func (n *node) write(path string) error {
	if !n.dir {
		return os.WriteFile(path, n.safe, n.mode|0o600)
	}
	if err := os.Mkdir(path, n.mode|0o700); err != nil {
		return err
	}
	for name, in := range n.held {
		if err := in.write(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// Tree is every path below a directory with the content of the files, but what
// a killed process left half written under names of its own.
func Tree(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		if ok, _ := filepath.Match(".*.tmp", e.Name()); ok {
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		var b []byte
		if !e.IsDir() {
			b, err = os.ReadFile(p)
		}
		out[rel] = string(b)
		return err
	})
	return out, err
}
