package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/testetcd"
)

// syncs notes what is synced before something has its name, and after.
type syncs struct {
	durable.Files

	place         string
	before, after []string
	fail          string // the end of a path that cannot be synced
}

func (s *syncs) SyncDir(path string) error {
	if _, err := os.Lstat(s.place); err == nil {
		s.after = append(s.after, path)
	} else {
		s.before = append(s.before, path)
	}
	if s.fail != "" && strings.HasSuffix(path, s.fail) {
		return errors.New("the disk is broken")
	}
	return s.Files.SyncDir(path)
}

// hold fails unless everything at a place was synced before it came there from where
// it was built, and its name after that.
func (s *syncs) hold(t *testing.T, built string) {
	t.Helper()
	must(t, filepath.WalkDir(s.place, func(path string, _ fs.DirEntry, err error) error {
		if was := built + strings.TrimPrefix(path, s.place); !slices.Contains(s.before, was) {
			t.Errorf("%s was not synced before it had its name", was)
		}
		return err
	}))
	if !slices.Contains(s.after, filepath.Dir(s.place)) {
		t.Errorf("the name is not durable: after the rename only %q was synced", s.after)
	}
}

// A restored directory, and a snapshot that was extracted, are durable before they
// have their names: what a power cut leaves is whole or is not there.
func TestResultsAreDurable(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	put(t, c.Client(t), "k", "v")
	must(t, c.Kill(within(t), 0, syscall.SIGKILL))
	dir, rel := t.TempDir(), theRelease(t, testetcd.V36)

	s := &syncs{Files: durable.OS().Files, place: filepath.Join(dir, "snapshot")}
	_, err := Extract(within(t), ExtractOptions{DataDir: c.Members[0].DataDir, File: s.place, Release: rel, files: s})
	must(t, err)
	if len(s.before) != 1 {
		t.Fatalf("synced %q", s.before)
	}
	s.hold(t, s.before[0])

	o := newFounder("http://127.0.0.1:1").options(s.place, filepath.Join(dir, "data"), rel)
	s = &syncs{Files: durable.OS().Files, place: o.DataDir}
	o.files = s
	_, err = Restore(within(t), o)
	must(t, err)
	s.hold(t, filepath.Join(o.DataDir+siteSuffix, "data"))

	for _, fail := range []string{"/data", "/member/snap/db", "/member/wal", ".wal"} {
		o.DataDir = filepath.Join(dir, "failed")
		o.files = &syncs{Files: durable.OS().Files, place: o.DataDir, fail: fail}
		if _, err := Restore(within(t), o); err == nil || exists(o.DataDir) {
			t.Errorf("%s cannot be made durable: %v", fail, err)
		}
	}
}
