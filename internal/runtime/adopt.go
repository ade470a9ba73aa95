package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Reason says why a process was not adopted.
type Reason string

// Reasons. After the first three nothing of the recorded start can still run;
// after the others something may.
const (
	OtherBoot    Reason = "the machine was booted since"
	NotFound     Reason = "no such process"
	OtherProcess Reason = "the process number belongs to another process now"

	OtherDataDir Reason = "its arguments name another data directory"
	OtherInode   Reason = "its data directory is not the one at this path"
	Unreadable   Reason = "it cannot be looked at"
	Ambiguous    Reason = "more than one process was found"
)

// RefusedError says that no process was adopted, and why.
type RefusedError struct {
	Reason Reason
	PID    int // that was looked at; 0 for none
	Err    error
}

func (e *RefusedError) Error() string {
	s := "adopt process"
	if e.PID != 0 {
		s += " " + strconv.Itoa(e.PID)
	}
	s += ": " + string(e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *RefusedError) Unwrap() error { return e.Err }

// Gone says that the recorded process is proven to run no more, so that another
// one may be started (if nothing else holds the data directory's lock).
func (e *RefusedError) Gone() bool {
	return e.Reason == OtherBoot || e.Reason == NotFound || e.Reason == OtherProcess
}

// Adopt takes over the process that an earlier daemon recorded, if it still
// runs and is proven to be the one: same boot, pid and start time (or, when the
// daemon was killed before it knew the pid, the spawn's nonce), dataDir among
// its arguments, and that path leading to the recorded directory, for us and
// for the process. The proof is made while a pidfd holds the process, and the
// pidfd is asked last whether it still lives. Any other outcome is a
// [*RefusedError].
//
// The caller holds the lock of the state directory (see the package comment).
// Whether the member answers with the expected ID is the caller's to check. An
// adopted process is not restarted until Ensure has said what is wanted.
func (c *Child) Adopt(ctx context.Context, record ProcessRecord, dataDir string) error {
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("adopt process: %w", err)
	}
	defer c.end()
	c.mu.Lock()
	running := c.proc
	c.mu.Unlock()
	if running != nil {
		return fmt.Errorf("adopt process: process %d runs already", running.pid)
	}
	proc, err := findRecorded(ctx, record, dataDir)
	if err != nil {
		return err
	}
	proc.adopted = true
	proc.since = startedAt(proc.start, time.Now())
	var recordErr error
	if record.PID == 0 {
		recordErr = c.opts.Record(proc.record)
	}
	node, err := inodeOf(dataDir)
	if err != nil {
		proc.close()
		return &RefusedError{Reason: OtherInode, PID: proc.pid, Err: err}
	}
	c.hold(proc, nil, node, logPosition{file: record.LogFile}, recordErr)
	return nil
}

func findRecorded(ctx context.Context, record ProcessRecord, dataDir string) (*process, error) {
	boot, err := BootID()
	if err != nil {
		return nil, &RefusedError{Reason: Unreadable, Err: err}
	}
	if record.BootID != boot {
		return nil, &RefusedError{Reason: OtherBoot, PID: record.PID}
	}
	if record.PID != 0 {
		return verify(ctx, record.PID, record, dataDir)
	}
	return findByNonce(ctx, record, dataDir)
}

// verify holds a process and proves that it is the recorded one.
func verify(ctx context.Context, pid int, record ProcessRecord, dataDir string) (*process, error) {
	proc, err := openProcess(pid)
	if err != nil {
		reason := Unreadable
		if isNoProcess(err) {
			reason = NotFound
		}
		return nil, &RefusedError{Reason: reason, PID: pid, Err: err}
	}
	refuse := prove(ctx, proc, record, dataDir)
	if proc.ended() {
		// What was read may be about another process that got the number since.
		refuse = &RefusedError{Reason: NotFound, PID: pid}
	}
	if refuse != nil {
		proc.close()
		return nil, refuse
	}
	return proc, nil
}

func prove(ctx context.Context, proc *process, record ProcessRecord, dataDir string) *RefusedError {
	refuse := func(reason Reason, err error) *RefusedError {
		return &RefusedError{Reason: reason, PID: proc.pid, Err: err}
	}
	stat, err := readStat(proc.pid)
	if err != nil {
		return refuse(Unreadable, err)
	}
	if stat.ended() {
		return refuse(NotFound, nil)
	}
	if record.PID == 0 {
		env, err := readStrings(procPath(proc.pid, "environ"))
		if err != nil {
			return refuse(Unreadable, err)
		}
		if !slices.Contains(env, SpawnEnv+"="+record.Nonce) {
			return refuse(OtherProcess, nil)
		}
	} else if stat.start != record.StartTime {
		return refuse(OtherProcess, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, execTime)
	defer cancel()
	argv, err := arguments(ctx, proc.pid)
	if err == nil && len(argv) == 0 {
		err = errNoArguments
	}
	if err != nil {
		return refuse(Unreadable, err)
	}
	arg, ok := dataDirArg(argv)
	if !ok || filepath.Clean(arg) != filepath.Clean(dataDir) {
		return refuse(OtherDataDir, fmt.Errorf("it has %q, wanted is %q", arg, dataDir))
	}
	if err := sameDirectory(proc.pid, dataDir, record.DataDirInode); err != nil {
		return refuse(OtherInode, err)
	}
	proc.start = stat.start
	proc.record = record
	proc.record.PID, proc.record.StartTime, proc.record.Argv = proc.pid, stat.start, argv
	return nil
}

// sameDirectory checks that dataDir is the recorded directory, and that the
// process sees the same one there, which it might not with mounts of its own.
func sameDirectory(pid int, dataDir string, recorded uint64) error {
	ours, err := inodeOf(dataDir)
	if err != nil {
		return err
	}
	if ours.ino != recorded {
		return fmt.Errorf("inode of %s is %d, recorded is %d", dataDir, ours.ino, recorded)
	}
	its, err := inodeOf(filepath.Join(procPath(pid, "root"), dataDir))
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil // not ours to see, as with a program that has capabilities
	case err != nil:
		return err
	case its != ours:
		return fmt.Errorf("the process sees another directory at %s", dataDir)
	}
	return nil
}

var errNoArguments = errors.New("it shows no arguments, as while a program is being loaded")

// mayRun says whether a process that shows no arguments could be loading the program of
// argv. What cannot be read of a living one is unknown, and unknown is not absent.
func mayRun(pid int, argv []string) bool {
	stat, err := readStat(pid)
	if err != nil || stat.kernel || stat.ended() || len(argv) == 0 {
		return false
	}
	its, err := os.Stat(procPath(pid, "exe"))
	if err != nil {
		return !isNoProcess(err)
	}
	program, err := os.Stat(argv[0])
	return err != nil || os.SameFile(its, program)
}

// findByNonce looks for the process of a spawn whose pid was not recorded.
func findByNonce(ctx context.Context, record ProcessRecord, dataDir string) (*process, error) {
	all, err := pids()
	if err != nil {
		return nil, &RefusedError{Reason: Unreadable, Err: err}
	}
	var candidates []int
	waits, cancel := context.WithTimeout(ctx, execTime) // for all of them
	defer cancel()
	for _, pid := range all {
		argv, err := arguments(waits, pid)
		if err != nil {
			continue // gone
		}
		if len(argv) == 0 && mayRun(pid, record.Argv) {
			return nil, &RefusedError{Reason: Unreadable, PID: pid, Err: errNoArguments}
		}
		arg, ok := dataDirArg(argv)
		if !ok || filepath.Clean(arg) != filepath.Clean(dataDir) {
			continue
		}
		env, err := readStrings(procPath(pid, "environ"))
		if err != nil && !isNoProcess(err) {
			return nil, &RefusedError{Reason: Unreadable, PID: pid, Err: err}
		}
		if slices.Contains(env, SpawnEnv+"="+record.Nonce) {
			candidates = append(candidates, pid)
		}
	}
	switch len(candidates) {
	case 0:
		return nil, &RefusedError{Reason: NotFound}
	case 1:
		return verify(ctx, candidates[0], record, dataDir)
	}
	return nil, &RefusedError{Reason: Ambiguous, Err: fmt.Errorf("processes %v", candidates)}
}
