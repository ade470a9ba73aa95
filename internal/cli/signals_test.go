package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// A parent's death is told once for each of its threads: that is one request
// to end, and no impatience.
func TestSignalsOfOneMomentAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		var first []os.Signal
		ended := false
		go heed(signals, func(s os.Signal) { first = append(first, s) }, func() { ended = true })
		for range 5 {
			signals <- os.Interrupt
			time.Sleep(sameWord / 10)
		}
		synctest.Wait()
		if len(first) != 1 || ended {
			t.Fatalf("first %v, ended at once %v; want one gentle end", first, ended)
		}
		time.Sleep(sameWord)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if len(first) != 1 || !ended {
			t.Fatalf("first %v, ended at once %v; want a later signal to end the program", first, ended)
		}
	})
}

// commandWords holds the arguments of a command that a process of this test runs.
const commandWords = "ETCDADM_TEST_COMMAND"

// A command that waits for what heeds no context, as a file of a hung disk
// does and a terminal on standard input, ends with the second Ctrl-C.
func TestASecondSignalEndsACommand(t *testing.T) {
	if words := os.Getenv(commandWords); words != "" {
		self := func() (string, []string) { return "/proc/self/exe", nil }
		os.Exit(Main(strings.Fields(words), Program("3.7.3", self, self), os.Stdout, os.Stderr))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestASecondSignalEndsACommand$")
	cmd.Env = append(os.Environ(), commandWords+"=plan --from -")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	cmd.Stdin = read
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := write.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := write.Write(bytes.Repeat([]byte(" "), 1<<17)); err != nil { // more than a pipe holds: the command reads
		_ = cmd.Wait()
		t.Fatalf("the command does not read: %v: %s", err, said.String())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != ExitInterrupted {
				t.Fatalf("the command ended with %v and %q, want exit code %d", err, said.String(), ExitInterrupted)
			}
			return
		case <-time.After(sameWord / 2):
		}
	}
}

// A wait for whoever writes to a pipe that was named ends with the first one.
func TestASignalEndsTheWaitForAPipe(t *testing.T) {
	path := pipeAt(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	err = atOnce(t, func() error {
		_, err := (&reach{output: "table"}).observation(ctx, path)
		return err
	})
	if !errors.Is(err, context.Canceled) || Report(io.Discard, "etcdadm", err) != ExitInterrupted {
		t.Errorf("it ended with %v", err)
	}
}

// A playground that is cut short leaves etcds behind: it ends them all, however often
// it is told to.
func TestFurtherSignalsDoNotCutAPlaygroundShort(t *testing.T) {
	self := func() (string, []string) { return "/proc/self/exe", nil }
	root := new(cobra.Command)
	root.AddCommand(playgroundCommand(Program("3.7.3", self, self)))
	ctx, stop := commandContext(root, []string{"playground", "--members", "1"})
	defer stop()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		time.Sleep(sameWord + sameWord/4) // a second signal would end this test here
	}
}
