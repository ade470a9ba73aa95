package release

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/internal/bounded"
)

const (
	opt = "/opt"
	// imageBin is where etcd's container image has its programs; kops mounts
	// that image at the release's directory.
	imageBin = "usr/local/bin"
)

func (f *Finder) roots() []string {
	if len(f.Roots) == 0 {
		return []string{SystemRoot}
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

// caches are the caches, below each root. SystemRoot is no root of one that was named.
func (f *Finder) caches() []string {
	if f.Caches == nil {
		return f.rooted(CacheDir)
	}
	named := Finder{Roots: slices.Clone(f.roots())}
	for i, root := range named.Roots {
		if root == SystemRoot {
			named.Roots[i] = "/"
		}
	}
	return named.rooted(f.Caches...)
}

// A place is where a version's programs may lie.
type place struct {
	holder  string // the directory of releases
	release string // in it: the release's own directory
	dir     string // there: that of its programs
}

// holders are the directories of releases, in order.
func (f *Finder) holders() []string {
	return slices.Concat(f.named(), f.rooted(opt), f.caches())
}

// places are where a version may lie, in order.
func (f *Finder) places(version string) []place {
	var all []place
	add := func(holder, name string, below ...string) {
		release := filepath.Join(holder, name)
		all = append(all, place{holder: holder, release: release, dir: filepath.Join(append([]string{release}, below...)...)})
	}
	for _, dir := range f.named() {
		for _, name := range names(version) {
			add(dir, name)
			add(dir, name, imageBin)
		}
	}
	for _, dir := range f.rooted(opt) {
		add(dir, fullName(version))
		add(dir, "etcd-v"+version)
		add(dir, "etcd-v"+version, imageBin)
	}
	for _, dir := range f.caches() {
		for _, name := range names(version) {
			add(dir, name)
		}
	}
	return all
}

// looksLeast is what a look at a directory is given where no time is left for programs to
// be asked: one that answers does so in less, and what is known of it is found.
const looksLeast = 100 * time.Millisecond

// lookAt looks at a directory that may lie on a hung mount, and gives it the
// time that a program is given to answer.
func lookAt[T any](ctx context.Context, dir string, read func() (T, error)) (T, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx) // looksLeast ends it
	}
	return bounded.Do(ctx, dir, max(share(ctx), looksLeast), read)
}

// silent reports whether a directory did not answer.
func silent(err error) bool {
	var s *bounded.SilentError
	return errors.As(err, &s)
}

// labels are the versions by whose names there is something, oldest first, and the
// directories of releases that do not answer. No binary is asked.
func (f *Finder) labels(ctx context.Context) (versions []string, passed []Passed) {
	for _, dir := range f.holders() {
		entries, err := lookAt(ctx, dir, func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
		if silent(err) {
			passed = append(passed, Passed{Path: dir, Reason: err})
		}
		if err != nil {
			continue // a place that is not there has nothing
		}
		for _, entry := range entries {
			if v, ok := label(entry.Name()); ok {
				versions = append(versions, v)
			}
		}
	}
	if f.Builtin != nil {
		versions = append(versions, f.Builtin.Version)
	}
	slices.SortFunc(versions, compare)
	return slices.Compact(versions), passed
}

// here are the versions by whose names there is a program, or something that does not
// answer.
func (f *Finder) here(ctx context.Context) []string {
	versions, _ := f.labels(ctx)
	return slices.DeleteFunc(versions, func(v string) bool { return !f.holds(ctx, v) })
}

func (f *Finder) holds(ctx context.Context, version string) bool {
	return f.Builtin != nil && f.Builtin.Version == version || slices.ContainsFunc(f.places(version), func(p place) bool {
		found, err := lookAt(ctx, p.release, func() (bool, error) { return findProgram(filepath.Join(p.dir, "etcd")) })
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
