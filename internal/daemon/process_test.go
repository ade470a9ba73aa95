package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"golang.org/x/sys/unix"
)

// memberOf is a place for the member of a host, whose program is a shell that waits.
type memberOf struct {
	t           *testing.T
	state, data string
	deaf        bool   // to SIGTERM
	fails       bool   // at once
	says        string // in its log, before it fails
	program     string // empty: the shell itself
	more        string // an argument that this daemon would give it
	genuine     func(program string) error
	adopted     []record.Launch
}

// genuine takes every program as it is.
func genuine(string) error { return nil }

func newMemberOf(t *testing.T) *memberOf {
	t.Helper()
	dir := t.TempDir()
	m := &memberOf{t: t, state: filepath.Join(dir, "state"), data: filepath.Join(dir, "data"), genuine: genuine}
	if err := errors.Join(os.Mkdir(m.state, 0o700), os.Mkdir(m.data, 0o700)); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *memberOf) spec(l record.Launch) (runtime.Spec, error) {
	script := "while :; do sleep 0.05; done"
	if m.deaf {
		script = "trap '' TERM; touch " + filepath.Join(m.state, "deaf") + "; " + script
	}
	if m.fails {
		script = "echo '" + m.says + "'; exit 7"
	}
	return runtime.Spec{
		Path: cmp.Or(m.program, "/bin/sh"), Args: []string{"-c", script, "sh", "--data-dir=" + m.data, l.Version.String(), m.more},
		Env: []string{"PATH=" + os.Getenv("PATH")}, DataDir: m.data, LogFile: filepath.Join(m.state, "log"),
	}, nil
}

// daemon is a Process as one daemon has it; leave ends the daemon and not the member.
func (m *memberOf) daemon() (p *Process, leave func()) {
	m.t.Helper()
	p, err := NewProcess(m.state, slog.New(slog.DiscardHandler), m.spec, m.genuine, func(l record.Launch) { m.adopted = append(m.adopted, l) })
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Run(ctx) }()
	leave = func() { cancel(); <-ended }
	m.t.Cleanup(leave)
	m.t.Cleanup(func() { _ = p.Kill(context.Background()) })
	return p, leave
}

// end ends a process of ours that no daemon looks after.
func end(pid int) {
	if unix.Kill(pid, unix.SIGKILL) == nil {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
}

// locks takes etcd's lock of the data directory.
func (m *memberOf) locks() (unlock func()) {
	m.t.Helper()
	snap := filepath.Join(m.data, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		m.t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(snap, "db"))
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return func() { f.Close() }
}

// leftRunning is the process of a member that a daemon started and left; the caller ends
// it, before daemons that adopted it are ended.
func (m *memberOf) leftRunning(l record.Launch) (pid int) {
	m.t.Helper()
	p, leave := m.daemon()
	if err := p.Ensure(m.t.Context(), l, yes); err != nil {
		m.t.Fatal(err)
	}
	pid = p.Status().PID
	leave()
	return pid
}

func launchOf(version string) record.Launch {
	return record.Launch{Version: cluster.MustVersion(version), Name: "h1", Token: "t", Nonce: "n-" + version}
}

func yes() error { return nil }

// The next daemon takes over what this one has left, as it runs, and nothing else.
func TestProcessIsAdopted(t *testing.T) {
	m := newMemberOf(t)
	l := launchOf("3.5.35")
	pid := m.leftRunning(l)
	defer end(pid)

	m.more = "a later daemon gives it this argument, too"
	p, leave := m.daemon()
	if found, err := p.Adopt(t.Context(), l); !found || err != nil || p.Status().PID != pid || !p.Status().Adopted || len(m.adopted) != 1 {
		t.Fatalf("adopt: %v, %v: %+v, told of %d", found, err, p.Status(), len(m.adopted))
	}
	again := l
	again.Nonce = "another"
	if err := p.Ensure(t.Context(), again, yes); err != nil || p.Status().PID != pid {
		t.Fatalf("with the settings that it has: %v, %+v", err, p.Status())
	}
	leave()

	path := filepath.Join(m.state, "process.json")
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*runtime.ProcessRecord){
		"of another directory": func(r *runtime.ProcessRecord) { r.DataDirInode++ },
		"at another path":      func(r *runtime.ProcessRecord) { r.DataDir = m.state },
	} {
		var r processRecord
		if err := json.Unmarshal(kept, &r); err != nil {
			t.Fatal(err)
		}
		change(&r.Process)
		changed, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		p, leave = m.daemon()
		if found, err := p.Adopt(t.Context(), l); found || err == nil || p.Status().PID != 0 {
			t.Errorf("%s: %v, %v: %+v", name, found, err, p.Status())
		}
		leave()
	}

	// Of the very record, whose process is gone, nothing is left but what holds the data.
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	end(pid)
	p, _ = m.daemon()
	unlock := m.locks()
	if found, err := p.Adopt(t.Context(), l); found || !errors.Is(err, runtime.ErrLocked) {
		t.Errorf("beside somebody else's: %v, %v", found, err)
	}
	unlock()
	if found, err := p.Adopt(t.Context(), l); found || err != nil {
		t.Errorf("nothing runs: %v, %v", found, err)
	}
}

// Without any record, too, data that a process holds is no place for another one.
func TestProcessWithoutARecord(t *testing.T) {
	m := newMemberOf(t)
	p, _ := m.daemon()
	unlock := m.locks()
	if found, err := p.Adopt(t.Context(), launchOf("3.5.35")); found || !errors.Is(err, runtime.ErrLocked) {
		t.Errorf("beside somebody else's: %v, %v", found, err)
	}
	unlock()
	if found, err := p.Adopt(t.Context(), launchOf("3.5.35")); found || err != nil {
		t.Errorf("nothing runs: %v, %v", found, err)
	}
	// One that cannot be read may be about a process that runs.
	if err := os.WriteFile(filepath.Join(m.state, "process.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := NewProcess(m.state, slog.New(slog.DiscardHandler), m.spec, genuine, nil)
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Errorf("a torn record: %v", err)
	}
}

// No process without the host's word, and none that is not on record first.
func TestProcessNeedsAPermit(t *testing.T) {
	m := newMemberOf(t)
	p, _ := m.daemon()
	spec, err := m.spec(launchOf("3.5.35"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.permitted(spec); err == nil {
		t.Error("nobody was asked, and it may start")
	}
	no := errors.New("the log is gone")
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), func() error { return no }); !errors.Is(err, no) {
		t.Errorf("without a permit: %v", err)
	}
	if s := p.Status(); s.PID != 0 || s.State != cluster.ProcessBackoff || s.LastExit == "" {
		t.Errorf("%+v", s)
	}
	p.write = func([]byte) error { return no }
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); !errors.Is(err, no) || p.Status().PID != 0 {
		t.Errorf("unrecorded: %v, %+v", err, p.Status())
	}
	p.write = func(record []byte) error { return durable.Replace(p.path, record, 0o600) }
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil || p.Status().State != cluster.ProcessRunning {
		t.Errorf("with a permit: %v, %+v", err, p.Status())
	}
	if err := p.Stop(t.Context()); err != nil || p.Status().State != cluster.ProcessStopped {
		t.Errorf("stopped: %v, %+v", err, p.Status())
	}
}

// A member that ended by itself is not started again from a program that has become
// another one, and is once that is put right.
func TestProgramThatChangedWhileItRan(t *testing.T) {
	m := newMemberOf(t)
	m.program = filepath.Join(m.state, "etcd-v3.5.35", "etcd")
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(m.program), 0o700); err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  etcd\n", sha256.Sum256(shell))
	if err := errors.Join(os.WriteFile(m.program, shell, 0o700), os.WriteFile(filepath.Join(filepath.Dir(m.program), "etcdadm.sha256"), []byte(sums), 0o600)); err != nil {
		t.Fatal(err)
	}
	m.genuine = (&release.Finder{}).Genuine
	p, _ := m.daemon()
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil {
		t.Fatal(err)
	}
	until := func(what string, holds func(cluster.Process) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !holds(p.Status()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, p.Status())
			}
		}
	}
	// It rots where it lies: time and size stay. The one that runs goes on with what it has.
	pid, rotten := p.Status().PID, slices.Clone(shell)
	rotten[len(rotten)-1] ^= 1
	info, err := os.Stat(m.program)
	if err != nil {
		t.Fatal(err)
	}
	put := func(content []byte) {
		t.Helper()
		if err := errors.Join(os.Remove(m.program), os.WriteFile(m.program, content, 0o700), os.Chtimes(m.program, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	put(rotten)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until("it is told", func(s cluster.Process) bool {
		return s.State == cluster.ProcessBackoff && strings.Contains(s.LastExit, release.ErrAltered.Error())
	})
	if s := p.Status(); s.PID != 0 || !strings.Contains(s.LastExit, "etcdadm download 3.5.35") {
		t.Errorf("%+v", s)
	}
	put(shell)
	until("it runs again", func(s cluster.Process) bool { return s.State == cluster.ProcessRunning && s.PID != pid })
}

// A program that cannot be looked at is not said to be another one.
func TestProgramThatCannotBeReadIsToldAsThat(t *testing.T) {
	for wrong, fetched := range map[error]bool{
		fmt.Errorf("/opt/etcd: %w", release.ErrAltered): true,
		fmt.Errorf("/opt/etcd: %w", fs.ErrPermission):   false,
		fmt.Errorf("/opt/etcd: %w", unix.EIO):           false,
	} {
		m := newMemberOf(t)
		m.genuine = func(string) error { return wrong }
		p, _ := m.daemon()
		err := p.Ensure(t.Context(), launchOf("3.5.35"), yes)
		if !errors.Is(err, wrong) || strings.Contains(err.Error(), "etcdadm download 3.5.35") != fetched {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// What runs with other settings ends before the member is started with the new ones.
func TestProcessTakesNewSettings(t *testing.T) {
	m := newMemberOf(t)
	p, _ := m.daemon()
	pids := map[int]bool{}
	for i, version := range []string{"3.5.35", "3.5.35", "3.6.16"} {
		was := p.Status().PID
		if err := p.Ensure(t.Context(), launchOf(version), yes); err != nil {
			t.Fatal(err)
		}
		pids[p.Status().PID] = true
		if want := (i + 2) / 2; len(pids) != want {
			t.Errorf("with the settings %d: %d processes, want %d", i, len(pids), want)
		}
		if now := p.Status().PID; was != 0 && was != now && unix.Kill(was, 0) == nil {
			t.Error("the one before still runs")
		}
	}
}

// A member that was given up does not get the time that others get.
func TestKilledProcessEndsAtOnce(t *testing.T) {
	m := newMemberOf(t)
	m.deaf = true
	p, _ := m.daemon()
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(m.state, "deaf")); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := p.Kill(t.Context()); err != nil || p.Status().PID != 0 {
		t.Fatalf("%v, %+v", err, p.Status())
	}
	if took := time.Since(began); took >= runtime.DefaultGrace {
		t.Errorf("it took %s", took)
	}
}

// The mark of a start is counted, and the settings of an adopted process are held
// against those that it would get now.
func TestAdoptedSettingsAreCompared(t *testing.T) {
	m := newMemberOf(t)
	l := launchOf("3.5.35")
	pid := m.leftRunning(l)
	defer end(pid)
	m.more = "--heartbeat-interval=7"
	p, _ := m.daemon()
	if _, err := p.Adopt(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Status().Differs); got != "[--heartbeat-interval]" {
		t.Errorf("it differs in %s", got)
	}
}

// A process that is to be started again is worded anew: programs and certificates may
// have moved since.
func TestProcessIsWordedAnew(t *testing.T) {
	m := newMemberOf(t)
	p, _ := m.daemon()
	if err := errors.Join(p.Ensure(t.Context(), launchOf("3.5.35"), yes), p.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	m.more = "anew"
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil {
		t.Fatal(err)
	}
	if st, err := p.child.Status(t.Context()); err != nil || st.Argv[len(st.Argv)-1] != "anew" {
		t.Errorf("it runs as %v, %v", st.Argv, err)
	}
}

// A process that waits for its next start goes on waiting, and it is told why it ended
// and how often it was started.
func TestProcessThatFails(t *testing.T) {
	m := newMemberOf(t)
	m.fails = true
	p, _ := m.daemon()
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); p.Status().Restarts < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.Status())
		}
	}
	for range 3 {
		if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); p.Status().State != cluster.ProcessBackoff; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.Status())
		}
	}
	st, err := p.child.Status(t.Context())
	if s := p.Status(); err != nil || st.Failures < 3 || s.LastExit == "" || s.PID != 0 || s.Uptime != 0 {
		t.Errorf("%v: %d failures, %+v", err, st.Failures, s)
	}
}

// A daemon whose state directory was wiped begins anew, but not while its etcd runs,
// which it would give up for that, and not for one look that missed.
func TestWatchedState(t *testing.T) {
	t.Parallel()
	m := newMemberOf(t)
	p, _ := m.daemon()
	d := &daemon{cfg: Config{DataDir: t.TempDir()}, process: p, log: slog.New(slog.DiscardHandler)}
	lock := filepath.Join(d.cfg.DataDir, "etcdadm", "lock")
	if err := errors.Join(os.Mkdir(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	watch := func(spoil func() error, most time.Duration) error {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		held, err := os.Stat(lock)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- d.watchLock(ctx, lock, held) }()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(most, cancel)
		defer timer.Stop()
		return <-ended
	}
	nothing := func() error { return nil }
	if err := watch(nothing, 3*stateLook); !errors.Is(err, context.Canceled) {
		t.Errorf("nothing was done to it: %v", err)
	}
	another := func() error {
		return errors.Join(os.WriteFile(lock+".new", nil, 0o600), os.Rename(lock+".new", lock))
	}
	if err := p.Ensure(t.Context(), launchOf("3.5.35"), yes); err != nil {
		t.Fatal(err)
	}
	if err := watch(another, 4*stateLook); !errors.Is(err, context.Canceled) {
		t.Errorf("replaced, and etcd runs: %v", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := watch(another, 30*stateLook); !errors.Is(err, errStateGone) {
		t.Errorf("replaced: %v", err)
	}
	if err := watch(func() error { return os.Remove(lock) }, 30*stateLook); !errors.Is(err, errStateGone) {
		t.Errorf("removed: %v", err)
	}
}

// A member that ends because it cannot read its data is told as such, also while it is
// started once more.
func TestProcessThatCannotReadItsData(t *testing.T) {
	m := newMemberOf(t)
	m.fails, m.says = true, `{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch"}`
	p, _ := m.daemon()
	if err := p.Ensure(t.Context(), record.Launch{Token: "t", Version: cluster.MustVersion("3.6.16")}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); p.Status().Damaged != "discovery failed: walpb: crc mismatch"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the process is told as %+v", p.Status())
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := p.Status(); st.Damaged != "" {
		t.Errorf("what is not wanted any more is told as %+v", st)
	}
}
