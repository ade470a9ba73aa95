package file_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
)

// childEnv makes the test binary a writer in the store that it names.
const childEnv = "ETCDADM_TEST_BLOB_FILE_CHILD"

const (
	processes  = 4
	raceRounds = 50
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child obeys its standard input line by line, and answers each line with one: "create KEY TEXT" and "update KEY ETAG TEXT" with
// "won ETAG" or "lost"; "count N" adds N to the counter and answers "counted".
func child(dir string, in io.Reader, out io.Writer) error {
	store, err := file.Open(context.Background(), dir, file.Options{})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	fmt.Fprintln(out, "ready")
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		var tag blob.ETag
		switch words[0] {
		case "create":
			tag, err = store.Put(context.Background(), words[1], strings.NewReader(words[2]), blob.IfAbsent)
		case "update":
			tag, err = store.Put(context.Background(), words[1], strings.NewReader(words[3]), blob.IfMatch(blob.ETag(words[2])))
		case "count":
			n, _ := strconv.Atoi(words[1])
			if err := count(store, n); err != nil {
				return err
			}
			fmt.Fprintln(out, "counted")
			continue
		}
		switch {
		case err == nil:
			fmt.Fprintln(out, "won", tag)
		case errors.Is(err, blob.ErrPreconditionFailed):
			fmt.Fprintln(out, "lost")
		default:
			return err
		}
	}
	return lines.Err()
}

func count(store blob.Store, n int) error {
	for n > 0 {
		data, tag, err := blob.ReadAll(context.Background(), store, "counter", 100)
		if err != nil {
			return err
		}
		was, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		_, err = blob.PutBytes(context.Background(), store, "counter", []byte(strconv.Itoa(was+1)), blob.IfMatch(tag))
		if errors.Is(err, blob.ErrPreconditionFailed) {
			continue
		} else if err != nil {
			return err
		}
		n--
	}
	return nil
}

// Of several processes that write to one key under one condition exactly one wins, and no update is lost.
func TestProcessesRace(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	var children []*process
	for range processes {
		children = append(children, start(t, dir))
	}
	for _, c := range children {
		c.expect(t, "ready")
	}
	race := func(line func(i int) string) (winner int, tag blob.ETag) {
		t.Helper()
		for i, c := range children {
			c.say(t, line(i))
		}
		winner = -1
		for i, c := range children {
			answer := c.hear(t)
			if won, ok := strings.CutPrefix(answer, "won "); ok {
				if winner >= 0 {
					t.Fatalf("both %d and %d won", winner, i)
				}
				winner, tag = i, blob.ETag(won)
			} else if answer != "lost" {
				t.Fatalf("process %d answers %q", i, answer)
			}
		}
		if winner < 0 {
			t.Fatal("nobody won")
		}
		return winner, tag
	}
	for round := range raceRounds {
		key := fmt.Sprintf("folder-%d/marker", round)
		winner, tag := race(func(i int) string { return fmt.Sprintf("create %s by-%d", key, i) })
		data, got, err := blob.ReadAll(t.Context(), store, key, 100)
		if err != nil || string(data) != fmt.Sprintf("by-%d", winner) || got != tag {
			t.Fatalf("%d won with %q, the store holds %q with %q, %v", winner, tag, data, got, err)
		}
		winner, tag = race(func(i int) string { return fmt.Sprintf("update %s %s again-%d", key, tag, i) })
		data, got, err = blob.ReadAll(t.Context(), store, key, 100)
		if err != nil || string(data) != fmt.Sprintf("again-%d", winner) || got != tag {
			t.Fatalf("%d won with %q, the store holds %q with %q, %v", winner, tag, data, got, err)
		}
	}

	put(t, store, "counter", "0", blob.IfAbsent)
	const each = 30
	for _, c := range children {
		c.say(t, fmt.Sprintf("count %d", each))
	}
	for _, c := range children {
		c.expect(t, "counted")
	}
	if data, _, err := blob.ReadAll(t.Context(), store, "counter", 100); err != nil || string(data) != strconv.Itoa(processes*each) {
		t.Errorf("the counter stands at %q, %v, want %d", data, err, processes*each)
	}
	noTemporary(t, dir)
}

// A process that is killed at any moment leaves no lock behind, and no object that is half written.
func TestProcessKilled(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	put(t, store, "counter", "0", blob.IfAbsent)
	for i := range 10 {
		c := start(t, dir)
		c.expect(t, "ready")
		before, tag, err := blob.ReadAll(t.Context(), store, "counter", 100)
		if err != nil {
			t.Fatal(err)
		}
		c.say(t, "count 1000000")
		// Kill it in the middle of its work: once it is seen to be working, and a bit later each time.
		deadline := time.Now().Add(30 * time.Second)
		for changes := 0; changes <= i; {
			_, now, err := blob.ReadAllIfChanged(t.Context(), store, "counter", tag, 100)
			if err == nil {
				tag = now
				changes++
			} else if !errors.Is(err, blob.ErrNotModified) {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatal("the process does not count")
			}
		}
		c.kill()
		after, tag, err := blob.ReadAll(t.Context(), store, "counter", 100)
		if err != nil {
			t.Fatal(err)
		}
		was, _ := strconv.Atoi(string(before))
		if is, err := strconv.Atoi(string(after)); err != nil || is <= was {
			t.Fatalf("the counter went from %q to %q", before, after)
		}
		put(t, store, "counter", string(after), blob.IfMatch(tag))
	}
}

// A process that stands still with the lock is named, with its host.
func TestLockIsHeld(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	put(t, store, "counter", "0", blob.IfAbsent)
	c := start(t, dir)
	c.expect(t, "ready")
	c.say(t, "count 1000000")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var unnamed error
	// It stands still with the lock, or between two times that it has it. On a busy
	// machine it needs time of its own to get anywhere between two stops.
	for deadline, between := time.Now().Add(30*time.Second), time.Duration(0); time.Now().Before(deadline); between = (between + 37*time.Microsecond) % (5 * time.Millisecond) {
		time.Sleep(between)
		if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := blob.PutBytes(ctx, store, "other", []byte("x"), blob.Any)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			told, ok := errors.AsType[*blob.Error](err)
			if ok && strings.Contains(told.Hint(), fmt.Sprintf("process %d ", c.cmd.Process.Pid)) && strings.Contains(told.Hint(), "on host "+host+";") {
				return
			}
			unnamed = err // it may stand between the lock and writing its name
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("it was never seen with the lock and its name there; last: %v", unnamed)
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait() // again is an error that says so
}

func (p *process) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear gives the next line. It is bounded by the calls of the store, which give up on the lock.
func (p *process) hear(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the process ended: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	if got := p.hear(t); got != want {
		t.Fatalf("the process answers %q, want %q", got, want)
	}
}
