package snapshot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testetcd"
)

// smallDisk is a file system with so many bytes.
func smallDisk(t *testing.T, bytes int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("SKIPPED, no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("take the small file system away: %v", err)
		}
	})
	return dir
}

// A disk without room is told before anything is begun, and one that fills up
// meanwhile is told as well. Both leave nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	file := snapshotOf(t, testetcd.V37)
	for name, free := range map[string]int64{"from the beginning": spareSpace / 2, "while it is built": spareSpace + 1<<20} {
		t.Run(name, func(t *testing.T) {
			disk := smallDisk(t, free)
			o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(disk, "data"), theRelease(t, testetcd.V37))
			if free > spareSpace { // somebody else takes it after the look
				o.Release = fills(t, o.Release, filepath.Join(disk, "other"))
			}
			_, err := Restore(within(t), o)
			if !errors.Is(err, ErrNoSpace) {
				t.Errorf("got %v", err)
			}
			if _, told := errors.AsType[*SpaceError](err); told != (free < spareSpace) {
				t.Errorf("before it began: %t: %v", told, err)
			}
			if _, err := os.Stat(o.DataDir); err == nil {
				t.Error("there is a data directory")
			}
			if _, err := os.Stat(o.DataDir + siteSuffix); err == nil {
				t.Error("the building site was left behind")
			}
			if err := os.Remove(filepath.Join(disk, "other")); free > spareSpace && err != nil {
				t.Error(err)
			}
		})
	}
}

// fills is a release whose etcdutl runs after somebody has filled the disk.
func fills(t *testing.T, r release.Release, path string) release.Release {
	t.Helper()
	script := filepath.Join(t.TempDir(), "etcdutl")
	text := fmt.Sprintf("#!/bin/sh\ndd if=/dev/zero of=%s bs=65536 2>/dev/null\nexec %s \"$@\"\n", path, r.Etcdutl)
	must(t, os.WriteFile(script, []byte(text), 0o700))
	r.Etcdutl = script
	return r
}

// The release that is built into a program restores and drills, too.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V37), t.TempDir()
	path, args := builtin.Command()
	_, utl := builtin.UtlCommand()
	finder := release.Finder{Roots: []string{t.TempDir()}, Builtin: &release.Builtin{
		Version: builtin.Version, Path: path, Args: args, UtlArgs: utl,
	}}
	r, err := finder.Find(within(t), builtin.Version)
	must(t, err)
	o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), r)
	o.Revision = 5_000_000
	done, err := Restore(within(t), o)
	if err != nil || done.Revision != o.Revision {
		t.Fatalf("restored %+v, %v", done, err)
	}
	d, err := Drill(within(t), DrillOptions{Snapshot: file, Site: filepath.Join(dir, "drill"), Release: r})
	if err != nil || !d.Proven {
		t.Errorf("drilled %+v, %v", d, err)
	}
}

// Large databases: ETCDADM_TEST_SNAPSHOT names a snapshot; the times are told
// beside those of etcdutl alone.
func TestLarge(t *testing.T) {
	t.Parallel()
	file := os.Getenv("ETCDADM_TEST_SNAPSHOT")
	if file == "" {
		t.Skip("SKIPPED, ETCDADM_TEST_SNAPSHOT names no large snapshot")
	}
	began := time.Now()
	info, err := Verify(within(t), file)
	must(t, err)
	t.Logf("verified %d MiB, %d records in %v", info.Size>>20, info.Records, time.Since(began))
	rel, best := theRelease(t, testetcd.V37), map[string]time.Duration{}
	took := func(how string, run func(dir string) error) {
		dir, began := filepath.Join(t.TempDir(), "data"), time.Now()
		must(t, run(dir))
		d := time.Since(began)
		t.Logf("%s: %v", how, d)
		if b := best[how]; b == 0 || d < b {
			best[how] = d
		}
		must(t, os.RemoveAll(dir))
	}
	for range 5 {
		took("etcdutl by hand", func(dir string) error {
			return exec.CommandContext(within(t), rel.Etcdutl, "snapshot", "restore", file, "--data-dir="+dir,
				"--bump-revision=1000", "--mark-compacted").Run()
		})
		for how, verified := range map[string]string{"ours, hash included": "", "ours, after a verification": info.SHA256} {
			took(how, func(dir string) error {
				o := newFounder("http://127.0.0.1:1").options(file, dir, rel)
				o.Verified, o.Revision = verified, info.Revision+1000
				_, err := Restore(within(t), o)
				return err
			})
		}
	}
	t.Logf("best of each: %v", best)
}
