package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"etcdadm.io/internal/testlog"
)

// fullPipe is a pipe that takes nothing more, as that of a program has which reads a daemon's log
// and was stopped.
func fullPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	read, write = os.NewFile(uintptr(fds[0]), "log, read"), os.NewFile(uintptr(fds[1]), "log, write")
	t.Cleanup(func() { read.Close(); write.Close() })
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	for line := bytes.Repeat([]byte("\n"), 4096); ; {
		_, err := syscall.Write(fds[1], line)
		if errors.Is(err, syscall.EAGAIN) && len(line) > 1 {
			line = line[:1]
			continue
		}
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.SetNonblock(fds[1], false); err != nil { // a write waits, as it does for a daemon
		t.Fatal(err)
	}
	return read, write
}

// A daemon whose standard error takes nothing works: it makes a cluster, answers, ends when it is
// told to, with its etcd, and takes that up again. What it says comes out once somebody reads.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	c.configure(1)
	h := c.host(1)
	_, h.stderr = fullPipe(t)
	c.start(1)
	h.serves(soon)
	says := func() {
		t.Helper()
		eventually(t, soon, "status with a member that is up", func(context.Context) error {
			if r := c.etcdadm("status", "--data-dir="+h.dir); r.code != 0 || !strings.Contains(r.stdout, string(h.id())) {
				return fmt.Errorf("status ends with %d: %s%s", r.code, r.stdout, r.stderr)
			}
			return nil
		})
	}
	says()
	h.interrupt()

	read, write := fullPipe(t)
	h.stderr = write
	c.start(1)
	h.serves(soon)
	says()
	var log testlog.Lines
	go func() { // ends with the pipe
		_, _ = read.WriteTo(&log)
	}()
	brings := func(words string) {
		t.Helper()
		eventually(t, soon, words, func(context.Context) error {
			if !strings.Contains(log.String(), words) {
				return fmt.Errorf("the log is\n%s", strings.TrimLeft(log.String(), "\n"))
			}
			return nil
		})
	}
	brings(`msg="daemon is up"`)
	h.interrupt()
	brings(`msg="daemon has ended"`)
	if strings.Contains(log.String(), "were dropped") {
		t.Errorf("it lost lines:\n%s", strings.TrimLeft(log.String(), "\n"))
	}
}
