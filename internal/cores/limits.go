package cores

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"etcdadm.io/internal/regular"
)

const (
	// share is what of the memory of a container etcd's garbage collector may aim at, in percent: the rest is for this program, for
	// the stacks and the code of both, and for the pages of etcd's database, which the kernel takes back where it must.
	share = 75
	// leastMemory is the limit in bytes below which etcd is told nothing: a collector that runs all the time makes a member slow,
	// and a member that is killed is at least told of.
	leastMemory = 64 << 20
	// mostMemory is where a limit is none: cgroups of version 1 say "unlimited" by a number near the largest.
	mostMemory = 1 << 50
)

// Environment is what a Go program of another release is to be started with, so that it keeps to the limits of the
// container that this program and it are in: NAME=VALUE, sorted; where nothing limits them, or the environment of this program says it already, as that says.
// Source: Go before 1.25 does not look at the limit of its cores, and no release looks at that of its memory.
func Environment() []string {
	return environment("/", os.Getenv, limit())
}

func environment(root string, getenv func(string) string, cores int) (out []string) {
	if said := getenv("GOMAXPROCS"); said != "" {
		out = append(out, "GOMAXPROCS="+said)
	} else if cores > 0 {
		out = append(out, "GOMAXPROCS="+strconv.Itoa(cores))
	}
	if said := getenv("GOMEMLIMIT"); said != "" {
		out = append(out, "GOMEMLIMIT="+said)
	} else if most := memoryLimit(root); most > 0 && most/100*share >= leastMemory {
		out = append(out, "GOMEMLIMIT="+strconv.FormatInt(most/100*share, 10))
	}
	return out
}

// memoryLimit is that of the container in bytes, by cgroups of either version; 0: there is none, or it is not known. In a container its
// own group is what lies at the top; on a host each group above limits it, too.
func memoryLimit(root string) (least int64) {
	groups, err := regular.Read(filepath.Join(root, "proc/self/cgroup"), regular.SmallSize)
	if err != nil {
		return 0
	}
	note := func(file string) {
		text, err := regular.Read(file, regular.SmallSize)
		if err != nil {
			return
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
		if err == nil && n > 0 && n < mostMemory && (least == 0 || n < least) {
			least = n
		}
	}
	for line := range strings.Lines(string(groups)) { // such as 0::/ or 9:memory:/kubepods/burstable/pod1
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		top, name := "", ""
		switch {
		case fields[0] == "0" && fields[1] == "":
			top, name = "sys/fs/cgroup", "memory.max"
		case fields[1] == "memory":
			top, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for path := filepath.Clean("/" + fields[2]); ; path = filepath.Dir(path) {
			note(filepath.Join(root, top, path, name))
			if path == "/" {
				break
			}
		}
	}
	return least
}
