package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	tail := " S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 12345 67"
	for text, want := range map[string]procStat{
		"12 (etcd)" + tail:           {comm: "etcd", state: 'S', start: 4711},
		"12 (a) S (b c) " + tail[1:]: {comm: "a) S (b c", state: 'S', start: 4711},
		"12 ()" + " T" + tail[2:]:    {comm: "", state: 'T', start: 4711},
		"12 (kworker)" + strings.Replace(tail, "4194560", "69238880", 1): {comm: "kworker", state: 'S', start: 4711, kernel: true},
		"12 (etcd)" + strings.Replace(tail, "4194560", "x", 1):           {},
		"12 (etcd) S 1 2 3": {},
		"12 etcd" + tail:    {},
		"12 (etcd)" + strings.Replace(tail, "4711", "x", 1): {},
	} {
		got, err := parseStat([]byte(text))
		if got != want || (err == nil) != (want != procStat{}) {
			t.Errorf("parse %q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	self, err := readStat(os.Getpid())
	if err != nil || self.ended() || self.paused() {
		t.Errorf("this process: %+v, %v", self, err)
	}
	now := time.Now()
	if at := startedAt(self.start, now); at.After(now) || now.Sub(at) > 10*time.Minute {
		t.Errorf("this process started at %s, it is %s", at, now)
	}
}

func TestDataDirArg(t *testing.T) {
	for _, c := range []struct {
		argv []string
		dir  string
		ok   bool
	}{
		{[]string{"etcd"}, "", false},
		{[]string{"etcd", "--data-dir"}, "", false},
		{[]string{"etcd", "--data-dir=/a"}, "/a", true},
		{[]string{"etcd", "-data-dir", "/a"}, "/a", true},
		{[]string{"x", "etcd", "--data-dir=/a", "--data-dir=/b"}, "/b", true},
		{[]string{"etcd", "--data-dirs=/a"}, "", false},
		{[]string{"sh", "-c", "etcd --data-dir=/a"}, "", false},
	} {
		if dir, ok := dataDirArg(c.argv); dir != c.dir || ok != c.ok {
			t.Errorf("%q: %q, %v", c.argv, dir, ok)
		}
	}
}

func TestBackoff(t *testing.T) {
	failures, delays := 0, []time.Duration{}
	for range 10 {
		failures = DefaultBackoff.fold(failures, time.Second)
		delays = append(delays, DefaultBackoff.Delay(failures))
	}
	const s = time.Second
	if diff := cmp.Diff([]time.Duration{0, s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}, delays); diff != "" {
		t.Error(diff)
	}
	if got := DefaultBackoff.fold(failures, time.Minute); got != 1 {
		t.Errorf("after a minute of health one more failure counts as %d", got)
	}
}

func TestSpecHash(t *testing.T) {
	base := Spec{Path: "/p", Args: []string{"a", "b"}, Env: []string{"c"}, DataDir: "/d", LogFile: "/l", Dir: "/w"}
	seen := map[string]Spec{base.Hash(): base}
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Path = "/q" },
		func(s *Spec) { s.Args = []string{"ab"} },
		func(s *Spec) { s.Args, s.Env = []string{"a"}, []string{"b", "c"} },
		func(s *Spec) { s.Env = nil },
		func(s *Spec) { s.DataDir = "" },
		func(s *Spec) { s.LogFile = "" },
		func(s *Spec) { s.Dir = "" },
	} {
		other := base.clone()
		change(&other)
		if prev, ok := seen[other.Hash()]; ok {
			t.Errorf("one hash for %+v and %+v", prev, other)
		}
		seen[other.Hash()] = other
	}
	if base.clone().Hash() != base.Hash() {
		t.Error("a copy has another hash")
	}
}

func TestCauseLines(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      []string
	}{
		{"nothing", "", nil},
		{"zap", `{"level":"info","msg":"serving","x":"password"}
{"level":"warn","msg":"slow"}
{"level":"error","msg":"old","error":"trouble"}
{"level":"fatal","ts":"…","caller":"x.go:1","msg":"failed to open","error":"file already locked","stacktrace":"a\nb"}
`, []string{"failed to open: file already locked"}},
		{"errors only", `{"level":"error","msg":"one"}
{"level":"error","msg":"two"}
{"level":"error","msg":"three"}
{"level":"error","msg":"four"}
`, []string{"two", "three", "four"}},
		{"before 3.5", `2026-01-02 15:04:05.123456 I | etcdmain: hello
2026-01-02 15:04:05.123456 C | etcdmain: listen tcp 127.0.0.1:2380: bind: address already in use
`, []string{"etcdmain: listen tcp 127.0.0.1:2380: bind: address already in use"}},
		{"go", "goroutine 1\npanic: freepages: failed\n\ngoroutine 1 [running]:\nmain.main()\n", []string{"panic: freepages: failed"}},
		{"only other", "a\n\nb\nc\nd", []string{"b", "c", "d"}},
		{"secrets", "login https://me:pw@host/x token=abc Password: \"hunter2\", end", []string{
			`login https://me:…@host/x token=… Password: "…", end`,
		}},
		{"secrets with quotes", "Authorization: Digest abcdef, x=\"y\"\nauthorization=Token sekret123\npassword: \"a\\\"b secret2\" end", []string{
			"Authorization: …", "authorization=…", `password: "…" end`,
		}},
		{"users with quotes", `dial https://user:pa'ss@host https://u:a"b@h`, []string{"dial https://user:…@host https://u:…@h"}},
		{"secrets in full", "Authorization: Bearer abc\nhttps://a@b/c@host https://d:e/f@host\npassword=\"a, b\" Authorization: Basic cc", []string{
			"Authorization: …", "https://…@host https://d:…@host", `password="…" Authorization: …`,
		}},
		{"broken before its message", `{"level":"fatal","msg":`, nil},
		{"broken behind its message", `{"level":"fatal","msg":"cannot write","error":"no sp`, []string{"cannot write"}},
		{"no message", `{"level":"fatal","environment-variable":"ETCD_X=y"}`, nil},
		{"no text", `null` + "\x07\n\x1b[2J", []string{"null", "[2J"}},
		{"long", strings.Repeat("é", 400), []string{strings.Repeat("é", causeLength/2) + "…"}},
	} {
		if diff := cmp.Diff(c.want, causeLines(c.log, true)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// What a process wrote before somebody ended it is no cause, unless it was an error.
func TestCauseLinesOfAnEndFromOutside(t *testing.T) {
	if got := causeLines(`{"level":"info","msg":"serving"}`+"\n", false); got != nil {
		t.Errorf("%q is no cause", got)
	}
	if diff := cmp.Diff([]string{"disk full"}, causeLines(`{"level":"error","msg":"disk full"}`+"\n", false)); diff != "" {
		t.Error(diff)
	}
}

func TestReadTailOfOneProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("before\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for start, want := range map[int64]string{7: "after\n", 0: "before\nafter\n", 13: "", 100: "before\nafter\n"} {
		if got := readTail(logPosition{file: file, start: start}); got != want {
			t.Errorf("from %d: %q, want %q", start, got, want)
		}
	}
}

// The end of a line whose beginning is not read is not told: it may be any field.
func TestReadTailBeginsWithALine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(strings.Repeat("x", 70<<10)+"\nlast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readTail(logPosition{file: file}); got != "last\n" {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
}

// A log is shortened while its writer goes on. Where the file system can cut
// out the head, not a line is lost, and they stay in order.
func TestRotateOpenLosesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	w, _, err := openLog(file)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	exact := canCollapse(t)
	const lines, limit = 400_000, 2 << 20
	written := make(chan error, 1)
	go func() {
		buf := bufio{w: w}
		for i := range lines {
			buf.line(i)
		}
		written <- buf.err
	}()
	rotations := 0
	var all bytes.Buffer
	for done := false; !done; {
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		cut, err := rotateOpen(file, limit)
		if err != nil {
			t.Fatal(err)
		}
		if cut > 0 {
			rotations++
			appendFile(t, &all, generation(file, 1))
		}
	}
	appendFile(t, &all, file)
	if rotations == 0 {
		t.Fatal("it was never rotated")
	}
	next, lost := 0, 0
	for line := range strings.Lines(all.String()) {
		n, err := strconv.Atoi(strings.TrimLeft(strings.TrimSpace(line), "x"))
		if err != nil || n < next {
			t.Fatalf("after line %d comes %q", next-1, line)
		}
		lost += n - next
		next = n + 1
	}
	if lost += lines - next; exact && lost > 0 {
		t.Errorf("%d of %d lines were lost in %d rotations", lost, lines, rotations)
	}
	t.Logf("%d rotations, %d of %d lines lost, exact: %v", rotations, lost, lines, exact)
	if _, err := os.Stat(generation(file, logGenerations+1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("more than %d generations: %v", logGenerations, err)
	}
}

// bufio writes whole lines, as a process does with its log.
type bufio struct {
	w   io.Writer
	err error
}

func (b *bufio) line(i int) {
	if _, err := fmt.Fprintf(b.w, "xxxxxxxxxxxxxxxxxxxx%08d\n", i); err != nil {
		b.err = err
	}
}

func appendFile(t *testing.T, to *bytes.Buffer, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to.Write(data)
}

func canCollapse(t *testing.T) bool {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(3 << 20); err != nil {
		t.Fatal(err)
	}
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, 1<<20) == nil
}

// Where the head cannot be cut out, the log still gets short, and its writer
// goes on at the new end.
func TestRotateOpenByTruncation(t *testing.T) {
	const shm = "/dev/shm"
	dir, err := os.MkdirTemp(shm, "rotate")
	if err != nil {
		t.Skipf("no tmpfs at %s: %v", shm, err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "log")
	w, _, err := openLog(file)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	old := strings.Repeat("0123456789abcde\n", 1<<17) // 2 MiB
	if _, err := io.WriteString(w, old+"last\n"); err != nil {
		t.Fatal(err)
	}
	cut, err := rotateOpen(file, 1<<20)
	if err != nil || cut != int64(len(old)+5) {
		t.Fatalf("rotate: %d, %v", cut, err)
	}
	if _, err := io.WriteString(w, "new\n"); err != nil {
		t.Fatal(err)
	}
	var now, then bytes.Buffer
	appendFile(t, &now, file)
	appendFile(t, &then, generation(file, 1))
	if now.String() != "new\n" || then.String() != old+"last\n" {
		t.Errorf("the log has %d bytes, its older part %d", now.Len(), then.Len())
	}
}

func TestRotateClosed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := rotateClosed(file, 10); err != nil {
		t.Errorf("no log: %v", err)
	}
	for i := range 6 {
		if err := os.WriteFile(file, []byte(fmt.Sprintf("part %d of the log", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rotateClosed(file, 10); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []string{1: "part 5 of the log", 2: "part 4 of the log", 3: "part 3 of the log"} {
		if n == 0 {
			continue
		}
		if data, err := os.ReadFile(generation(file, n)); err != nil || string(data) != want {
			t.Errorf("generation %d: %q, %v", n, data, err)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
}

// The poller normally waits for pidfds; some kernels need a thread for it.
func TestWaitOnThread(t *testing.T) {
	for _, kill := range []bool{true, false} {
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		proc, err := openProcess(p.Pid)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan bool, 1)
		go func() { done <- proc.waitOnThread() }()
		if kill {
			if err := proc.signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		} else {
			proc.release()
		}
		if got := <-done; got != kill {
			t.Errorf("killed %v: wait says %v", kill, got)
		}
		_ = p.Kill()
		_, _ = p.Wait()
		if err := proc.signal(unix.SIGTERM); err != nil {
			t.Errorf("signal to the dead: %v", err)
		}
		proc.close()
	}
}

// A pidfd enters the Go poller on the kernels that we know, so that neither a
// thread nor a second is spent on letting go.
func TestPidfdIsPolled(t *testing.T) {
	proc, err := openProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer proc.close()
	if err := proc.pidfd.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("set deadline: %v", err)
	}
	done := make(chan bool, 1)
	go func() { done <- proc.wait() }()
	proc.release()
	if <-done {
		t.Error("this process has ended")
	}
}

// The spawn journal relies on it: whoever shares the open lock file, as a child
// does from fork to exec, keeps the lock when the daemon is gone.
func TestStateLockLastsUntilTheLastSharer(t *testing.T) {
	dir := t.TempDir()
	lock, err := LockStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sharer := exec.Command("sleep", "1000")
	sharer.ExtraFiles = []*os.File{lock.file}
	if err := sharer.Start(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	_, early := LockStateDir(dir)
	_ = sharer.Process.Kill()
	_ = sharer.Wait()
	if !errors.Is(early, ErrLocked) {
		t.Errorf("lock while it is shared: %v", early)
	}
	lock, err = LockStateDir(dir)
	if err != nil {
		t.Fatalf("lock after the last sharer: %v", err)
	}
	_ = lock.Unlock()
}

// TestKillDoesNotWaitForEver: a process that does not go when it is killed, as one that
// waits for a hung disk, does not hold up whoever started it; and it is
// reaped when it goes.
func TestKillDoesNotWaitForEver(t *testing.T) {
	failed := errors.New("it cannot be kept track of")
	began := func() int {
		t.Helper()
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "600"}, &os.ProcAttr{})
		if err != nil {
			t.Skip(err)
		}
		pid := p.Pid
		_ = p.Release() // so that it is reaped by nobody else
		return pid
	}
	if err := kill(began(), failed); !errors.Is(err, failed) || err.Error() != failed.Error() {
		t.Errorf("a process that ends: %v", err)
	}

	pid := began()
	tracer := exec.Command("/proc/self/exe")
	tracer.Env = append(os.Environ(), "TEST_CHILD=tracer", fmt.Sprintf("TRACED=%d", pid))
	in, err := tracer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, _ := out.Read(said)
	if line := string(said[:n]); line != "tracing\n" {
		_ = kill(pid, nil)
		_ = tracer.Wait()
		t.Skipf("this system lets no process trace another: %s", line)
	}
	err = kill(pid, failed)
	if !errors.Is(err, failed) || !strings.Contains(err.Error(), fmt.Sprintf("process %d has not ended", pid)) {
		t.Errorf("a process that does not end: %v", err)
	}
	if err := errors.Join(in.Close(), tracer.Wait()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(20 * time.Second); unix.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was not reaped when it went")
		}
	}
}

// Who waits for another operation in vain hears for what.
func TestAWaitForAnotherOperationSaysSo(t *testing.T) {
	c := NewChild(Options{})
	defer c.Close()
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.end()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Stop(ctx, 0); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stop process: another start, stop or adoption of it has not ended") {
		t.Errorf("%v", err)
	}
}
