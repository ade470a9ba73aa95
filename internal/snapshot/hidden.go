package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// HiddenV2 tells which keys and directories an etcd 2 hides from those that list
// its keys, by their paths: of hidden ones within hidden ones each. It reads the
// newest of raft's snapshots in a data directory, in which the whole store is, and
// tells up to which index that goes. Zero: there is none.
func HiddenV2(dataDir string) (paths []string, index uint64, err error) {
	dir := filepath.Join(dataDir, "member", "snap")
	if index, err = newestSnapshot(dir); err != nil || index == 0 {
		return nil, 0, err
	}
	names, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("*-%016x.snap", index)))
	if err != nil || len(names) == 0 {
		return nil, 0, errors.Join(err, ErrDamaged)
	}
	var t storeTree
	_, err = readRaft(names[0], func(store io.Reader) error {
		t.d = json.NewDecoder(store)
		return t.store()
	})
	if err != nil {
		return nil, 0, err
	}
	return t.hidden, index, nil
}

// keysOfV2 is where etcd 2 has its clients' keys in its store.
const keysOfV2 = "/1"

// storeTree reads a store as etcd 2 saves it: a tree of nodes, each with its path
// and, if it is a directory, its children by their names. Source: store/store.go
// and store/node.go of 2.3.8.
type storeTree struct {
	d      *json.Decoder
	hidden []string
}

func (t *storeTree) store() error {
	return t.object(func(name string) error {
		if name == "Root" {
			return t.node()
		}
		return t.skip()
	})
}

func (t *storeTree) node() error {
	return t.object(func(name string) error {
		switch name {
		case "Path":
			token, err := t.d.Token()
			at, _ := token.(string)
			if key, is := strings.CutPrefix(at, keysOfV2+"/"); is && strings.HasPrefix(path.Base(at), "_") {
				t.hidden = append(t.hidden, "/"+key)
			}
			return err
		case "Children":
			return t.object(func(string) error { return t.node() })
		}
		return t.skip()
	})
}

// object calls field for each name in an object, which then reads the value; null
// is an empty one.
func (t *storeTree) object(field func(name string) error) error {
	token, err := t.d.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('{') {
		return errors.New("something else than an object")
	}
	for t.d.More() {
		token, err := t.d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if err := field(name); err != nil {
			return err
		}
	}
	_, err = t.d.Token()
	return err
}

// skip reads a value of any kind.
func (t *storeTree) skip() error {
	for depth := 0; ; {
		token, err := t.d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
