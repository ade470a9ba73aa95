package rig

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// arguments are the arguments of a running process; nil when it is gone or is
// a zombie.
func arguments(pid int) []string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
}

// ended: no thread of the process is left that could hold its files open.
func ended(pid int) bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return true
	}
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(data), ") ") // behind the name, which may hold anything else
		if ok && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
			return false
		}
	}
	return true
}

// find returns the pids of the processes whose arguments fit.
func find(fits func([]string) bool) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if args := arguments(pid); args != nil && fits(args) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ProcessesOf are the processes whose data directory is dir or lies below it.
func ProcessesOf(dir string) []int {
	return find(func(args []string) bool {
		for _, a := range args {
			if value, ok := strings.CutPrefix(a, "--data-dir="); ok && (value == dir || strings.HasPrefix(value, dir+"/")) {
				return true
			}
		}
		return false
	})
}

func StopProcess(pid int) error     { return syscall.Kill(pid, syscall.SIGSTOP) }
func ContinueProcess(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
