package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// A command that waits for what heeds no context, as a file of a disk that stands still
// does and a pipe that nobody writes to, ends with the second Ctrl-C.
func TestASecondSignalEndsACommand(t *testing.T) {
	if words := os.Getenv(commandWords); words != "" {
		self := func() (string, []string) { return "/proc/self/exe", nil }
		os.Exit(Main(strings.Fields(words), Program("3.7.3", self, self), os.Stdout, os.Stderr))
	}
	pipe := filepath.Join(t.TempDir(), "observation")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestASecondSignalEndsACommand$")
	cmd.Env = append(os.Environ(), commandWords+"=plan --from "+pipe)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := make(chan *os.File, 1)
	go func() {
		f, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the command reads
		written <- f
	}()
	var f *os.File
	select {
	case f = <-written:
		defer f.Close()
	case <-ctx.Done():
		_ = cmd.Wait()
		t.Fatalf("the command does not read: %s", said.String())
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
