package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/bounded"
)

// spawned is a process that was just started, and what is wrong with its record.
type spawned struct {
	proc      *process
	logStart  int64 // the log's size before
	recordErr error
}

// spawn starts spec's process and journals it, as the package comment says.
func spawn(spec Spec, record func(ProcessRecord) error) (spawned, error) {
	node, err := inodeOf(spec.DataDir)
	if err != nil {
		return spawned{}, fmt.Errorf("look at data directory: %w", err)
	}
	boot, err := BootID()
	if err != nil {
		return spawned{}, err
	}
	rec := ProcessRecord{
		BootID: boot, Nonce: rand.Text(),
		DataDir: spec.DataDir, DataDirInode: node.ino,
		Argv: spec.argv(), SpecHash: spec.Hash(), LogFile: spec.LogFile,
	}
	logFile, logStart, err := openLog(spec.LogFile)
	if err != nil {
		return spawned{}, err
	}
	defer logFile.Close()

	if err := record(rec); err != nil {
		return spawned{}, fmt.Errorf("record the start that is about to happen: %w", err)
	}
	proc, err := forkExec(spec, rec, logFile)
	if err != nil {
		return spawned{}, err
	}
	rec.PID, rec.StartTime = proc.pid, proc.start
	proc.record = rec
	// The process runs, and the first record is enough to find it again: a
	// failure here is told, and no reason to end it.
	return spawned{proc: proc, logStart: logStart, recordErr: record(rec)}, nil
}

// answer makes sure that what a start reads does not stand still with a disk or mount.
func answer(ctx context.Context, spec Spec) error {
	return bounded.Program(ctx, spec.Path, spec.workingDir(), spec.DataDir, filepath.Dir(spec.LogFile))
}

func forkExec(spec Spec, rec ProcessRecord, logFile *os.File) (*process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	defer null.Close()
	closeInherited()

	pidfd := -1
	pid, err := syscall.ForkExec(spec.Path, rec.Argv, &syscall.ProcAttr{
		Dir:   spec.workingDir(),
		Env:   append(spec.clone().Env, SpawnEnv+"="+rec.Nonce),
		Files: []uintptr{null.Fd(), logFile.Fd(), logFile.Fd()},
		// A session of its own: neither ctrl-C nor the end of the login
		// session that started the daemon is meant for the member.
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	if pidfd < 0 { // an older kernel; a child of ours keeps its number until we reap it
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			return nil, fmt.Errorf("start %s: this kernel cannot hold a process by a pidfd: %w", spec.Path, kill(pid, err))
		}
	}
	proc := newProcess(pid, pidfd)
	proc.since = time.Now()
	// It cannot vanish before it is reaped, so this reads the right process.
	stat, err := readStat(pid)
	if err != nil {
		proc.close()
		return nil, fmt.Errorf("start %s: %w", spec.Path, kill(pid, err))
	}
	proc.start = stat.start
	return proc, nil
}

// killEnds is how long the end of a process that was killed is waited for: it takes
// moments, unless the disk that it needs something from stands still.
const killEnds = 2 * time.Second

// kill ends a child that was just born and cannot be kept track of because of err,
// and adds to that error if it does not end. Whenever it does, it is reaped; what it
// had not done by then it never does.
func kill(pid int, err error) error {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}()
	late := time.NewTimer(killEnds)
	defer late.Stop()
	select {
	case <-gone:
		return err
	case <-late.C:
		return fmt.Errorf("%w; its process %d has not ended %s after it was killed", err, pid, killEnds)
	}
}

// closeInherited marks descriptors that we were given by whoever started us,
// so that the member does not keep a stranger's pipe or socket open. What we
// open ourselves is marked from the beginning.
func closeInherited() {
	const firstFD = 3
	if unix.CloseRange(firstFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return
	}
	for _, path := range fds {
		if fd, err := strconv.Atoi(filepath.Base(path)); err == nil && fd >= firstFD {
			syscall.CloseOnExec(fd)
		}
	}
}
