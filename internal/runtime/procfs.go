package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/wake"
)

// procStat is what is needed of /proc/PID/stat.
type procStat struct {
	comm   string
	state  byte   // R, S, D, T (stopped), t (traced), Z (ended, not reaped), X
	kernel bool   // a thread of the kernel's own
	start  uint64 // clock ticks since boot
}

func (s procStat) paused() bool { return s.state == 'T' || s.state == 't' }

func (s procStat) ended() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(data)
}

// parseStat reads "PID (COMM) STATE … STARTTIME …"; the command may itself hold
// blanks and parentheses, so fields are counted from the last one.
func parseStat(data []byte) (procStat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return procStat{}, fmt.Errorf("parse process status %q: no command", data)
	}
	const flags, startTime = 9 - 3, 22 - 3 // proc(5) counts from 1, and state is field 3
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) <= startTime {
		return procStat{}, fmt.Errorf("parse process status %q: too short", data)
	}
	if state := fields[0]; len(state) != 1 || state[0] < 'A' || state[0] > 'z' {
		return procStat{}, fmt.Errorf("parse process status %q: the state is no letter", data)
	}
	start, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("parse process start time: %w", err)
	}
	bits, err := strconv.ParseUint(fields[flags], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("parse process flags: %w", err)
	}
	return procStat{comm: string(data[open+1 : end]), state: fields[0][0], kernel: bits&kernelThread != 0, start: start}, nil
}

// kernelThread is PF_KTHREAD of the kernel's process flags.
const kernelThread = 0x00200000

// execTime is how long a process may take from when whoever started it goes on until
// its arguments can be read: a fiftieth of a second was seen on a busy machine.
const execTime = 2 * time.Second

// execPoll is the time between two looks at them: nothing tells of it.
const execPoll = 5 * time.Millisecond

// arguments reads a process's arguments. The kernel shows none while a program is being
// loaded, which whoever started it does not wait for: they are waited for until ctx
// ends. A process that shows none then has a nil slice; so has a kernel's thread, and one
// that has ended, at once.
func arguments(ctx context.Context, pid int) ([]string, error) {
	for {
		argv, err := readStrings(procPath(pid, "cmdline"))
		if err != nil || len(argv) > 0 {
			return argv, err
		}
		stat, err := readStat(pid)
		if err != nil {
			return nil, err
		}
		if stat.kernel || stat.ended() {
			return nil, nil
		}
		if !wake.After(ctx, execPoll) {
			return nil, nil
		}
	}
}

// readStrings reads a file of strings that end in NUL, such as cmdline.
func readStrings(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// BootID names this boot of the machine; containers see their machine's.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// pids lists the processes that can be seen, in no order.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list, nil
}

// clockTick is the unit of start times: USER_HZ is 100 on every architecture
// that Go and etcd run on.
const clockTick = 10 * time.Millisecond

// startedAt turns a start time into a time of day, near enough to show.
func startedAt(ticks uint64, now time.Time) time.Time {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return now
	}
	text, _, _ := strings.Cut(string(data), " ")
	up, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return now
	}
	age := time.Duration(up*float64(time.Second)) - time.Duration(ticks)*clockTick
	return now.Add(-max(age, 0))
}

// inode identifies a file or directory while it exists.
type inode struct{ dev, ino uint64 }

func inodeOf(path string) (inode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return inode{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, fmt.Errorf("stat %s: no inode", path)
	}
	return inode{dev: uint64(st.Dev), ino: st.Ino}, nil
}

// isNoProcess says that a process has ended, as system calls and /proc tell it.
func isNoProcess(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist)
}
