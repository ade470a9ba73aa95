package firstprocess_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/firstprocess"
)

// The test binary is the first process, its daemon, and what the daemon leaves behind, by its first argument.
func TestMain(m *testing.M) {
	role, dir := "", ""
	if len(os.Args) == 3 {
		role, dir = os.Args[1], os.Args[2]
	}
	switch role {
	default:
		os.Exit(m.Run())
	case "first":
		code, err := firstprocess.Run(firstprocess.Options{
			Path: "/proc/self/exe", Args: []string{os.Args[0], "daemon", dir}, GivesUp: func(code int) bool { return code == 2 },
			Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(code)
	case "daemon":
		ends := make(chan os.Signal, 1)
		signal.Notify(ends, os.Interrupt, syscall.SIGUSR1)
		if _, err := os.Stat(filepath.Join(dir, "wrong")); err == nil {
			os.Exit(2)
		}
		if _, err := os.Stat(filepath.Join(dir, "member")); err != nil { // it outlives this one
			c := exec.Command("/proc/self/exe", "member", dir)
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := c.Start(); err != nil {
				os.Exit(3)
			}
			note(dir, "member", c.Process.Pid)
		}
		note(dir, "daemon", os.Getpid())
		fmt.Println("daemon", os.Getpid())
		if s := <-ends; s == os.Interrupt {
			if pid, err := read(dir, "member"); err == nil {
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
			os.Exit(0)
		}
		os.Exit(7)
	case "member":
		for {
			time.Sleep(time.Hour)
		}
	}
}

func note(dir, name string, pid int) {
	_ = os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(pid)), 0o600)
}

func read(dir, name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

type first struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	says *bufio.Scanner
}

func run(t *testing.T) *first {
	t.Helper()
	f := &first{t: t, dir: t.TempDir()}
	f.cmd = exec.Command("/proc/self/exe", "first", f.dir)
	f.cmd.Stderr = os.Stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.says = bufio.NewScanner(out)
	t.Cleanup(func() {
		if pid, err := read(f.dir, "member"); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if f.cmd.Process != nil {
			_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL) // its daemon, too
			_ = f.cmd.Wait()
		}
	})
	return f
}

// daemon waits for another daemon to be up.
func (f *first) daemon() (pid int) {
	f.t.Helper()
	if !f.says.Scan() {
		f.t.Fatal("no daemon came")
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(f.says.Text(), "daemon "))
	if err != nil {
		f.t.Fatal(err)
	}
	return pid
}

// await waits until it is so.
func (f *first) await(what string, so func() bool) {
	f.t.Helper()
	for began := time.Now(); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			f.t.Fatalf("waited too long for %s", what)
		}
	}
}

func state(pid int) (parent int, zombie, there bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return parent, fields[0] == "Z", true
}

// A daemon that is killed is started again, and what it started goes on as a child of the first process; SIGTERM ends
// all of them, and nothing is left that nobody reaped.
func TestADaemonIsStartedAgain(t *testing.T) {
	f := run(t)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	one := f.daemon()
	member, err := read(f.dir, "member")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(one, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	two := f.daemon()
	f.await("the member to have another parent", func() bool { parent, _, there := state(member); return there && parent == f.cmd.Process.Pid })
	if err := syscall.Kill(f.cmd.Process.Pid, syscall.SIGUSR1); err != nil { // a new daemon, on request
		t.Fatal(err)
	}
	three := f.daemon()
	if one == two || two == three {
		t.Error(one, two, three)
	}
	if _, _, there := state(member); !there {
		t.Error("the member ended with a daemon")
	}
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Wait(); err != nil {
		t.Error(err)
	}
	f.await("the member to end", func() bool { _, zombie, there := state(member); return !there || zombie })
}

// What ends beside the daemon is reaped at once.
func TestOrphansAreReaped(t *testing.T) {
	f := run(t)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(f.daemon(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.daemon()
	member, err := read(f.dir, "member")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(member, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.await("the member to be reaped", func() bool { _, _, there := state(member); return !there })
}

// A daemon that another start would not help ends the container, unless that would end something else.
func TestGivesUp(t *testing.T) {
	f := run(t)
	if err := os.WriteFile(filepath.Join(f.dir, "wrong"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Wait(); f.cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("%v, want the code of the daemon", err)
	}

	g := run(t)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	one := g.daemon()
	if err := os.WriteFile(filepath.Join(g.dir, "wrong"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(one, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.await("a daemon to end by itself", func() bool { _, _, there := state(one); return !there })
	if err := os.Remove(filepath.Join(g.dir, "wrong")); err != nil {
		t.Fatal(err)
	}
	g.daemon()
}
