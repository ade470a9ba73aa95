// Package firstprocess is what runs a daemon as the first process of a container, and looks after what the daemon leaves behind.
//
// What must always hold:
//
//   - The end of the daemon is not the end of what it started: its children become this process's, and the next daemon finds
//     them. Only the end of this process ends the container, and with it all of them.
//   - Every child that ends is reaped, whoever started it.
//   - A signal that ends this process has ended the daemon first, which ends what it started.
//
// It knows nothing of etcd and of clusters.
package firstprocess

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// againFirst and againMost are between the end of a daemon that nobody asked for and its next start.
	againFirst, againMost = 200 * time.Millisecond, 15 * time.Second
	// lasted is how long a daemon runs that did not fail at its start: the next one is started soon again.
	lasted = time.Minute
)

// Options are what a container runs.
type Options struct {
	Path string   // of the program
	Args []string // with its name, which is shown
	// Gives up tells of an exit code that another start would not change: then this process ends with it, unless something else runs
	// that would end with the container.
	GivesUp func(code int) bool
	Log     *slog.Logger
}

// Run runs the daemon, and starts it again when it ends by itself, until SIGTERM, SIGINT or SIGHUP: these are passed on
// as SIGINT, by which a daemon ends what it started, whatever it is told for SIGTERM. Other signals that a daemon knows are passed on
// as they are. It returns the code to exit with.
func Run(o Options) (code int, err error) {
	// Where another process is the first one, as in a pod whose containers share theirs, orphans come here all the same.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("look after orphans: %w", err)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Stop(signals)
	r := runner{Options: o}
	if err := r.start(); err != nil {
		return 0, err
	}
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGCHLD {
				break
			}
			r.pass(s.(syscall.Signal))
		case <-r.due:
			r.due = nil
			if err := r.start(); err != nil { // as without memory for it
				r.Log.Error("the daemon cannot be started", "err", err)
				r.again()
			}
		}
		if r.reap() {
			return r.code, nil
		}
	}
}

type runner struct {
	Options
	pid   int // of the daemon; 0: none runs
	since time.Time
	wait  time.Duration
	due   <-chan time.Time // of the next start
	ends  bool             // this process was asked to end
	code  int
}

func (r *runner) start() error {
	pid, err := syscall.ForkExec(r.Path, r.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return fmt.Errorf("start %s: %w", r.Path, err)
	}
	r.pid, r.since = pid, time.Now()
	return nil
}

// pass passes a signal on. Without a daemon nobody could end what runs but the container's end.
func (r *runner) pass(s syscall.Signal) {
	if s != syscall.SIGUSR1 {
		s, r.ends = syscall.SIGINT, true
	}
	if r.pid != 0 {
		_ = syscall.Kill(r.pid, s) // it is not reaped yet, so this is no other process
	}
}

// reap takes all that has ended, and says whether this process is to end, too.
func (r *runner) reap() bool {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || pid <= 0: // none has ended, or there is none
			return r.ends && r.pid == 0
		case pid == r.pid:
			r.pid, r.code = 0, exitCode(status)
			if r.over() {
				return true
			}
		}
	}
}

// over is what follows from the end of the daemon.
func (r *runner) over() bool {
	if r.ends {
		return true
	}
	if r.GivesUp(r.code) && !children() {
		return true
	}
	if time.Since(r.since) >= lasted {
		r.wait = 0
	}
	r.again()
	r.Log.Warn("the daemon ended and is started again; what it started goes on", "exit code", r.code, "in", r.wait)
	return false
}

func (r *runner) again() {
	r.wait = min(max(againFirst, 2*r.wait), againMost)
	r.due = time.After(r.wait)
}

// children tells whether this process has any.
func children() bool {
	var info unix.Siginfo
	return unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil // ECHILD: none
}

// exitCode is as a shell has it.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
