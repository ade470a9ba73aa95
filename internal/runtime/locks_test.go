package runtime_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/runtime"
)

// lockHeld says whether a process holds etcd's locks in dataDir.
func lockHeld(dataDir string) (bool, error) {
	err := runtime.CheckUnlocked(dataDir)
	if errors.Is(err, runtime.ErrLocked) {
		return true, nil
	}
	return false, err
}

func TestLockHeldOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "absent"), filepath.Join(dir, "od[d*")} {
		if held, err := lockHeld(path); held || err != nil {
			t.Errorf("%s: %v, %v", path, held, err)
		}
	}
}

// etcd 2 has no db, and may have locked its log with flock.
func TestLockHeldOfEtcd2(t *testing.T) {
	for _, data := range []string{t.TempDir(), filepath.Join(t.TempDir(), "od[d*")} {
		wal := filepath.Join(data, "member", "wal")
		if err := os.MkdirAll(wal, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(wal, "0000000000000000-0000000000000000.wal"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if held, err := lockHeld(data); held || err != nil {
			t.Errorf("before: %v, %v", held, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if held, err := lockHeld(data); !held || err != nil {
			t.Errorf("after: %v, %v", held, err)
		}
	}
}

// What cannot be looked at is not said to be free.
func TestLockUnknownIsAnError(t *testing.T) {
	data := t.TempDir()
	snap := filepath.Join(data, "member", "snap")
	if err := os.MkdirAll(filepath.Dir(snap), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(snap, nil, 0o600); err != nil { // ENOTDIR for root as well
		t.Fatal(err)
	}
	if held, err := lockHeld(data); held || err == nil {
		t.Errorf("lock held: %v, %v; want an error", held, err)
	}
}

func TestStateDirLock(t *testing.T) {
	dir := t.TempDir()
	lock, err := runtime.LockStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = runtime.LockStateDir(dir)
	var locked *runtime.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || !strings.Contains(err.Error(), dir) {
		t.Errorf("second lock: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock, err = runtime.LockStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Unlock()
	if _, err := runtime.LockStateDir(filepath.Join(dir, "absent")); err == nil || errors.Is(err, runtime.ErrLocked) {
		t.Errorf("absent directory: %v", err)
	}
}

// A place is what is locked, and not the directory: one that was wiped under a daemon is another place for the next one.
func TestPlaceIsTheLock(t *testing.T) {
	dir := t.TempDir()
	lock := func() *runtime.DirLock {
		t.Helper()
		l, err := runtime.LockStateDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := lock()
	place := first.Place()
	if err := first.Unlock(); err != nil || place == "" {
		t.Fatalf("place %q: %v", place, err)
	}
	again := lock()
	defer again.Unlock()
	if again.Place() != place {
		t.Errorf("what is locked again is %s, and was %s", again.Place(), place)
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	other := lock()
	defer other.Unlock()
	if other.Place() == place {
		t.Error("two hold the lock of one place")
	}
}
