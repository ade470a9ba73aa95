package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	runtimetest.Test(t, func(t *testing.T) *runtimetest.Target {
		spec := standIn(t, "serve")
		d := startDaemon(t, runtime.Options{})
		return &runtimetest.Target{Runtime: d, Spec: spec, NextDaemon: func(t *testing.T) runtime.Runtime {
			d.end()
			next := startDaemon(t, runtime.Options{})
			if err := next.Adopt(t.Context(), d.last(), spec.DataDir); err != nil {
				t.Fatal(err)
			}
			return next
		}}
	})
}

// A process works where its spec says, and without that in its data directory.
func TestWorkingDirectory(t *testing.T) {
	for _, own := range []bool{true, false} {
		spec, d := standIn(t, "serve"), startDaemon(t, runtime.Options{})
		want := spec.DataDir
		if own {
			want = t.TempDir()
			spec.Dir = want
		}
		if err := d.Ensure(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		got, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(runtimetest.Status(t, d).PID), "cwd"))
		if err != nil || got != want {
			t.Errorf("it works in %q, want %q: %v", got, want, err)
		}
		if err := d.Stop(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
}

func TestSpecIsChecked(t *testing.T) {
	good := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	for name, change := range map[string]func(*runtime.Spec){
		"relative program":           func(s *runtime.Spec) { s.Path = "etcd" },
		"relative data directory":    func(s *runtime.Spec) { s.DataDir = "data" },
		"relative working directory": func(s *runtime.Spec) { s.Dir = "." },
		"no log":                     func(s *runtime.Spec) { s.LogFile = "" },
		"no data-dir argument":       func(s *runtime.Spec) { s.Args = []string{"--name=a"} },
		"other data-dir argument":    func(s *runtime.Spec) { s.Args = append(s.Args, "--data-dir", "/elsewhere") },
		"absent data directory": func(s *runtime.Spec) {
			s.DataDir += "x"
			s.Args = []string{"--data-dir=" + s.DataDir}
		},
		"absent program": func(s *runtime.Spec) { s.Path = "/nonexistent/etcd" },
	} {
		spec := good
		spec.Args = slices.Clone(good.Args)
		change(&spec)
		if err := d.Ensure(t.Context(), spec); err == nil {
			t.Errorf("%s: no error", name)
		}
		if s := runtimetest.Status(t, d); s.State != runtime.Absent {
			t.Errorf("%s: status is %+v", name, s)
		}
	}
}

// The records come in the order that makes every crash recoverable.
func TestRecordsBeforeAndAfter(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, d, spec)
	all := d.records()
	if len(all) != 2 {
		t.Fatalf("%d records of one start: %+v", len(all), all)
	}
	before, after := all[0], all[1]
	if before.PID != 0 || before.StartTime != 0 || before.Nonce == "" || before.BootID == "" || before.DataDirInode == 0 {
		t.Errorf("before the fork: %+v", before)
	}
	if after.PID != s.PID || after.StartTime == 0 || after.Nonce != before.Nonce || !slices.Equal(after.Argv, s.Argv) {
		t.Errorf("after it: %+v", after)
	}
}

func TestNothingStartsUnrecorded(t *testing.T) {
	full := errors.New("no space left")
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{Record: func(runtime.ProcessRecord) error { return full }})
	if err := d.Ensure(t.Context(), spec); !errors.Is(err, full) {
		t.Errorf("ensure: %v, want %v", err, full)
	}
	if _, err := os.Stat(spec.LogFile); err != nil {
		t.Error(err)
	}
	if s := runtimetest.Status(t, d); s.PID != 0 {
		t.Errorf("status is %+v", s)
	}
}

func TestPidThatCannotBeRecordedIsTold(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{Record: func(r runtime.ProcessRecord) error {
		if r.PID != 0 {
			return errors.New("no space left")
		}
		return nil
	}})
	if s := runtimetest.Ensure(t, d, spec); !strings.Contains(s.RecordError, "no space left") {
		t.Errorf("status is %+v", s)
	}
	first := d.records()[0]
	d.end()
	next := startDaemon(t, runtime.Options{})
	if err := next.Adopt(t.Context(), first, spec.DataDir); err != nil {
		t.Fatalf("adopt by nonce: %v", err)
	}
	if r := next.last(); r.PID == 0 || r.StartTime == 0 || r.Nonce != first.Nonce {
		t.Errorf("adoption by nonce recorded %+v", r)
	}
}

func TestPermitIsAskedBeforeEveryStart(t *testing.T) {
	spec := standIn(t, "serve")
	refusal := errors.New("the write-ahead log is not there")
	asked := make(chan struct{}, 100)
	d := startDaemon(t, runtime.Options{Permit: func(runtime.Spec) error {
		asked <- struct{}{}
		if len(asked) == 1 {
			return nil
		}
		return refusal
	}})
	s := runtimetest.Ensure(t, d, spec)
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s = runtimetest.Await(t, d, "the refusal", func(s runtime.Status) bool { return s.LastError != "" })
	if s.State != runtime.Waiting || !strings.Contains(s.LastError, refusal.Error()) || s.NextStart.IsZero() {
		t.Errorf("status is %+v", s)
	}
}

// What keeps a process from starting is tried again and again, and said once.
func TestSameRefusalIsSaidOnce(t *testing.T) {
	spec := standIn(t, "serve")
	var said, asked atomic.Int32
	d := startDaemon(t, runtime.Options{
		Backoff: runtime.Backoff{Delays: []time.Duration{0, time.Millisecond}, Healthy: time.Hour},
		Logger:  slog.New(countingHandler{Handler: slog.DiscardHandler, text: "cannot restart", n: &said}),
		Permit: func(runtime.Spec) error {
			if asked.Add(1) == 1 {
				return nil
			}
			return errors.New("the write-ahead log is not there")
		},
	})
	s := runtimetest.Ensure(t, d, spec)
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	runtimetest.Await(t, d, "five refusals", func(s runtime.Status) bool { return asked.Load() > 6 })
	if n := said.Load(); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// countingHandler counts the records whose message begins with a text.
type countingHandler struct {
	slog.Handler
	text string
	n    *atomic.Int32
}

func (h countingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h countingHandler) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, h.text) {
		h.n.Add(1)
	}
	return nil
}

func TestReplacedDirectoryIsNotStartedIn(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, d, spec)
	if err := os.Rename(spec.DataDir, spec.DataDir+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(spec.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s = runtimetest.Await(t, d, "the refusal", func(s runtime.Status) bool { return s.LastError != "" })
	if s.PID != 0 || !strings.Contains(s.LastError, "replaced") {
		t.Errorf("status is %+v", s)
	}
}

func TestFailuresBackOffAndTellTheCause(t *testing.T) {
	spec := standIn(t, "fail")
	const step = 20 * time.Millisecond
	d := startDaemon(t, runtime.Options{Backoff: runtime.Backoff{
		Delays: []time.Duration{0, step, 2 * step, time.Hour}, Healthy: time.Hour,
	}})
	if err := d.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s := runtimetest.Await(t, d, "four failures", func(s runtime.Status) bool { return s.Failures == 4 })
	if took := time.Since(begin); took < 3*step {
		t.Errorf("four failures in %s, the delays alone are %s", took, 3*step)
	}
	if s.State != runtime.Waiting || time.Until(s.NextStart) < 50*time.Minute {
		t.Errorf("status is %+v", s)
	}
	e := s.LastExit
	if !e.Known || e.Code != 3 || e.Signal != "" || e.Asked {
		t.Errorf("last exit is %+v", e)
	}
	if want := "it ended with status 3: discovery failed: wal: crc mismatch"; e.Reason != want {
		t.Errorf("reason is %q, want %q", e.Reason, want)
	}
	// The same spec waits on; another one is tried at once.
	if err := d.Ensure(t.Context(), spec); err != nil {
		t.Error(err)
	}
	if s := runtimetest.Status(t, d); s.State != runtime.Waiting || s.Failures != 4 {
		t.Errorf("after Ensure of the same spec: %+v", s)
	}
	spec.Env = []string{"TEST_CHILD=serve"}
	if s := runtimetest.Ensure(t, d, spec); s.Failures != 0 {
		t.Errorf("after Ensure of another spec: %+v", s)
	}
}

func TestStubbornProcessIsKilled(t *testing.T) {
	spec := standIn(t, "stubborn")
	d := startDaemon(t, runtime.Options{})
	runtimetest.Ensure(t, d, spec)
	awaitLog(t, spec.LogFile, "ignoring")
	runtimetest.Stop(t, d, 50*time.Millisecond)
	if e := runtimetest.Status(t, d).LastExit; e == nil || e.Signal != "SIGKILL" || !e.Asked {
		t.Errorf("last exit is %+v", e)
	}
}

// The member has a session of its own, and no descriptor but its three.
func TestChildInheritsNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	// As if our own parent had left it to us.
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	lock, err := runtime.LockStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, d, spec)
	awaitLog(t, spec.LogFile, "serving")

	sid, err := unix.Getsid(s.PID)
	if err != nil || sid != s.PID {
		t.Errorf("session of %d is %d (%v)", s.PID, sid, err)
	}
	fds, err := filepath.Glob("/proc/" + strconv.Itoa(s.PID) + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(w.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"0": "/dev/null", "1": spec.LogFile, "2": spec.LogFile}
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		if err != nil {
			continue // closed meanwhile
		}
		if w, ok := want[filepath.Base(fd)]; ok && to != w {
			t.Errorf("descriptor %s is %s, want %s", filepath.Base(fd), to, w)
		}
		if to == pipe || strings.HasPrefix(to, state) {
			t.Errorf("descriptor %s is our %s", filepath.Base(fd), to)
		}
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(env), "\x00"); n != len(spec.Env)+1 {
		t.Errorf("the environment has %d variables: %q", n, env)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := runtime.LockStateDir(state)
	if err != nil {
		t.Fatalf("the member keeps the state directory's lock: %v", err)
	}
	_ = again.Unlock()
}

func TestNoDescriptorLeaks(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	runtimetest.Ensure(t, d, spec)
	runtimetest.Stop(t, d, time.Second)
	before := count()
	for range 10 {
		runtimetest.Ensure(t, d, spec)
		runtimetest.Stop(t, d, time.Second)
		_, _ = lockHeld(spec.DataDir)
	}
	if after := count(); after > before {
		t.Errorf("ten starts left %d descriptors more", after-before)
	}
}

func TestClosed(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, d, spec)
	d.end()
	d.Close() // again
	reapOnCleanup(t, s.PID)
	if unix.Kill(s.PID, 0) != nil {
		t.Error("the end of Run took the process along")
	}
	for name, err := range map[string]error{
		"ensure": d.Ensure(t.Context(), spec),
		"stop":   d.Stop(t.Context(), 0),
		"adopt":  d.Adopt(t.Context(), d.last(), spec.DataDir),
	} {
		if !errors.Is(err, runtime.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	spec := standIn(t, "serve")
	d := startDaemon(t, runtime.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), runtimetest.Patience)
	defer cancel()
	done := make(chan struct{})
	const callers = 6
	for i := range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 5 {
				if i%3 == 0 {
					_ = d.Stop(ctx, time.Second)
				} else {
					_ = d.Ensure(ctx, spec)
				}
				s, _ := d.Status(ctx)
				if s.PID != 0 && s.State == runtime.Paused {
					t.Errorf("status is %+v", s)
				}
			}
		}()
	}
	for range callers {
		<-done
	}
	runtimetest.Stop(t, d, time.Second)
}
