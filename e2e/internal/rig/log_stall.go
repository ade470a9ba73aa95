package rig

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// FullPipe is a pipe that takes nothing more, as that of a program has which reads a daemon's log
// and was stopped.
func FullPipe(t *testing.T) (read, write *os.File) {
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
