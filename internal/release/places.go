package release

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	opt = "/opt"
	// imageBin is where etcd's container image has its programs; kops mounts
	// that image at the release's directory.
	imageBin = "usr/local/bin"
)

func (f *Finder) roots() []string {
	if len(f.Roots) == 0 {
		return []string{"/"}
	}
	return f.Roots
}

// rooted lists the same paths below each root.
func (f *Finder) rooted(paths ...string) []string {
	var all []string
	for _, root := range f.roots() {
		for _, path := range paths {
			all = append(all, filepath.Join(root, path))
		}
	}
	return all
}

// named are the directories that a person named, absolute: what is found is run
// from other working directories.
func (f *Finder) named() []string {
	dirs := make([]string, 0, len(f.Dirs))
	for _, dir := range f.Dirs {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func (f *Finder) caches() []string {
	if f.Caches == nil {
		return []string{CacheDir}
	}
	return f.Caches
}

// places are the directories that may hold a version's programs, in order.
func (f *Finder) places(version string) []string {
	var dirs []string
	for _, dir := range f.named() {
		for _, name := range names(version) {
			dirs = append(dirs, filepath.Join(dir, name), filepath.Join(dir, name, imageBin))
		}
	}
	name := filepath.Join(opt, "etcd-v"+version)
	dirs = append(dirs, f.rooted(filepath.Join(opt, fullName(version)), name, filepath.Join(name, imageBin))...)
	for _, dir := range f.rooted(f.caches()...) {
		for _, name := range names(version) {
			dirs = append(dirs, filepath.Join(dir, name))
		}
	}
	return dirs
}

// labels are the versions by whose names there is something, oldest first. No
// binary is asked.
func (f *Finder) labels() []string {
	var versions []string
	for _, dir := range slices.Concat(f.named(), f.rooted(opt), f.rooted(f.caches()...)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a place that is not there has nothing
		}
		for _, entry := range entries {
			if v, ok := label(entry.Name()); ok && f.holds(v) {
				versions = append(versions, v)
			}
		}
	}
	if f.Builtin != nil {
		versions = append(versions, f.Builtin.Version)
	}
	slices.SortFunc(versions, compare)
	return slices.Compact(versions)
}

func (f *Finder) holds(version string) bool {
	return slices.ContainsFunc(f.places(version), func(dir string) bool {
		found, err := findProgram(filepath.Join(dir, "etcd"))
		return found || err != nil
	})
}

// label reads the version in a directory's name.
func label(name string) (version string, ok bool) {
	name = strings.TrimPrefix(name, "etcd-")
	name = strings.TrimPrefix(name, "v")
	name = strings.TrimSuffix(name, strings.TrimPrefix(fullName(""), "etcd-v"))
	return name, versionForm.MatchString(name)
}

// parse takes a version apart; it has the form of a version.
func parse(version string) (n [3]int) {
	if m := versionForm.FindStringSubmatch(version); m != nil {
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1])
		}
	}
	return n
}

// compare orders versions; a pre-release comes before its release.
func compare(a, b string) int {
	x, y := parse(a), parse(b)
	if c := slices.Compare(x[:], y[:]); c != 0 {
		return c
	}
	_, preA, isA := strings.Cut(a, "-")
	_, preB, isB := strings.Cut(b, "-")
	switch {
	case isA != isB && isA:
		return -1
	case isA != isB:
		return 1
	}
	return cmp.Compare(preA, preB)
}
