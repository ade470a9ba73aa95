package runtime

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running process, held by its pidfd. As long as the pidfd says
// that it lives, its pid belongs to it and to no other.
type process struct {
	pid     int
	start   uint64 // clock ticks since boot
	since   time.Time
	adopted bool
	record  ProcessRecord

	pidfd    *os.File // in the Go poller: waiting costs no thread
	released atomic.Bool
	asked    atomic.Bool   // somebody asked it to end
	done     chan struct{} // closed when it is gone and the owner knows
}

func newProcess(pid, fd int) *process {
	// Only a non-blocking descriptor enters the poller. Whether this one did is
	// seen when waiting.
	_ = unix.SetNonblock(fd, true)
	return &process{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd"), done: make(chan struct{})}
}

// openProcess gets a hold of a pid; whose it is has to be verified afterwards.
func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0) // close-on-exec always
	if err != nil {
		return nil, fmt.Errorf("open pidfd of %d: %w", pid, err)
	}
	return newProcess(pid, fd), nil
}

func (p *process) control(f func(fd int) error) error {
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// signal sends sig to this very process. A process that has ended, or that was let
// go of, is no error: done or its owner tell which.
func (p *process) signal(sig unix.Signal) error {
	err := p.control(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(sig), p.pid, err)
	}
	return nil
}

// ended says whether the process has ended, reaped or not. At that point its
// files are closed and its locks are free.
func (p *process) ended() bool {
	var ended bool
	_ = p.control(func(fd int) error { ended = pollReadable(fd, 0); return nil })
	return ended
}

// pollReadable waits up to timeout for a pidfd to tell the end of its process.
func pollReadable(fd int, timeout time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(timeout.Milliseconds()))
	return err == nil && n > 0
}

// wait blocks until the process has ended (true) or was released (false).
func (p *process) wait() bool {
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Read(func(fd uintptr) bool { return pollReadable(int(fd), 0) })
	if err == nil {
		return true
	}
	return p.waitOnThread()
}

// waitOnThread is for kernels whose pidfd the Go poller does not take.
func (p *process) waitOnThread() bool {
	for !p.released.Load() {
		var ended bool
		if p.control(func(fd int) error { ended = pollReadable(fd, time.Second); return nil }) != nil {
			return false
		}
		if ended {
			return true
		}
	}
	return false
}

// reap collects the status of an ended process, if it is a child of ours: one
// that we started, or that we inherited by an exec of ourselves or as the
// container's first process. The status of others is theirs.
func (p *process) reap() (status unix.WaitStatus, known bool) {
	ours := p.control(func(fd int) error {
		return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	}) == nil
	if !ours {
		return 0, false
	}
	for {
		// Not reaped yet, so the number still is this child's.
		pid, err := unix.Wait4(p.pid, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return status, err == nil && pid == p.pid
	}
}

// release lets go of the process and makes wait return. The process goes on.
func (p *process) release() {
	p.released.Store(true)
	_ = p.pidfd.SetReadDeadline(time.Unix(1, 0))
}

func (p *process) close() { _ = p.pidfd.Close() }

// state reads how the process is doing.
func (p *process) state() State {
	stat, err := readStat(p.pid)
	switch {
	case err != nil || stat.start != p.start || p.asked.Load():
		return Stopping
	case stat.paused():
		return Paused
	}
	return Running
}
