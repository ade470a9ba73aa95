package adoption

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/runtime"
)

// UnitOf is the service of systemd that a process belongs to; empty: none.
func UnitOf(pid int) string {
	group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if i := strings.LastIndex(string(group), "/"); i >= 0 {
		if unit := strings.TrimSpace(string(group)[i+1:]); strings.HasSuffix(unit, ".service") {
			return unit
		}
	}
	return ""
}

// FlagsOf are the settings of the etcd that holds the data; nil without an error: none does.
func FlagsOf(held error) ([]Flag, error) {
	var locked *runtime.LockedError
	if held == nil || !errors.As(held, &locked) {
		return nil, nil
	}
	if locked.PID == 0 {
		return nil, errors.New("its process cannot be seen from here")
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", locked.PID))
	if err != nil {
		return nil, err
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", locked.PID))
	if err != nil {
		return nil, err
	}
	words := func(b []byte) []string { return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00") }
	flags := ParseFlags(words(line), words(environ))
	if path := configFile(flags); path != "" {
		return readConfigFile(locked.PID, path)
	}
	return flags, nil
}

// maxManifest is the size in bytes beyond which a file is no static pod. Source: kubelet
// refuses to read a larger one.
const maxManifest = 10 << 20

// ManifestOf is the static pod that runs etcd on a data directory: the first file of
// the kubelet's directory that names it, and etcd. Empty: none.
func ManifestOf(dir, dataDir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for static pods: %w", err)
	}
	// Whatever stands around the path in YAML, JSON or a shell's line, but no longer path.
	named := regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(filepath.Clean(dataDir)) + `(/member)?/*([^\w./-]|$)`)
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		content, err := readManifest(path)
		if err != nil {
			return "", fmt.Errorf("look for static pods: %w", err)
		}
		if named.Match(content) && strings.Contains(string(content), "etcd") {
			return path, nil
		}
	}
	return "", nil
}

// readManifest reads what can be a manifest: a regular file of its size, by a link too.
// Of anything else it gives nothing.
func readManifest(path string) ([]byte, error) {
	content, err := regular.Read(path, maxManifest)
	if errors.Is(err, regular.ErrNotRegular) || errors.Is(err, regular.ErrTooLarge) {
		return nil, nil
	}
	return content, err
}
