package runtime

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a process that names a data directory among its arguments, with an
// environment of its own. Its shell stays, and ends at the first signal.
func sleeper(t *testing.T, dir string, attr *syscall.SysProcAttr, script string, env ...string) int {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", script+"\necho up; read -r never", "sh", "--data-dir="+dir)
	c.Env, c.SysProcAttr = append([]string{"PATH=" + os.Getenv("PATH")}, env...), attr
	in, err := c.StdinPipe() // what it reads from
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skipf("this machine starts no such process: %v", err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = in.Close(); _ = c.Wait() })
	if n, err := out.Read(make([]byte, 1)); n == 0 {
		t.Skipf("this machine runs no such process: %v", err)
	}
	return c.Process.Pid
}

// A process is known by its nonce while it is held: the number that was found a
// moment ago may be another's by now, with the same data directory in its arguments.
func TestNonceIsComparedWhileHeld(t *testing.T) {
	dir := t.TempDir()
	node, err := inodeOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t, dir, nil, "", SpawnEnv+"=another")
	for nonce, want := range map[string]Reason{"another": "", "ours": OtherProcess, "": OtherProcess} {
		proc, err := verify(t.Context(), pid, ProcessRecord{Nonce: nonce, DataDir: dir, DataDirInode: node.ino}, dir)
		var refused *RefusedError
		switch {
		case want == "" && err != nil:
			t.Errorf("its own nonce: %v", err)
		case want != "" && (!errors.As(err, &refused) || refused.Reason != want):
			t.Errorf("the nonce %q: %v", nonce, err)
		}
		if proc != nil {
			proc.close()
		}
	}
}

// Two processes of one spawn are one too many: neither is taken.
func TestTwoOfOneNonceAreAmbiguous(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		sleeper(t, dir, nil, "", SpawnEnv+"=n")
	}
	var refused *RefusedError
	if _, err := findByNonce(t.Context(), ProcessRecord{Nonce: "n"}, dir); !errors.As(err, &refused) || refused.Reason != Ambiguous || refused.Gone() {
		t.Errorf("found: %v", err)
	}
}

// The same path is another directory for a process with mounts of its own.
func TestProcessWithMountsOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	node, err := inodeOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameDirectory(os.Getpid(), dir, node.ino); err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t, dir, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, "mount -t tmpfs none "+dir+" || exit 1")
	if err := sameDirectory(pid, dir, node.ino); err == nil {
		t.Error("the process sees another directory there, and nothing is said about it")
	}
}

// Without a process and without a wish for one, nothing is due: a daemon of a host
// without a member would turn round and round.
func TestNothingIsDueWhereNothingIsWanted(t *testing.T) {
	c := NewChild(Options{})
	if due, stop := c.restartTimer(); due != nil {
		stop()
		t.Error("a start is due")
	}
	c.restart(context.Background())
	if s, _ := c.Status(context.Background()); s.LastError != "" || s.Failures != 0 || s.State != Absent {
		t.Errorf("it was tried: %+v", s)
	}
}

// A lock on a file that is not in its place any more keeps nobody else out.
func TestLockOfAReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockFile)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeHolder(f, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := writeHolder(f, path); err == nil {
		t.Error("the lock of a removed file was taken")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeHolder(f, path); err == nil {
		t.Error("the lock of a replaced file was taken")
	}
}

// What was started while the Child was closed is left to the next daemon, and
// nobody waits for it here.
func TestStartedWhileClosing(t *testing.T) {
	pid := sleeper(t, t.TempDir(), nil, "")
	proc, err := openProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	c := NewChild(Options{})
	c.Close()
	c.hold(proc, nil, inode{}, logPosition{}, nil)
	select {
	case <-proc.done:
	case <-time.After(10 * time.Second):
		t.Error("the process is still held")
		proc.release()
	}
	if unix.Kill(pid, 0) != nil {
		t.Error("the process was ended")
	}
	c.watches.Wait()
}
