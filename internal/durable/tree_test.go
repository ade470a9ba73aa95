package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// syncs notes what is synced, and fails at one path.
type syncs struct {
	osFiles
	made []string
	fail string
}

func (s *syncs) SyncDir(path string) error {
	s.made = append(s.made, path)
	if path == s.fail {
		return errors.New("no")
	}
	return s.osFiles.SyncDir(path)
}

// Each file and each directory of a tree is synced, a file as a root of its own as
// well, and one that cannot be is an error.
func TestSyncTree(t *testing.T) {
	root := t.TempDir()
	want := []string{root, filepath.Join(root, "a"), filepath.Join(root, "a", "b"), filepath.Join(root, "a", "b", "deep"), filepath.Join(root, "f")}
	if err := errors.Join(os.MkdirAll(want[2], 0o700), os.WriteFile(want[3], nil, 0o600), os.WriteFile(want[4], nil, 0o600), os.Symlink("nowhere", filepath.Join(root, "link"))); err != nil {
		t.Fatal(err)
	}
	s := &syncs{}
	if err := On(s).SyncTree(root); err != nil || !slices.Equal(s.made, want) {
		t.Errorf("synced %q, %v, want %q", s.made, err, want)
	}
	s = &syncs{}
	if err := On(s).SyncTree(want[4]); err != nil || !slices.Equal(s.made, want[4:]) {
		t.Errorf("synced %q, %v, want %q", s.made, err, want[4:])
	}
	for _, path := range want {
		if err := On(&syncs{fail: path}).SyncTree(root); err == nil {
			t.Errorf("%s could not be synced, and that is no error", path)
		}
	}
	if err := On(nil).SyncTree(filepath.Join(root, "none")); err == nil {
		t.Error("what is not there was synced")
	}
}
