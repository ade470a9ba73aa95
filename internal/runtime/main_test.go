package runtime_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/runtime/runtimetest"
)

// The test program is also the member (etcd, or a small stand-in) and the
// daemon of the tests that kill one.
func TestMain(m *testing.M) {
	builtin.RunIfChild()
	if kind := os.Getenv("TEST_CHILD"); kind != "" {
		childMain(kind)
	}
	if mode := os.Getenv("TEST_DAEMON"); mode != "" {
		if err := daemonMain(mode); err != nil {
			fmt.Println("daemon:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if still := os.Getenv("TEST_STILL"); still != "" {
		if err := startOn(still); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// childMain is a member's stand-in.
func childMain(kind string) {
	switch kind {
	case "fail":
		fmt.Println(`{"level":"info","msg":"starting"}`)
		fmt.Println(`{"level":"fatal","msg":"discovery failed","error":"wal: crc mismatch"}`)
		os.Exit(3)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring")
		select {}
	case "tracer":
		if err := trace(); err != nil {
			fmt.Println("cannot:", err)
			os.Exit(3)
		}
	case "blank", "blank for a while":
		show, err := hideArguments()
		if err != nil {
			fmt.Println("cannot:", err)
			os.Exit(3)
		}
		fmt.Println("hidden")
		if kind == "blank for a while" {
			time.Sleep(300 * time.Millisecond)
			show()
		}
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	fmt.Println("serving")
	<-terminate
	os.Exit(0)
}

// trace keeps the process TRACED from being gone when it has ended, as a disk that
// stands still does, until this one ends.
func trace() error {
	pid, err := strconv.Atoi(os.Getenv("TRACED"))
	if err != nil {
		return err
	}
	goruntime.LockOSThread() // a process is traced by a thread
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	fmt.Println("tracing")
	_, err = io.Copy(io.Discard, os.Stdin)
	if err == nil {
		os.Exit(0)
	}
	return err
}

// hideArguments has the kernel show this process as one that a program is being loaded
// into, without arguments, until show is called. It fails where the kernel or its
// container forbid it.
func hideArguments() (show func(), err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	at := func(n int) uint64 { // field n of proc(5), where state is field 3
		v, bad := strconv.ParseUint(fields[n-3], 10, 64)
		err = errors.Join(err, bad)
		return v
	}
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	argStart, argEnd := at(48), at(49)
	// struct prctl_mm_map: code, data, brk, stack, arguments, environment, no auxv, no program.
	m := [13]uint64{at(26), at(27), at(45), at(46), at(47), uint64(brk), at(28), argStart, argStart, at(50), at(51), 0, math.MaxUint32 << 32}
	if err != nil {
		return nil, err
	}
	set := func(end uint64) error {
		m[8] = end
		return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m), 0)
	}
	if err := set(argStart); err != nil {
		return nil, err
	}
	return func() {
		if err := set(argEnd); err != nil {
			panic(err)
		}
	}, nil
}

// endAtOnce keeps a program with the race detector from waiting a second at its end.
const endAtOnce = "GORACE=atexit_sleep_ms=0"

// standIn is the spec of a stand-in in a new directory.
func standIn(t *testing.T, kind string) runtime.Spec {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	return runtime.Spec{
		Path:    "/proc/self/exe",
		Args:    []string{"--data-dir=" + data},
		Env:     []string{"TEST_CHILD=" + kind, endAtOnce},
		DataDir: data,
		LogFile: filepath.Join(dir, "member.log"),
	}
}

// daemon is a Child with its Run, and the last record.
type daemon struct {
	*runtime.Child
	end     func()
	records func() []runtime.ProcessRecord
}

// last is the newest record.
func (d *daemon) last() runtime.ProcessRecord {
	all := d.records()
	return all[len(all)-1]
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// startDaemon runs a Child until the test ends, or until its end is called; what
// it left running then is ended.
func startDaemon(t *testing.T, opts runtime.Options) *daemon {
	t.Helper()
	var lock = make(chan struct{}, 1)
	var list []runtime.ProcessRecord
	record := opts.Record
	opts.Record = func(r runtime.ProcessRecord) error {
		lock <- struct{}{}
		defer func() { <-lock }()
		list = append(list, r)
		if record != nil {
			return record(r)
		}
		return nil
	}
	if opts.Logger == nil {
		opts.Logger = quiet()
	}
	c := runtime.NewChild(opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	ended := false
	d := &daemon{Child: c}
	d.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	d.records = func() []runtime.ProcessRecord {
		lock <- struct{}{}
		defer func() { <-lock }()
		return append([]runtime.ProcessRecord(nil), list...)
	}
	t.Cleanup(func() { // of a test that failed
		for _, r := range d.records() {
			if t.Failed() && r.PID != 0 {
				endLeftover(r.PID)
			}
		}
	})
	t.Cleanup(func() {
		if !ended {
			defer d.end()
			runtimetest.Stop(t, c, time.Second)
		}
		d.end()
	})
	return d
}

// reapOnCleanup ends and collects a process of ours that no daemon looks after.
func reapOnCleanup(t *testing.T, pid int) {
	t.Cleanup(func() {
		if unix.Kill(pid, unix.SIGKILL) == nil {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	})
}

// awaitLog waits until the log holds text. Files tell nobody of their growth
// without a watch that would be larger than the test.
func awaitLog(t *testing.T, file, text string) {
	t.Helper()
	deadline := time.Now().Add(runtimetest.Patience)
	for {
		data, _ := os.ReadFile(file)
		if strings.Contains(string(data), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not say %q; it says %s", file, text, data)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The daemon's process: state directory in TEST_STATE, with spec.json.

func daemonMain(mode string) error {
	dir := os.Getenv("TEST_STATE")
	ctx, cancel := context.WithTimeout(context.Background(), 2*runtimetest.Patience)
	defer cancel()
	lock, err := runtime.LockStateDir(dir)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var spec runtime.Spec
	if err := readJSON(filepath.Join(dir, "spec.json"), &spec); err != nil {
		return err
	}
	recordFile := filepath.Join(dir, "record.json")
	c := runtime.NewChild(runtime.Options{Logger: quiet(), Record: func(r runtime.ProcessRecord) error {
		switch {
		case mode == "die-before-pid" && r.PID != 0:
			die()
		case mode == "run-slowly": // a slow disk: makes the instants of interest wide
			time.Sleep(20 * time.Millisecond)
		}
		err := writeJSON(recordFile, r)
		if mode == "die-before-fork" {
			die()
		}
		return err
	}})
	defer c.Close()
	var record runtime.ProcessRecord
	switch err := readJSON(recordFile, &record); {
	case err == nil:
		if err := c.Adopt(ctx, record, spec.DataDir); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := c.Ensure(ctx, spec); err != nil {
		return err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	fmt.Println("pid", s.PID, "adopted", s.Adopted)
	if mode == "stop" {
		return c.Stop(ctx, runtimetest.Patience/2)
	}
	<-ctx.Done()
	return nil
}

// die is a kill -9 at this very instruction.
func die() {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

func writeJSON(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func readJSON(file string, v any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func daemonCommand(mode, state string, uid int) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"TEST_DAEMON=" + mode, "TEST_STATE=" + state, endAtOnce}
	cmd.Dir = state
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return cmd
}

// launchDaemon starts a daemon's process and returns it with its first line;
// the line is empty when it ended before saying anything.
func launchDaemon(t *testing.T, mode, state string, uid int) (*exec.Cmd, string) {
	t.Helper()
	cmd := daemonCommand(mode, state, uid)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	lines.Scan() // ends with the process at the latest, and that one has a deadline
	return cmd, lines.Text()
}
