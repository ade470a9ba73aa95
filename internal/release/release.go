// Package release finds etcd binaries on this machine by version, and fetches
// them into its cache ([Downloader]). It looks, asks each binary what it is, and
// tells; which version is wanted, and whether the found one will do, is decided
// above. Nothing is fetched unless somebody asks for it.
//
// Places, in this order (<N> is etcd-v<version>-<os>-<arch>, etcd-v<version>,
// v<version> or <version>):
//
//  1. directories that a person named: those of ETCDADM_RELEASES, then those of
//     --release-dir: DIR/<N>/
//  2. /opt/etcd-v<version>-<os>-<arch>/, /opt/etcd-v<version>/,
//     /opt/etcd-v<version>/usr/local/bin/
//  3. the cache: DIR/<N>/
//  4. the release that is built into this program
//
// Places 2 and 3 are looked up below each of the roots, in their order.
//
// The directory's name is what was asked for, the binary's own answer is what
// it is: with kops the directory of an older patch holds the newest one of its
// minor. So a release tells both. A binary of another minor, or of an older
// patch than its directory says, is passed over, and the error says so.
package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
)

// Env names further directories of releases, in a list with colons.
const Env = "ETCDADM_RELEASES"

// CacheDir is where etcdadm keeps the releases that it has fetched.
const CacheDir = "/var/cache/etcdadm/etcd"

// SystemRoot is where this machine's own places begin. Only tests set it, in their own
// process or by -ldflags=-X in the programs that they build: what they say must not
// depend on what is installed where they run.
var SystemRoot = "/"

// Builtin is the release that this program carries.
type Builtin struct {
	Version string
	Path    string   // program to execute
	Args    []string // that come before etcd's own
	UtlArgs []string // that make the same program etcdutl; nil when it is none
}

// Release is an etcd that can be run.
type Release struct {
	Asked   string // the version by whose name it was found
	Version string // what the binary says that it is
	Dir     string // where it lies; empty for the built-in one
	Etcd    string // path of the server program
	Args    []string
	Etcdctl string // path; empty when there is none beside the server
	Etcdutl string // path; empty when there is none; exists since 3.5
	// EtcdutlArgs come before the own ones of etcdutl.
	EtcdutlArgs []string
	Builtin     bool
}

// Finder looks for releases. The zero value looks below SystemRoot only.
type Finder struct {
	Dirs    []string // named by a person; see [Dirs]
	Caches  []string // nil means CacheDir
	Roots   []string // prefixes such as "/rootfs"; nil means SystemRoot
	Builtin *Builtin // nil when this program carries none

	answers answers
}

// Dirs joins the directories of the environment's [Env] and of --release-dir,
// in the order in which they are searched.
func Dirs(env string, flags []string) []string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(env), flags...) {
		if dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Passed is a place that was looked at and did not do.
type Passed struct {
	Version string // by whose name it was found; empty: any, of a directory of releases that does not answer
	Path    string
	Reason  error
}

// Silent says that what is there did not answer in time: it may be the version.
func (p Passed) Silent() bool {
	return errors.Is(p.Reason, context.DeadlineExceeded) || errors.Is(p.Reason, errNoTime)
}

// NotFoundError says that a version is not here, what is, and what to do.
type NotFoundError struct {
	Version string
	Have    []string // names of other versions that are here, oldest first
	Passed  []Passed
	dirs    []string
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	if e.silent() {
		fmt.Fprintf(&b, "find etcd %s: what may be it does not answer", e.Version)
	} else {
		fmt.Fprintf(&b, "find etcd %s: it is not on this machine", e.Version)
	}
	if len(e.Have) > 0 {
		fmt.Fprintf(&b, "; here are %s", strings.Join(e.Have, ", "))
	}
	for _, p := range e.Passed {
		fmt.Fprintf(&b, "; %s will not do: %v", p.Path, p.Reason)
	}
	return b.String()
}

// Hint says how to get the version.
func (e *NotFoundError) Hint() string {
	dir := "DIR"
	if len(e.dirs) > 0 {
		dir = e.dirs[0]
	}
	return fmt.Sprintf("etcdadm download %s fetches it; or unpack the release into %s and name %s with --release-dir or in %s",
		e.Version, filepath.Join(dir, fullName(e.Version)), dir, Env)
}

// Is makes errors.Is(err, fs.ErrNotExist) true, unless something did not answer:
// that may be the version.
func (e *NotFoundError) Is(target error) bool { return target == fs.ErrNotExist && !e.silent() }

func (e *NotFoundError) silent() bool { return slices.ContainsFunc(e.Passed, Passed.Silent) }

// ErrVersion says that a text is no etcd version.
var ErrVersion = errors.New("not an etcd version such as 3.6.16")

var versionForm = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z.-]+)?$`)

// Find returns the first release of a version; a leading "v" is allowed. A
// version that is nowhere is a [*NotFoundError], also when the deadline of ctx is
// over. Each binary that is asked for its version has a deadline of its own within
// ctx, and one that does not answer is passed over.
func (f *Finder) Find(ctx context.Context, version string) (Release, error) {
	version = strings.TrimPrefix(version, "v")
	if !versionForm.MatchString(version) {
		return Release{}, fmt.Errorf("find etcd %q: %w", version, ErrVersion)
	}
	r, passed, err := f.first(ctx, version)
	if err != nil {
		return Release{}, err
	}
	if r != nil {
		return *r, nil
	}
	if f.Builtin != nil && f.Builtin.Version == version {
		return f.builtin(), nil
	}
	have := slices.DeleteFunc(f.here(ctx), func(v string) bool { return v == version }) // only by name
	return Release{}, &NotFoundError{Version: version, Have: have, Passed: passed, dirs: f.Dirs}
}

// first is the first place that holds a version, or what was passed over. A directory that
// does not answer is passed over with all that lies in it, and hides nothing elsewhere.
func (f *Finder) first(ctx context.Context, version string) (*Release, []Passed, error) {
	var passed []Passed
	answers := map[string]bool{} // by directory
	for _, p := range f.places(version) {
		if _, asked := answers[p.holder]; !asked {
			_, err := lookAt(ctx, p.holder, func() ([]os.DirEntry, error) { return os.ReadDir(p.holder) })
			if answers[p.holder] = !silent(err); silent(err) {
				passed = append(passed, Passed{Path: p.holder, Reason: err})
			}
		}
		if last, asked := answers[p.release]; !answers[p.holder] || asked && !last {
			continue
		}
		r, err := f.look(ctx, version, p)
		answers[p.release] = !silent(err)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, nil, fmt.Errorf("find etcd %s: %s: %w", version, p.dir, context.Canceled)
		case err != nil:
			passed = append(passed, Passed{Version: version, Path: filepath.Join(p.dir, "etcd"), Reason: err})
		case r != nil:
			return r, nil, nil
		}
	}
	return nil, passed, nil
}

// Genuine holds a program of a release that was downloaded against the sum that was
// written with it, and reads all of it for that, whatever was found before: a file that
// rotted keeps its time and its size. Of others nobody wrote a sum down.
func (f *Finder) Genuine(program string) error {
	if f.Builtin != nil && program == f.Builtin.Path {
		return nil
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	if err := verify(real); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}

// List returns every release that can be found by a name, oldest name first; of
// one name the release that Find returns. What will not do is in passed, and so is
// what did not answer, or was not asked before the deadline of ctx was over. An
// error is that ctx was cancelled.
func (f *Finder) List(ctx context.Context) (releases []Release, passed []Passed, err error) {
	versions, passed := f.labels(ctx)
	for _, version := range versions {
		r, err := f.Find(ctx, version)
		var missing *NotFoundError
		switch {
		case err == nil:
			releases = append(releases, r)
		case errors.As(err, &missing):
			for _, p := range missing.Passed {
				if p.Version != "" { // the others are told already, once for all versions
					passed = append(passed, p)
				}
			}
		default:
			return nil, nil, err
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, nil, fmt.Errorf("list releases of etcd: %w", context.Canceled)
	}
	return releases, passed, nil
}

func (f *Finder) builtin() Release {
	b := f.Builtin
	r := Release{
		Asked: b.Version, Version: b.Version, Builtin: true,
		Etcd: b.Path, Args: slices.Clone(b.Args),
	}
	if len(b.UtlArgs) > 0 {
		r.Etcdutl, r.EtcdutlArgs = b.Path, slices.Clone(b.UtlArgs)
	}
	return r
}

// look asks the release in a place, whose name says asked; nil: there is none.
func (f *Finder) look(ctx context.Context, asked string, p place) (*Release, error) {
	within := share(ctx)
	r, err := lookAt(ctx, p.release, func() (*examined, error) { return f.examine(asked, p.dir) })
	if r == nil || err != nil {
		return nil, err
	}
	actual, err := f.answers.version(ctx, r.Etcd, r.key, within)
	if err != nil {
		return nil, err
	}
	if !stands(asked, actual) {
		return nil, fmt.Errorf("it is etcd %s", actual)
	}
	r.Version = actual
	return &r.Release, nil
}

// examine reads what there is in a directory; nil: no etcd.
func (f *Finder) examine(asked, dir string) (r *examined, err error) {
	r = &examined{Release: Release{Asked: asked, Dir: dir, Etcd: filepath.Join(dir, "etcd")}}
	if found, err := findProgram(r.Etcd); !found || err != nil {
		return nil, err
	}
	if r.key, err = f.answers.verify(r.Etcd); err != nil {
		return nil, err
	}
	for name, to := range map[string]*string{"etcdctl": &r.Etcdctl, "etcdutl": &r.Etcdutl} {
		path := filepath.Join(dir, name)
		if found, err := findProgram(path); found && err == nil {
			if _, err := f.answers.verify(path); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			*to = path
		}
	}
	return r, nil
}

// An examined release has not told its version.
type examined struct {
	Release
	key file
}

// stands says whether a binary of one version may lie under the name of
// another: the same, or a newer patch of the same minor.
func stands(name, actual string) bool {
	n, a := parse(name), parse(actual)
	return name == actual || n[0] == a[0] && n[1] == a[1] && a[2] > n[2]
}

// findProgram says whether there is a program. Something there that cannot be
// run, or a place that cannot be looked at, is an error.
func findProgram(path string) (found bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return false, nil // DIR/etcd is as good a name for a directory
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return false, errors.New("it is no program that can be run")
	}
	return true, nil
}

// fullName is the name under which etcd publishes a release.
func fullName(version string) string {
	return "etcd-v" + version + "-" + goruntime.GOOS + "-" + goruntime.GOARCH
}

// names are the directory names that a version may have in a directory of
// releases, best first.
func names(version string) []string {
	return []string{fullName(version), "etcd-v" + version, "v" + version, version}
}
