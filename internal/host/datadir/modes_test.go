package datadir_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/datadir"
)

// TestModes: whatever the umask, what a host keeps is its own; only its ID and
// what says how to reach it may be read by others.
func TestModes(t *testing.T) {
	for _, umask := range []int{0, 0o077} {
		dir := filepath.Join(t.TempDir(), "data")
		func() {
			defer syscall.Umask(syscall.Umask(umask))
			if _, err := datadir.HostID(dir, host.Mint); err != nil {
				t.Fatal(err)
			}
			d := openDisk(t, dir, nil)
			carried(t, d, "t1")
			if _, err := d.SetAside("t1", cluster.SetAside{Reason: "removed"}); err != nil {
				t.Fatal(err)
			}
			for _, do := range []func() error{
				func() error { return d.CreateData("t2", "d1") },
				func() error { return d.Save(fullState()) },
				func() error { return d.WriteRecord("process.json", []byte("x")) },
			} {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
		}()
		seen := 0
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			switch {
			case e.IsDir():
				want = 0o700
			case e.Name() == "myid":
				want = 0o644
			}
			if seen++; info.Mode().Perm() != want {
				t.Errorf("umask %03o: %s has mode %o, want %o", umask, strings.TrimPrefix(path, dir), info.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil || seen < 12 {
			t.Errorf("%d files and directories, %v", seen, err)
		}
	}
}
