package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// noting keeps which directories were synced, with what came of it.
type noting struct {
	osFiles
	synced *[]string
	err    error
}

func (n noting) SyncDir(dir string) error {
	*n.synced = append(*n.synced, dir)
	return errors.Join(n.err, n.osFiles.SyncDir(dir))
}

func TestMakeDirSyncsNames(t *testing.T) {
	root := t.TempDir()
	var synced []string
	disk := On(noting{synced: &synced})
	for _, step := range []struct {
		path string
		want []string
	}{
		{"a/b/c", []string{filepath.Dir(root), root, root + "/a", root + "/a/b"}},
		{"a/b/d", []string{root + "/a", root + "/a/b"}}, // the one that holds it by a process that was killed, perhaps
		{"a/b/d", []string{root + "/a/b"}},              // by a process that was killed, perhaps
	} {
		synced = nil
		if err := disk.MakeDir(filepath.Join(root, step.path), 0o700); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(root, step.path)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", step.path, info, err)
		}
		if !slices.Equal(synced, step.want) {
			t.Errorf("%s: synced %q, want %q", step.path, synced, step.want)
		}
	}
}

// A directory that is there may lie in one that this user cannot open; the name of one
// that was just made has to be durable.
func TestMakeDirWithoutASync(t *testing.T) {
	root := t.TempDir()
	var synced []string
	for _, c := range []struct {
		path string
		err  error
		fine bool
	}{
		{root, fs.ErrPermission, true},
		{root, errors.New("input/output error"), false},
		{filepath.Join(root, "new"), fs.ErrPermission, false},
	} {
		if err := On(noting{synced: &synced, err: c.err}).MakeDir(c.path, 0o700); (err == nil) != c.fine {
			t.Errorf("%s with %v: %v", c.path, c.err, err)
		}
	}
}
