package runtime_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/runtime/runtimetest"
)

// Every wrong record is refused for its own reason, and touches nothing.
func TestAdoptRefuses(t *testing.T) {
	spec := standIn(t, "serve")
	first := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, first, spec)
	good := first.last()
	first.end()
	reapOnCleanup(t, s.PID)

	other := standIn(t, "serve").DataDir
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(spec.DataDir, link); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, runtime.Options{})
	for _, c := range []struct {
		name   string
		change func(*runtime.ProcessRecord)
		dir    string
		want   runtime.Reason
		gone   bool
	}{
		{"another boot", func(r *runtime.ProcessRecord) { r.BootID = "x" }, spec.DataDir, runtime.OtherBoot, true},
		{"no such pid", func(r *runtime.ProcessRecord) { r.PID = 1 << 22 }, spec.DataDir, runtime.NotFound, true},
		{"a reused pid", func(r *runtime.ProcessRecord) { r.StartTime++ }, spec.DataDir, runtime.OtherProcess, true},
		{"ourselves", func(r *runtime.ProcessRecord) { r.PID = os.Getpid() }, spec.DataDir, runtime.OtherProcess, true},
		{"another directory", func(*runtime.ProcessRecord) {}, other, runtime.OtherDataDir, false},
		{"another path to it", func(*runtime.ProcessRecord) {}, link, runtime.OtherDataDir, false},
		{"another inode", func(r *runtime.ProcessRecord) { r.DataDirInode++ }, spec.DataDir, runtime.OtherInode, false},
		{"an unknown nonce", func(r *runtime.ProcessRecord) { r.PID, r.Nonce = 0, "x" }, spec.DataDir, runtime.NotFound, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			record := good
			c.change(&record)
			err := d.Adopt(t.Context(), record, c.dir)
			var refused *runtime.RefusedError
			if !errors.As(err, &refused) || refused.Reason != c.want || refused.Gone() != c.gone {
				t.Fatalf("adopt: %v, want refusal because %q", err, c.want)
			}
			if s := runtimetest.Status(t, d); s.PID != 0 {
				t.Errorf("status is %+v", s)
			}
		})
	}
	if err := d.Adopt(t.Context(), good, spec.DataDir); err != nil {
		t.Errorf("after all refusals the right one: %v", err)
	}
	if err := d.Adopt(t.Context(), good, spec.DataDir); err == nil {
		t.Error("adopted twice")
	}
}

// A directory that was moved away under the running process is not its own any more.
func TestAdoptRefusesMovedDirectory(t *testing.T) {
	spec := standIn(t, "serve")
	first := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, first, spec)
	first.end()
	reapOnCleanup(t, s.PID)
	if err := os.Rename(spec.DataDir, spec.DataDir+".aside"); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, runtime.Options{})
	var refused *runtime.RefusedError
	if err := d.Adopt(t.Context(), first.last(), spec.DataDir); !errors.As(err, &refused) || refused.Reason != runtime.OtherInode {
		t.Errorf("adopt: %v", err)
	}
}

// A process shows no arguments while its program is being loaded, which is waited for;
// that it is another's is not concluded from it.
func TestAdoptWhileTheProgramIsLoaded(t *testing.T) {
	if show, err := hideArguments(); err != nil {
		t.Skip("a process cannot hide its arguments here: ", err)
	} else {
		show()
	}
	for _, kind := range []string{"blank for a while", "blank"} {
		// One kind after the other: who looks for a nonce waits for every process that shows nothing.
		t.Run(kind, func(t *testing.T) {
			for _, known := range []string{"pid", "nonce"} {
				t.Run(known, func(t *testing.T) {
					t.Parallel()
					spec := standIn(t, kind)
					first := startDaemon(t, runtime.Options{})
					s := runtimetest.Ensure(t, first, spec)
					awaitLog(t, spec.LogFile, "hidden")
					first.end()
					reapOnCleanup(t, s.PID)
					record := first.last()
					if known == "nonce" {
						record.PID = 0
					}
					err := startDaemon(t, runtime.Options{}).Adopt(t.Context(), record, spec.DataDir)
					if kind != "blank" && err == nil {
						return
					}
					var refused *runtime.RefusedError
					if kind != "blank" || !errors.As(err, &refused) || refused.Reason != runtime.Unreadable || refused.Gone() {
						t.Errorf("adopt: %v", err)
					}
				})
			}
		})
	}
}

func TestAdoptRefusesZombie(t *testing.T) {
	spec := standIn(t, "serve")
	first := startDaemon(t, runtime.Options{})
	s := runtimetest.Ensure(t, first, spec)
	first.end()
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// It is our child, so it stays as a zombie until the end of this test.
	if err := unix.Waitid(unix.P_PID, s.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Wait4(s.PID, nil, 0, nil) }()
	d := startDaemon(t, runtime.Options{})
	var refused *runtime.RefusedError
	if err := d.Adopt(t.Context(), first.last(), spec.DataDir); !errors.As(err, &refused) || !refused.Gone() {
		t.Errorf("adopt: %v", err)
	}
}

// The end of an adopted process is seen, though its status is somebody else's,
// and it is not started again before somebody wants it.
func TestAdoptedProcessEnds(t *testing.T) {
	state := t.TempDir()
	spec := daemonState(t, state, standIn(t, "serve"))
	cmd, line := launchDaemon(t, "run", state, 0)
	pid := pidOf(t, line)
	kill9(t, cmd.Process)
	_ = cmd.Wait()

	var record runtime.ProcessRecord
	if err := readJSON(filepath.Join(state, "record.json"), &record); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, runtime.Options{})
	if err := d.Adopt(t.Context(), record, spec.DataDir); err != nil {
		t.Fatal(err)
	}
	s := runtimetest.Status(t, d)
	if !s.Adopted || s.PID != pid || time.Since(s.Since) > runtimetest.Patience || time.Since(s.Since) < 0 {
		t.Errorf("status is %+v", s)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s = runtimetest.Await(t, d, "the end", func(s runtime.Status) bool { return s.PID == 0 })
	if s.State != runtime.Absent || s.LastExit == nil || s.LastExit.Known || s.LastExit.Asked {
		t.Errorf("status is %+v, last exit %+v", s, s.LastExit)
	}
}

// daemonState prepares the state directory of a daemon's process.
func daemonState(t *testing.T, state string, spec runtime.Spec) runtime.Spec {
	t.Helper()
	if err := writeJSON(filepath.Join(state, "spec.json"), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func pidOf(t *testing.T, line string) int {
	t.Helper()
	var pid int
	var adopted bool
	if _, err := fmt.Sscanf(line, "pid %d adopted %t", &pid, &adopted); err != nil {
		t.Fatalf("the daemon says %q", line)
	}
	t.Cleanup(func() { endLeftover(pid) })
	return pid
}

// endLeftover ends a process of a test that failed, if the number still belongs
// to this program.
func endLeftover(pid int) {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return
	}
	if own, _ := os.Readlink("/proc/self/exe"); exe == own {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func kill9(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Killed at any instruction around the fork, the daemon leaves nothing that the
// next one does not find.
func TestKilledAroundTheFork(t *testing.T) {
	for _, c := range []struct {
		mode    string
		adopted bool // something was left to find
	}{
		{"die-before-fork", false},
		{"die-before-pid", true},
	} {
		t.Run(c.mode, func(t *testing.T) {
			state := t.TempDir()
			spec := daemonState(t, state, standIn(t, "serve"))
			cmd, line := launchDaemon(t, c.mode, state, 0)
			_ = cmd.Wait()
			if line != "" {
				t.Fatalf("the daemon was meant to die, and says %q", line)
			}
			var record runtime.ProcessRecord
			if err := readJSON(filepath.Join(state, "record.json"), &record); err != nil {
				t.Fatal(err)
			}
			if record.PID != 0 || record.Nonce == "" {
				t.Fatalf("the record is %+v", record)
			}
			lock := awaitStateLock(t, state)
			defer lock.Unlock()

			d := startDaemon(t, runtime.Options{})
			err := d.Adopt(t.Context(), record, spec.DataDir)
			var refused *runtime.RefusedError
			switch {
			case c.adopted && err != nil:
				t.Fatal(err)
			case !c.adopted && (!errors.As(err, &refused) || refused.Reason != runtime.NotFound):
				t.Fatalf("adopt: %v", err)
			}
			s := runtimetest.Ensure(t, d, spec)
			if s.Adopted != c.adopted {
				t.Errorf("status is %+v", s)
			}
			if n := processesWith(t, spec.DataDir, 1); n != 1 {
				t.Errorf("%d processes run on the data directory", n)
			}
		})
	}
}

// awaitStateLock takes the lock as the next daemon does: for the moment until a
// forked child has reached its exec, the dead daemon still has it.
func awaitStateLock(t *testing.T, state string) *runtime.DirLock {
	t.Helper()
	deadline := time.Now().Add(runtimetest.Patience)
	for {
		lock, err := runtime.LockStateDir(state)
		if err == nil {
			return lock
		}
		if !errors.Is(err, runtime.ErrLocked) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// processesOn counts the living processes whose arguments name a data directory.
func processesOn(t *testing.T, dataDir string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), "--data-dir="+dataDir) {
			n++
		}
	}
	return n
}

// processesWith waits until so many run: one shows no arguments for the moment in which
// it becomes another program, which is long on a machine that has much else to do.
func processesWith(t *testing.T, dataDir string, want int) (n int) {
	t.Helper()
	for deadline := time.Now().Add(runtimetest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if n = processesOn(t, dataDir); n >= want || time.Now().After(deadline) {
			return n
		}
	}
}

// Wherever the kill hits, one of three things is true for the next daemon: it
// has no record and nothing runs; it has one and nothing runs; or it finds the
// one process that runs.
func TestKilledAnywhere(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 3
	}
	begin := time.Now()
	calm := t.TempDir()
	daemonState(t, calm, standIn(t, "serve"))
	cmd, line := launchDaemon(t, "run-slowly", calm, 0)
	pid := pidOf(t, line)
	full := time.Since(begin)
	kill9(t, cmd.Process)
	_ = cmd.Wait()
	endLeftover(pid)

	outcomes := map[string]int{}
	for range rounds {
		state := t.TempDir()
		spec := daemonState(t, state, standIn(t, "serve"))
		cmd := daemonCommand("run-slowly", state, 0)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(full * 5 / 4)) // the instant is what is being tested
		kill9(t, cmd.Process)
		_ = cmd.Wait()
		outcomes[findAfterKill(t, state, spec)]++
	}
	t.Logf("in %s: %v", full, outcomes)
}

// findAfterKill does what the next daemon does, checks the outcome, and ends
// what it found.
func findAfterKill(t *testing.T, state string, spec runtime.Spec) string {
	t.Helper()
	lock := awaitStateLock(t, state)
	defer lock.Unlock()
	count := processesOn(t, spec.DataDir)
	var record runtime.ProcessRecord
	err := readJSON(filepath.Join(state, "record.json"), &record)
	if errors.Is(err, os.ErrNotExist) {
		if count != 0 {
			t.Errorf("%d processes run without a record", count)
		}
		return "no record"
	}
	if err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, runtime.Options{})
	var refused *runtime.RefusedError
	switch err := d.Adopt(t.Context(), record, spec.DataDir); {
	case err == nil:
		if count = max(count, processesWith(t, spec.DataDir, 1)); count != 1 {
			t.Errorf("%d processes run, one was adopted", count)
		}
	case !errors.As(err, &refused) || !refused.Gone():
		t.Errorf("adopt %+v: %v", record, err)
	default:
		if count != 0 {
			t.Errorf("%d processes run, and the next daemon says: %v", count, err)
		}
		return "nothing started"
	}
	if record.PID == 0 {
		return "found by nonce"
	}
	return "found by pid"
}
