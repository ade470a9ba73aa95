package cores

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestKeepToOne(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "3")
	if KeepToOne(); runtime.GOMAXPROCS(0) != before {
		t.Errorf("%d cores, want those that the environment asks for: %d", runtime.GOMAXPROCS(0), before)
	}
	t.Setenv("GOMAXPROCS", "")
	if KeepToOne(); runtime.GOMAXPROCS(0) != 1 {
		t.Errorf("%d cores, want one", runtime.GOMAXPROCS(0))
	}
}

// A container's memory is found by cgroups of either version, and what a person said goes before it.
func TestEnvironment(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string
		env   map[string]string
		cores int
		want  []string
	}{
		"nothing": {},
		"version 2, in a container": {
			files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000000\n"},
			cores: 2, want: []string{"GOMAXPROCS=2", "GOMEMLIMIT=750000000"},
		},
		"version 2, no limit": {files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}},
		"version 2, a service below a slice": {
			files: map[string]string{
				"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/memory.max": "400000000\n", "sys/fs/cgroup/a.slice/b.service/memory.max": "max\n",
			},
			want: []string{"GOMEMLIMIT=300000000"},
		},
		"version 1, seen by the host's path, in a container": {
			files: map[string]string{
				"proc/self/cgroup": "5:cpu,cpuacct:/kubepods/p\n4:memory:/kubepods/p\n0::/kubepods/p\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "800000000\n",
			},
			want: []string{"GOMEMLIMIT=600000000"},
		},
		"version 1, no limit": {files: map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}},
		"too little":          {files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "50000000\n"}},
		"a person's": {
			files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000000\n"},
			env:   map[string]string{"GOMAXPROCS": "7", "GOMEMLIMIT": "1GiB"}, cores: 2, want: []string{"GOMAXPROCS=7", "GOMEMLIMIT=1GiB"},
		},
	} {
		root := t.TempDir()
		for path, text := range x.files {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755), os.WriteFile(filepath.Join(root, path), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got := environment(root, func(name string) string { return x.env[name] }, x.cores); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
