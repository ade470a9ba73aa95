package hostsfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func hosts(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func set(t *testing.T, f File, want bool, entries ...Entry) {
	t.Helper()
	changed, err := f.Set(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	if changed != want {
		t.Errorf("changed is %v, want %v", changed, want)
	}
	if left, err := filepath.Glob(f.Path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSetReplacesByRename(t *testing.T) {
	path := hosts(t, "# top\n", 0o640)
	if os.Getuid() == 0 { // only root may give a file away
		if err := os.Chown(path, 12, 34); err != nil {
			t.Fatal(err)
		}
	}
	before := stat(t, path)
	f := File{Path: path, Cluster: "a"}
	set(t, f, true, entry("10.0.0.1", "x.internal"))
	after := stat(t, path)
	if before.Ino == after.Ino {
		t.Error("the file was written in place though it could be renamed")
	}
	if before.Mode != after.Mode || before.Uid != after.Uid || before.Gid != after.Gid {
		t.Errorf("mode and owner were %o %d:%d and are %o %d:%d", before.Mode, before.Uid, before.Gid, after.Mode, after.Uid, after.Gid)
	}
	set(t, f, false, entry("10.0.0.1", "x.internal"))
	if again := stat(t, path); again.Ino != after.Ino {
		t.Error("the file was written although nothing changed")
	}
	if got := content(t, path); got != "# top\n"+blockA {
		t.Errorf("got %q", got)
	}
	set(t, f, true)
	if got := content(t, path); got != "# top\n" {
		t.Errorf("after the removal: %q", got)
	}
}

// Where a rename is refused the file is written in place, shorter as well as longer.
func TestSetInPlace(t *testing.T) {
	for _, errno := range []error{unix.EBUSY, unix.EXDEV, unix.EROFS, unix.EACCES, unix.EPERM} {
		path := hosts(t, "# top\n", 0o644)
		before := stat(t, path)
		f := File{Path: path, Cluster: "a", rename: func(from, to string) error {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: errno}
		}}
		set(t, f, true, entry("10.0.0.1", "x.internal"))
		if got := content(t, path); got != "# top\n"+blockA {
			t.Errorf("%v: got %q", errno, got)
		}
		set(t, f, true)
		if got := content(t, path); got != "# top\n" {
			t.Errorf("%v: after the removal: %q", errno, got)
		}
		if after := stat(t, path); after.Ino != before.Ino {
			t.Errorf("%v: another file", errno)
		}
	}
}

// Other errors are no reason to give up atomicity.
func TestSetReportsOtherErrors(t *testing.T) {
	path := hosts(t, "# top\n", 0o644)
	f := File{Path: path, Cluster: "a", rename: func(string, string) error { return unix.ENOSPC }}
	changed, err := f.Set(t.Context(), []Entry{entry("10.0.0.1", "x")})
	if changed || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, %v", changed, err)
	}
	if got := content(t, path); got != "# top\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestSetFollowsALink(t *testing.T) {
	path := hosts(t, "", 0o644)
	link := filepath.Join(t.TempDir(), "hosts")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	set(t, File{Path: link, Cluster: "a"}, true, entry("10.0.0.1", "x.internal"))
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if got := content(t, path); got != blockA {
		t.Errorf("got %q", got)
	}
}

func TestSetMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	f := File{Path: path, Cluster: "a"}
	set(t, f, false)
	if _, err := f.Set(t.Context(), []Entry{entry("10.0.0.1", "no name")}); err == nil {
		t.Error("a bad name was accepted")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made for nothing: %v", err)
	}
	set(t, f, true, entry("10.0.0.1", "x.internal"))
	if got := content(t, path); got != blockA {
		t.Errorf("got %q", got)
	}
}

func TestSetLeavesABrokenFileAlone(t *testing.T) {
	broken := begin("a") + "\n10.0.0.1 x\n"
	path := hosts(t, broken, 0o644)
	_, err := File{Path: path, Cluster: "a"}.Set(t.Context(), []Entry{entry("10.0.0.2", "x")})
	if malformed, ok := errors.AsType[*MalformedError](err); !ok || malformed.File != path {
		t.Errorf("got %v", err)
	}
	if got := content(t, path); got != broken {
		t.Errorf("the file is %q", got)
	}
}

// What a crash left of an earlier attempt is no obstacle.
func TestSetOverwritesALeftover(t *testing.T) {
	path := hosts(t, "", 0o644)
	if err := os.WriteFile(path+".etcdadm-new", []byte(strings.Repeat("x", 9999)), 0o600); err != nil {
		t.Fatal(err)
	}
	set(t, File{Path: path, Cluster: "a"}, true, entry("10.0.0.1", "x.internal"))
	if got := content(t, path); got != blockA {
		t.Errorf("got %q", got)
	}
}

// The daemons of several clusters on one host write at the same time, some by
// rename and some in place, and no block is lost.
func TestSeveralWriters(t *testing.T) {
	path := hosts(t, "# top\n", 0o644)
	const writers, rounds = 8, 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for w := range writers {
		f := File{Path: path, Cluster: fmt.Sprintf("c%d", w)}
		if w%2 == 1 {
			f.rename = func(string, string) error { return unix.EBUSY }
		}
		all.Go(func() {
			for round := range rounds {
				addr := fmt.Sprintf("10.0.%d.%d", w, round)
				if changed, err := f.Set(ctx, []Entry{entry(addr, "x")}); err != nil || !changed {
					t.Errorf("writer %d: %v, %v", w, changed, err)
					return
				}
			}
		})
	}
	all.Wait()
	got := content(t, path)
	for w := range writers {
		want := fmt.Sprintf("%s\n10.0.%d.%d\tx\n%s\n", begin(fmt.Sprintf("c%d", w)), w, rounds-1, end(fmt.Sprintf("c%d", w)))
		if strings.Count(got, want) != 1 {
			t.Errorf("the block of writer %d is not there once:\n%s", w, got)
		}
	}
}

func TestSetWaitsNoLongerThanItMay(t *testing.T) {
	path := hosts(t, "", 0o644)
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (File{Path: path, Cluster: "a"}).Set(ctx, []Entry{entry("10.0.0.1", "x")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func stat(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}
