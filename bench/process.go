package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kill9 kills a process by pid and waits until it is gone.
func kill9(ctx context.Context, pid int) error {
	if pid <= 1 {
		return fmt.Errorf("kill process %d: not one of ours", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	for {
		// Readable means ended, reaped or not: its sockets are closed.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		switch {
		case n > 0:
			return nil
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("wait for the end of process %d: %w", pid, err)
		case ctx.Err() != nil:
			return fmt.Errorf("wait for the end of process %d: %w", pid, ctx.Err())
		}
	}
}

// killUnder kills what was started with a path under dir in its arguments, one
// by one. Directories of runs are unlike any other, so this finds ours only.
func killUnder(ctx context.Context, dir string) {
	for {
		found := 0
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
		for _, file := range files {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil || pid == os.Getpid() || !argumentUnder(read(file), dir) {
				continue
			}
			found++
			_ = kill9(ctx, pid) // it may have ended by itself
		}
		if found == 0 || ctx.Err() != nil {
			return
		}
	}
}

func argumentUnder(cmdline, dir string) bool {
	args := strings.Split(cmdline, "\x00")
	if program := filepath.Base(args[0]); program != "etcd" && program != "etcd-manager" && args[0] != "/proc/self/exe" {
		return false
	}
	for _, arg := range args[1:] {
		if strings.Contains(arg, dir+"/") {
			return true
		}
	}
	return false
}

// usage is what a process has cost so far.
type usage struct {
	cpu    time.Duration // user and system
	rssKiB int           // anonymous
}

func usageOf(pid int) (usage, error) {
	stat := read(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // the name may hold blanks; f[0] is field 3
	if len(f) < 13 {
		return usage{}, fmt.Errorf("read the statistics of process %d: it is gone", pid)
	}
	var u usage
	for _, text := range f[11:13] { // utime, stime
		ticks, err := strconv.Atoi(text)
		if err != nil {
			return usage{}, fmt.Errorf("read the statistics of process %d: %w", pid, err)
		}
		u.cpu += time.Duration(ticks) * time.Second / 100 // USER_HZ is 100 on every Linux
	}
	for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/status", pid))) {
		if g := strings.Fields(line); len(g) > 1 && g[0] == "RssAnon:" {
			u.rssKiB, _ = strconv.Atoi(g[1]) // 0 would be noticed
		}
	}
	return u, nil
}

// pause waits for a time that the measure itself asks for, not for an event.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
