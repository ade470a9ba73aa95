// Package runtime keeps one member's process running. It wraps the operating
// system's way to do that and knows nothing about clusters, peers or quorums:
// whether a member may be started or stopped is decided above, and asked
// through [Options.Permit] before every start, the automatic ones included.
//
// [Child] runs the member as a child process that outlives the daemon. Its
// loop is
//
//	New → Adopt (what an earlier daemon left running) → go Run → Ensure … Stop
//
// # Invariants
//
//   - There is never a second process on a data directory. A start is refused
//     while the directory's lock is held, by whomever.
//   - A process is ours only on proof (see [Child.Adopt]); what cannot be proven
//     ours is left alone.
//   - Signals go through a pidfd, so that none ever reaches a process that got
//     the number of a dead one.
//   - A child has a session of its own, /dev/null, and its log file: no pipe, no
//     terminal, no descriptor of ours. The end of the daemon is no event in its
//     life.
//
// # The spawn journal
//
// A daemon can be killed between any two instructions, and the next one has to
// know every process that it may have left. The pid does not exist before the
// fork, so two records are written around it:
//
//  1. {boot ID, nonce, data directory and inode, argv}, durable before the fork.
//     The nonce is new for each spawn and is put into the child's environment.
//  2. the same with pid and start time, as soon as they are known.
//
// Killed before 1: nothing was started. Killed between 1 and 2: the next daemon
// looks through /proc for the nonce. What could escape that look is a child that
// is forked but has not yet reached its exec, since it still shows the daemon's
// own environment. It cannot escape: such a child shares the open file
// description of the state directory's lock ([LockStateDir]) until its exec
// closes it, so the next daemon does not get that lock before the child has
// either become recognisable or ended. Hence the rule: hold the state
// directory's lock from before Adopt until the end of the process.
//
// Linux only.
package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Runtime keeps at most one process running.
type Runtime interface {
	// Status says what is there now. It reads, and changes nothing.
	Status(ctx context.Context) (Status, error)

	// Ensure makes the process run, and run again when it ends. It returns
	// when the process was started, not when it serves. A process that
	// already runs from an equal spec is left as it is; one that is waiting
	// for its next start keeps waiting. While a process runs from another spec
	// the error is [ErrOtherSpec]: to restart is the caller's decision. A call
	// that fails has started nothing, and changed nothing that is wanted.
	Ensure(ctx context.Context, spec Spec) error

	// Stop asks the process to end, kills it after the grace period, and
	// returns nil when it is gone and will not be started again. Zero means
	// [DefaultGrace]. When ctx ends first, the process may still run, and is
	// not started again. Stopping what does not run is no error.
	Stop(ctx context.Context, grace time.Duration) error

	// Events yields a value after something in Status has changed by itself or
	// by a call. Several changes may be told as one; the caller looks again.
	// There is one channel, for one reader.
	Events() <-chan struct{}
}

// DefaultGrace is how long a process may take to end after SIGTERM. etcd
// finishes running requests and may hand over its raft leadership first.
const DefaultGrace = 10 * time.Second

var (
	// ErrOtherSpec says that a process runs from another spec than the asked one.
	ErrOtherSpec = errors.New("a process runs from another spec")
	// ErrLocked says that a lock is held; the error is a [*LockedError].
	ErrLocked = errors.New("locked")
	// ErrClosed says that Run has returned or Close was called.
	ErrClosed = errors.New("runtime is closed")
)

// Spec is what to run. Two specs are equal when all of their fields are.
type Spec struct {
	Path string   // absolute path of the program
	Args []string // without the program's name; must name DataDir as --data-dir
	// Env is the whole environment: nothing is inherited, so that neither the
	// daemon's credentials nor its NOTIFY_SOCKET reach the child.
	Env     []string
	DataDir string // absolute; has to exist
	LogFile string // absolute; standard output and error are appended to it
	Dir     string // working directory, absolute; empty means DataDir
}

// Hash identifies the spec. It is kept beside the process, to know a changed
// spec after the daemon was replaced.
func (s Spec) Hash() string {
	h := sha256.New()
	for _, list := range [][]string{{s.Path, s.DataDir, s.LogFile, s.Dir}, s.Args, s.Env} {
		fmt.Fprintf(h, "%d\n", len(list))
		for _, v := range list {
			fmt.Fprintf(h, "%d:%s\n", len(v), v)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s Spec) clone() Spec {
	s.Args, s.Env = slices.Clone(s.Args), slices.Clone(s.Env)
	return s
}

func (s Spec) validate() error {
	for _, p := range [][2]string{{"program", s.Path}, {"data directory", s.DataDir}, {"log file", s.LogFile}} {
		if !filepath.IsAbs(p[1]) {
			return fmt.Errorf("check spec: %s %q is no absolute path", p[0], p[1])
		}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		return fmt.Errorf("check spec: working directory %q is no absolute path", s.Dir)
	}
	// etcd may take the directory from its environment or a file, but then the
	// next daemon could not know the process again.
	if got, ok := dataDirArg(s.argv()); !ok || filepath.Clean(got) != filepath.Clean(s.DataDir) {
		return fmt.Errorf("check spec: arguments name the data directory %q, not %q", got, s.DataDir)
	}
	return nil
}

func (s Spec) workingDir() string {
	if s.Dir == "" {
		return s.DataDir
	}
	return s.Dir
}

// argv is the command line that the process shows.
func (s Spec) argv() []string {
	name := s.Path
	if name == selfExe {
		// ps should show a name, and one that survives an upgrade of the file.
		if exe, err := os.Readlink(selfExe); err == nil {
			name = strings.TrimSuffix(exe, " (deleted)")
		}
	}
	return append([]string{name}, s.Args...)
}

const selfExe = "/proc/self/exe"

// State is the state of the process, or of its absence.
type State string

// States of a process.
const (
	Absent   State = "absent"   // nothing runs, nothing is wanted
	Running  State = "running"  // the process exists; whether it serves is not known here
	Paused   State = "paused"   // it exists and is stopped by a signal or a debugger
	Stopping State = "stopping" // it was asked to end
	Waiting  State = "waiting"  // it ended, and its next start is due at NextStart
)

// Status is what Runtime knows about the process.
type Status struct {
	State     State
	PID       int       // 0 when nothing runs
	Since     time.Time // of the process's start
	Adopted   bool      // it was started by an earlier daemon
	Argv      []string  // of the running process
	SpecHash  string    // of the spec that it was started from
	Failures  int       // unasked ends and failed starts, since it last was up for Backoff.Healthy
	NextStart time.Time // when Waiting
	LastExit  *Exit     // the last process that ended, if this daemon saw it
	LastError string    // why the last start failed; empty after one that worked
	// RecordError says why the pid of the running process could not be made
	// durable. It is found by its nonce all the same.
	RecordError string
}

// Exit says how a process ended.
type Exit struct {
	At     time.Time
	PID    int
	Uptime time.Duration
	Asked  bool   // Stop had been called
	Known  bool   // Code and Signal are known; not so for an adopted process
	Code   int    // exit status, when Signal is empty
	Signal string // for example "SIGKILL"
	// Reason is a sentence, and where the log has them the lines that look like
	// the cause. It holds no secret.
	Reason string
	// Damaged is the line of the log that says that the data on the disk is damaged, so
	// that no start with it ends otherwise; empty: none does.
	Damaged string
}

// ProcessRecord is what the caller makes durable about a process. PID and
// StartTime are zero in the record that is written before the fork.
type ProcessRecord struct {
	BootID       string   `json:"bootID"`
	Nonce        string   `json:"nonce"`
	PID          int      `json:"pid,omitempty"`
	StartTime    uint64   `json:"startTime,omitempty"` // clock ticks since boot, as in /proc/PID/stat
	DataDir      string   `json:"dataDir"`
	DataDirInode uint64   `json:"dataDirInode"`
	Argv         []string `json:"argv"`
	SpecHash     string   `json:"specHash"`
	LogFile      string   `json:"logFile"`
}

// SpawnEnv is the environment variable that carries a spawn's nonce. Its name
// does not begin with ETCD_, which etcd would try to read as a flag.
const SpawnEnv = "ETCDADM_SPAWN"

// dataDirArg finds etcd's data directory among the arguments. The last one
// counts, as in etcd.
func dataDirArg(argv []string) (dir string, ok bool) {
	for i, a := range argv {
		name, value, assigned := strings.Cut(a, "=")
		if name != "--data-dir" && name != "-data-dir" {
			continue
		}
		switch {
		case assigned:
			dir, ok = value, true
		case i+1 < len(argv):
			dir, ok = argv[i+1], true
		}
	}
	return dir, ok
}
