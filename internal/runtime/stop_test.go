package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/runtime/runtimetest"
)

// Who stops a process waits as long as its context, and what does not end by then
// is asked to end all the same: it is not wanted again by whoever finds it there,
// and not started again when it has ended.
func TestStopThatIsNotWaitedFor(t *testing.T) {
	spec := standIn(t, "stubborn")
	d := startDaemon(t, runtime.Options{})
	pid := runtimetest.Ensure(t, d, spec).PID
	awaitLog(t, spec.LogFile, "ignoring")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := d.Stop(ctx, 15*time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > runtimetest.Patience {
		t.Fatalf("stop: %v after %s", err, time.Since(began))
	}
	if s := runtimetest.Status(t, d); s.PID != pid || s.State != runtime.Stopping {
		t.Errorf("status is %+v", s)
	}
	if err := d.Ensure(t.Context(), spec); err == nil {
		t.Error("a process that was asked to end is taken for one that is to run")
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s := runtimetest.Await(t, d, "the end", func(s runtime.Status) bool { return s.PID == 0 })
	if s.State != runtime.Absent || len(d.records()) != 2 {
		t.Errorf("it is wanted again: %+v", s)
	}
}

// Without a word about it, a process has the usual time to end.
func TestStopIsPoliteByDefault(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	runtimetest.Ensure(t, d, spec)
	awaitLog(t, spec.LogFile, "serving")
	runtimetest.Stop(t, d, 0)
	if e := runtimetest.Status(t, d).LastExit; e == nil || e.Signal != "" || e.Code != 0 {
		t.Errorf("last exit is %+v", e)
	}
}

// A lock of etcd's keeps a start from happening, whoever holds it; and what cannot be
// looked at may be locked.
func TestLockedDirectoryIsNotStartedIn(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	wal := filepath.Join(spec.DataDir, "member", "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(wal, "0000000000000000-0000000000000000.wal"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if err := d.Ensure(t.Context(), spec); !errors.Is(err, runtime.ErrLocked) || len(d.records()) != 0 {
		t.Errorf("start: %v, %d records", err, len(d.records()))
	}
	if err := errors.Join(f.Close(), os.RemoveAll(wal), os.WriteFile(wal, nil, 0o600)); err != nil { // ENOTDIR for root as well
		t.Fatal(err)
	}
	if held, err := lockHeld(spec.DataDir); held || err == nil {
		t.Errorf("a log that cannot be listed: %v, %v; want an error", held, err)
	}
	if err := d.Ensure(t.Context(), spec); err == nil || len(d.records()) != 0 {
		t.Errorf("start: %v, %d records", err, len(d.records()))
	}
	if err := os.Remove(wal); err != nil {
		t.Fatal(err)
	}
	runtimetest.Ensure(t, d, spec)
}
