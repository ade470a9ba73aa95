// Package testetcd gives tests real etcd: releases built from their Go
// modules, and plain clusters run by hand on loopback.
//
// Two things hold. A release is built at most once per machine: the cache lies
// outside of the checkout, is filled under a file lock and changes only by
// rename, so a directory that is there is complete. And a cluster never
// outlives its test: members are ended by pid at cleanup, and on Linux by the
// kernel should the test process be killed before.
//
// Nothing here knows the code under test; a cluster that this package starts is
// the "by hand" that the project is measured against.
package testetcd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/testenv"
)

// The releases with a module under modules/, newest first.
const (
	V37 = "3.7.3"
	V36 = "3.6.16"
	V35 = "3.5.35"
	// V34 is not among Versions: it is too old for most of what a test asks for,
	// so a test names it. It has no etcdutl.
	V34 = "3.4.25"
	// V36Before is an older patch of the line of V36, for changes of patch; it is not
	// among Versions either.
	V36Before = "3.6.15"
	// The releases before 3.4 have no learners; those of version 2 have no API of
	// version 3, either. A test names them.
	V33 = "3.3.27"
	V32 = "3.2.24"
	V23 = "2.3.8"
	V22 = "2.2.5"
)

// buildDeadline bounds the build of one release, from a cold build cache.
const buildDeadline = 10 * time.Minute

// Environment variables that steer the cache.
const (
	envCache   = "ETCDADM_TEST_CACHE"   // directory of the releases
	envOffline = "ETCDADM_TEST_OFFLINE" // "1": a release that cannot be built skips the test
)

// releases maps a version to its module directory under modules/.
var releases = map[string]string{
	V37: "v3.7",
	V36: "v3.6",
	V35: "v3.5",
	V34: "v3.4",

	V36Before: "v3.6.15",

	V33: "v3.3",
	V32: "v3.2",
	V23: "v2.3",
	V22: "v2.2",
}

// program is a file of a release, with the package that it is built from.
type program struct{ name, pkg string }

// programsOf lists the files of a release.
func programsOf(version string) []program {
	switch version { // one module, in which etcdctl still restored
	case V34:
		return []program{{"etcd", "go.etcd.io/etcd"}, {"etcdctl", "go.etcd.io/etcd/etcdctl"}}
	case V33, V32, V23, V22:
		return []program{{"etcd", "github.com/coreos/etcd"}, {"etcdctl", "github.com/coreos/etcd/etcdctl"}}
	}
	return []program{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"etcdctl", "go.etcd.io/etcd/etcdctl/v3"},
		{"etcdutl", "go.etcd.io/etcd/etcdutl/v3"},
	}
}

// Release is one etcd release on disk. All paths are absolute.
type Release struct {
	Version string
	Dir     string // <cache>/etcd-vV-<os>-<arch>
	Etcd    string
	Etcdctl string
	Etcdutl string // empty before 3.5
}

// Versions lists the releases that every test of all releases runs with, newest
// first.
func Versions() []string { return []string{V37, V36, V35} }

// builtWithin is how long a package's tests wait for builds of releases in all: half of
// what the go command gives a package. On two cores that do nothing else the four that
// the ordinary tests want take three minutes.
const builtWithin = 5 * time.Minute

var (
	waiting sync.Mutex
	waited  time.Duration // for builds, by the tests of this package
)

// Binary returns the release, building it when this machine does not have it
// yet. A build that fails fails the test with the compiler's words; one that a slow
// machine does not end in time skips the test, as does ETCDADM_TEST_OFFLINE=1.
func Binary(t testing.TB, version string) Release {
	t.Helper()
	if cache, err := CacheDir(); err == nil && slices.Contains(Aged(), version) && !releaseIn(cache, version).complete() {
		t.Skipf("SKIPPED, etcd %s is not in the cache: run go run ./internal/testetcd/cmd/fetch %s, and the test again", version, version)
	}
	waiting.Lock()
	defer waiting.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), builtWithin-waited)
	defer cancel()
	began := time.Now()
	r, err := Fetch(ctx, version)
	waited += time.Since(began)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && t.Context().Err() == nil {
			t.Skipf("SKIPPED, real etcd %s was not built within %s on this machine: run go run ./internal/testetcd/cmd/fetch, and the test again: %v", version, builtWithin, err)
		}
		if os.Getenv(envOffline) == "1" {
			t.Skipf("SKIPPED, real etcd %s is missing and %s=1: %v", version, envOffline, err)
		}
		t.Fatalf("real etcd %s (set %s=1 to skip such tests): %v", version, envOffline, err)
	}
	return r
}

// CacheDir is the directory that holds the releases, each in
// etcd-v<version>-<os>-<arch>. It has the layout of a release directory, so it
// can be given to --release-dir as it is.
func CacheDir() (string, error) {
	if dir := os.Getenv(envCache); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache directory (or set %s): %w", envCache, err)
	}
	return filepath.Join(dir, "etcdadm", "test-releases"), nil
}

// Fetch is Binary for callers that are not tests.
func Fetch(ctx context.Context, version string) (Release, error) {
	module, known := releases[version]
	if !known {
		return Release{}, fmt.Errorf("fetch etcd %s: no such test release; there are %s, and a new one needs a directory in internal/testetcd/modules and a line in release.go",
			version, strings.Join(append(Versions(), V36Before, V34, V33, V32, V23, V22), ", "))
	}
	cache, err := CacheDir()
	if err != nil {
		return Release{}, err
	}
	r := releaseIn(cache, version)
	if r.complete() {
		return r, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Release{}, fmt.Errorf("create cache: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	unlock, err := LockFile(ctx, filepath.Join(cache, "."+filepath.Base(r.Dir)+".lock"))
	if err != nil {
		return Release{}, fmt.Errorf("wait for another build of etcd %s: %w", version, err)
	}
	defer unlock()
	if r.complete() { // built by whoever held the lock
		return r, nil
	}
	if err := build(ctx, r, module); err != nil {
		return Release{}, fmt.Errorf("build etcd %s: %w", version, err)
	}
	return r, nil
}

func releaseIn(cache, version string) Release {
	dir := filepath.Join(cache, fmt.Sprintf("etcd-v%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	r := Release{Version: version, Dir: dir}
	places := map[string]*string{"etcd": &r.Etcd, "etcdctl": &r.Etcdctl, "etcdutl": &r.Etcdutl}
	for _, p := range programsOf(version) {
		*places[p.name] = filepath.Join(dir, p.name)
	}
	return r
}

// complete reports whether every program is there. The directory appears by one
// rename, so this is all or nothing unless somebody tidied by hand.
func (r Release) complete() bool {
	for _, p := range programsOf(r.Version) {
		if info, err := os.Stat(filepath.Join(r.Dir, p.name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// build makes the release beside its place and renames it there.
func build(ctx context.Context, r Release, module string) error {
	source, err := moduleDir(ctx, module)
	if err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(r.Dir), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if a, needed := amendments[r.Version]; needed {
		copied, err := os.MkdirTemp(filepath.Dir(r.Dir), ".source-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(copied)
		if err := amended(ctx, source, copied, a); err != nil {
			return err
		}
		source = copied
	}
	for _, p := range programsOf(r.Version) {
		out := filepath.Join(fresh, p.name)
		if err := goBuild(ctx, source, out, p.pkg); err != nil {
			return err
		}
	}
	if err := checkVersion(ctx, filepath.Join(fresh, "etcd"), r.Version); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(r.Dir); err == nil { // incomplete: out of the way first
		aside := fresh + ".incomplete"
		if err := os.Rename(r.Dir, aside); err != nil {
			return err
		}
	}
	return os.Rename(fresh, r.Dir)
}

// goBuild compiles one program of the module in source, exactly as its go.mod
// and go.sum say.
func goBuild(ctx context.Context, source, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false",
		"-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = source
	cmd.Env = buildEnvironment()
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, errors.Join(err, ctx.Err()), bytes.TrimSpace(said))
	}
	return nil
}

func buildEnvironment() []string {
	return append(testenv.Outside(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// checkVersion runs the program, so that a pin that names another release than
// its directory is found here and not in some test.
func checkVersion(ctx context.Context, etcd, version string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, etcd, "--version").Output()
	if err != nil {
		return fmt.Errorf("run etcd --version: %w", err)
	}
	if !slices.Contains(strings.Fields(string(said)), version) {
		return fmt.Errorf("the built etcd is not %s, it says %q", version, strings.TrimSpace(string(said)))
	}
	return nil
}

// moduleDir finds this package's source. The path that the compiler recorded is
// right except under -trimpath; then the go command knows.
func moduleDir(ctx context.Context, module string) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dir := filepath.Join(filepath.Dir(file), "modules", module)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	said, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(said))), "internal", "testetcd", "modules", module)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("find the module of the release: %w", err)
	}
	return dir, nil
}

// SideBySide has a package run n tests beside each other, unless whoever runs it says
// otherwise: most of what they do is wait for etcd. It is called before the tests run.
func SideBySide(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if f := flag.Lookup("test.parallel"); f != nil && !given {
		_ = f.Value.Set(strconv.Itoa(n)) // a number always fits
	}
}
