package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/internal/testetcd"
)

// about is the machine that the numbers are of.
type about struct {
	At       time.Time `json:"at"`
	CPUs     int       `json:"cpus"`
	MemoryMB int       `json:"memoryMB"`
	Kernel   string    `json:"kernel"`
	Go       string    `json:"go"`
	Etcd     []string  `json:"etcd"`
	Load     string    `json:"load"`
	SyncMS   float64   `json:"syncMS"` // median time to write and sync 4 KiB
}

func machine(dir string) about {
	return about{
		At: time.Now().UTC().Round(time.Second), CPUs: runtime.NumCPU(), MemoryMB: memoryMB(),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(), Etcd: testetcd.Versions(),
		Load: firstLine("/proc/loadavg"), SyncMS: syncTime(dir).Seconds() * 1000,
	}
}

func (a about) print(w io.Writer) {
	fmt.Fprintf(w, "%s · %d CPUs, %d MB, Linux %s · %s · etcd %s · load %s · write and sync of 4 KiB %.1f ms\n\n",
		a.At.Format(time.RFC3339), a.CPUs, a.MemoryMB, a.Kernel, a.Go, strings.Join(a.Etcd, ", "), a.Load, a.SyncMS)
}

func firstLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

func memoryMB() int {
	for line := range strings.Lines(read("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kb, _ := strconv.Atoi(f[1]) // 0 says unknown
			return kb / 1024
		}
	}
	return 0
}

func read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(data)
}

func loadAverage() float64 {
	f := strings.Fields(firstLine("/proc/loadavg"))
	if len(f) == 0 {
		return 0
	}
	v, _ := strconv.ParseFloat(f[0], 64) // 0 says unknown
	return v
}

// syncTime is how long the disk takes to make 4 KiB durable; everything that
// etcd and the daemons do waits for that many times over.
func syncTime(dir string) time.Duration {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	for range 21 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil || f.Sync() != nil {
			return 0
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
