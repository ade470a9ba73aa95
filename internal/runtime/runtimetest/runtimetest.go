// Package runtimetest is the conformance suite of [runtime.Runtime]. Every
// implementation passes it against a real process.
package runtimetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/runtime"
)

// Target is one implementation on a machine where nothing runs yet.
type Target struct {
	Runtime runtime.Runtime
	// Spec is of a process that runs until SIGTERM. Its data directory exists.
	Spec runtime.Spec
	// NextDaemon lets the daemon die without a word, and returns what the next
	// one has after it looked for what is running.
	NextDaemon func(t *testing.T) runtime.Runtime
}

// Patience bounds every wait of the suite.
const Patience = 30 * time.Second

// Test runs the suite; open makes a fresh target and cleans up after itself.
func Test(t *testing.T, open func(t *testing.T) *Target) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *Target)
	}{
		{"NothingAtFirst", nothingAtFirst},
		{"EnsureStartsOne", ensureStartsOne},
		{"OtherSpecIsRefused", otherSpecIsRefused},
		{"StopEndsItForGood", stopEndsItForGood},
		{"StartsAgainAfterStop", startsAgainAfterStop},
		{"DeathIsSeenAtOnceAndRepaired", deathIsSeen},
		{"PausedIsSaidAndCanBeStopped", pausedCanBeStopped},
		{"OutlivesTheDaemon", outlivesTheDaemon},
		{"LockedDirectoryIsLeftAlone", lockedDirectory},
		{"DeadlineIsKept", deadlineIsKept},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Await waits until cond holds of rt's status, driven by events.
func Await(t *testing.T, rt runtime.Runtime, what string, cond func(runtime.Status) bool) runtime.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		s := Status(t, rt)
		if cond(s) {
			return s
		}
		select {
		case <-rt.Events():
		case <-ctx.Done():
			t.Fatalf("waited %s for %s; status is %+v, last exit %+v", Patience, what, s, s.LastExit)
		}
	}
}

// Status reads the status.
func Status(t *testing.T, rt runtime.Runtime) runtime.Status {
	t.Helper()
	s, err := rt.Status(t.Context())
	if err != nil {
		t.Fatalf("read status: %v", err)
	}
	return s
}

// Ensure starts the process.
func Ensure(t *testing.T, rt runtime.Runtime, spec runtime.Spec) runtime.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := rt.Ensure(ctx, spec); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return Await(t, rt, "a process", running)
}

// Stop ends the process.
func Stop(t *testing.T, rt runtime.Runtime, grace time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	if err := rt.Stop(ctx, grace); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if s := Status(t, rt); s.PID != 0 || s.State != runtime.Absent {
		t.Fatalf("after stop: status is %+v", s)
	}
}

func running(s runtime.Status) bool { return s.PID != 0 && s.State == runtime.Running }

// alive says whether a process exists and has not ended.
func alive(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 0
}

func nothingAtFirst(t *testing.T, g *Target) {
	if s := Status(t, g.Runtime); s.State != runtime.Absent || s.PID != 0 || s.LastExit != nil {
		t.Errorf("status is %+v", s)
	}
	Stop(t, g.Runtime, 0) // of nothing
}

func ensureStartsOne(t *testing.T, g *Target) {
	first := Ensure(t, g.Runtime, g.Spec)
	if !alive(first.PID) {
		t.Fatalf("process %d does not run", first.PID)
	}
	if first.Adopted || first.SpecHash != g.Spec.Hash() || time.Since(first.Since) > Patience {
		t.Errorf("status is %+v", first)
	}
	if second := Ensure(t, g.Runtime, g.Spec); second.PID != first.PID {
		t.Errorf("a second Ensure turned process %d into %d", first.PID, second.PID)
	}
}

func otherSpecIsRefused(t *testing.T, g *Target) {
	first := Ensure(t, g.Runtime, g.Spec)
	other := g.Spec
	other.Env = append([]string{"OTHER=1"}, other.Env...)
	if err := g.Runtime.Ensure(t.Context(), other); !errors.Is(err, runtime.ErrOtherSpec) {
		t.Errorf("ensure of another spec: %v, want %v", err, runtime.ErrOtherSpec)
	}
	if s := Status(t, g.Runtime); s.PID != first.PID || s.SpecHash != g.Spec.Hash() {
		t.Errorf("a refused spec left status %+v", s)
	}
}

func stopEndsItForGood(t *testing.T, g *Target) {
	first := Ensure(t, g.Runtime, g.Spec)
	Stop(t, g.Runtime, Patience/2)
	if alive(first.PID) {
		t.Errorf("process %d runs after stop", first.PID)
	}
	if s := Status(t, g.Runtime); s.LastExit != nil && !s.LastExit.Asked {
		t.Errorf("an asked end is told as %+v", s.LastExit)
	}
	Stop(t, g.Runtime, 0) // again
}

func startsAgainAfterStop(t *testing.T, g *Target) {
	first := Ensure(t, g.Runtime, g.Spec)
	Stop(t, g.Runtime, Patience/2)
	if second := Ensure(t, g.Runtime, g.Spec); second.PID == first.PID || second.Failures != 0 {
		t.Errorf("started again: %+v", second)
	}
}

func deathIsSeen(t *testing.T, g *Target) {
	const soon = 100 * time.Millisecond
	best := time.Hour
	// The machine may be busy for a while; a poll would be late every time.
	for range 5 {
		s := Ensure(t, g.Runtime, g.Spec)
		begin := time.Now()
		if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		Await(t, g.Runtime, "the death", func(now runtime.Status) bool { return now.PID != s.PID })
		best = min(best, time.Since(begin))
		again := Await(t, g.Runtime, "the restart", func(now runtime.Status) bool { return running(now) && now.PID != s.PID })
		if again.LastExit == nil || again.LastExit.PID != s.PID || again.LastExit.Asked || again.Failures == 0 {
			t.Fatalf("after a kill from outside: %+v, last exit %+v", again, again.LastExit)
		}
		Stop(t, g.Runtime, Patience/2)
		if best <= soon {
			return
		}
	}
	t.Errorf("a death was seen after %s at best, want %s", best, soon)
}

// pause stops a process and waits until the status says so: the kernel does it in
// its own time, and tells only the parent.
func pause(t *testing.T, rt runtime.Runtime, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(Patience)
	for Status(t, rt).State != runtime.Paused {
		if time.Now().After(deadline) {
			t.Fatalf("status is %+v, want it paused", Status(t, rt))
		}
		time.Sleep(time.Millisecond)
	}
}

func pausedCanBeStopped(t *testing.T, g *Target) {
	s := Ensure(t, g.Runtime, g.Spec)
	pause(t, g.Runtime, s.PID)
	Stop(t, g.Runtime, 200*time.Millisecond)
	if alive(s.PID) {
		t.Errorf("process %d runs after stop", s.PID)
	}
}

func outlivesTheDaemon(t *testing.T, g *Target) {
	first := Ensure(t, g.Runtime, g.Spec)
	next := g.NextDaemon(t)
	second := Status(t, next)
	if second.PID != first.PID || second.State != runtime.Running || second.SpecHash != first.SpecHash {
		t.Fatalf("the next daemon sees %+v, the first one saw %+v", second, first)
	}
	if third := Ensure(t, next, g.Spec); third.PID != first.PID {
		t.Errorf("ensure of the same spec turned process %d into %d", first.PID, third.PID)
	}
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Await(t, next, "the restart", func(s runtime.Status) bool { return running(s) && s.PID != first.PID })
	Stop(t, next, Patience/2)
}

// lockedDirectory: somebody else's etcd runs on the data directory.
func lockedDirectory(t *testing.T, g *Target) {
	snap := filepath.Join(g.Spec.DataDir, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := os.OpenFile(filepath.Join(snap, "db"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := unix.Flock(int(db.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("sleep", "1000")
	holder.ExtraFiles = []*os.File{db} // shares the lock
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()

	if err := g.Runtime.Ensure(t.Context(), g.Spec); !errors.Is(err, runtime.ErrLocked) {
		t.Errorf("ensure on a locked directory: %v, want %v", err, runtime.ErrLocked)
	}
	if s := Status(t, g.Runtime); s.PID != 0 {
		t.Errorf("status is %+v", s)
	}
	Stop(t, g.Runtime, 0)
	if !alive(holder.Process.Pid) {
		t.Error("a foreign process was ended")
	}
}

func deadlineIsKept(t *testing.T, g *Target) {
	s := Ensure(t, g.Runtime, g.Spec)
	pause(t, g.Runtime, s.PID) // so that it will not end by itself
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := g.Runtime.Stop(ctx, Patience); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop with a short deadline: %v", err)
	}
	if s := Status(t, g.Runtime); s.State != runtime.Stopping {
		t.Errorf("after a stop that was cut short: %+v", s)
	}
	Stop(t, g.Runtime, time.Millisecond)
}
