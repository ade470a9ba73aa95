// Package teststore gives tests real object stores on loopback: versitygw and gofakes3 (S3), fake-gcs-server (Google Cloud
// Storage) and azurite (Azure Blob Storage).
//
// Two things hold. A server is built at most once per machine: the cache lies outside of the checkout, is filled under a file
// lock and changes only by rename, so what is there is complete. And a server never outlives its test: it is ended by pid at
// cleanup, and on Linux by the kernel should the test process be killed before.
package teststore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testetcd"
)

// The programs that can be fetched, each with a directory under modules/ that pins it.
const (
	Versitygw     = "versitygw"
	Gofakes3      = "gofakes3"
	FakeGCSServer = "fake-gcs-server"
	Azurite       = "azurite"
)

// ErrNoNode says that azurite needs node and npm, and that this machine lacks one of them.
var ErrNoNode = errors.New("azurite needs node and npm, and this machine does not have both")

// buildDeadline bounds the build of one program, from cold caches.
const buildDeadline = 10 * time.Minute

// offlineEnv set to 1 makes tests whose server cannot be built skip.
const offlineEnv = "ETCDADM_TEST_OFFLINE"

type program struct {
	name    string
	version string
	pkg     string // of the Go program; empty: an npm package
}

var programs = []program{
	{Versitygw, "v1.8.0", "github.com/versity/versitygw/cmd/versitygw"},
	{Gofakes3, "v1.2.0", "github.com/johannesboyne/gofakes3/cmd/gofakes3"},
	{FakeGCSServer, "v1.56.1", "github.com/fsouza/fake-gcs-server"},
	{Azurite, "3.37.0", ""},
}

// Programs lists what can be fetched.
func Programs() []string {
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
	}
	return names
}

// Fetch returns the path of a program, building it when this machine does not have it yet. Errors: ErrNoNode.
func Fetch(ctx context.Context, name string) (string, error) {
	i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
	if i < 0 {
		return "", fmt.Errorf("fetch %s: no such test server; there are %s", name, strings.Join(Programs(), ", "))
	}
	path, err := programs[i].fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s %s: %w", name, programs[i].version, err)
	}
	return path, nil
}

func (p program) fetch(ctx context.Context) (string, error) {
	releases, err := testetcd.CacheDir()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(filepath.Dir(releases), "test-stores")
	place := filepath.Join(cache, fmt.Sprintf("%s-%s-%s-%s", p.name, p.version, runtime.GOOS, runtime.GOARCH))
	file := filepath.Join(place, p.name)
	if p.pkg == "" {
		file = filepath.Join(place, "node_modules", ".bin", "azurite-blob")
		for _, needed := range []string{"node", "npm"} {
			if _, err := exec.LookPath(needed); err != nil {
				return "", ErrNoNode
			}
		}
	}
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	unlock, err := lockFile(ctx, filepath.Join(cache, "."+filepath.Base(place)+".lock"))
	if err != nil {
		return "", fmt.Errorf("wait for another build: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil { // built by whoever held the lock
		return file, nil
	}
	return file, p.build(ctx, place)
}

// build makes the program's directory beside its place and renames it there.
func (p program) build(ctx context.Context, place string) error {
	source, err := moduleDir(ctx, p.name)
	if err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(place), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if p.pkg != "" {
		err = run(ctx, source, "go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags", "-s -w",
			"-o", filepath.Join(fresh, p.name), p.pkg)
	} else {
		err = p.install(ctx, source, fresh)
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(place); err == nil { // incomplete: out of the way first
		if err := os.Rename(place, fresh+".incomplete"); err != nil {
			return err
		}
	}
	return os.Rename(fresh, place)
}

// install has npm fetch exactly what the lock file says, and run none of its scripts.
func (p program) install(ctx context.Context, source, fresh string) error {
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(fresh, name), data, 0o644); err != nil {
			return err
		}
	}
	return run(ctx, fresh, "npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error")
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(testenv.Outside(), "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH) // cgo as in the tests: what both compile is compiled once
	cmd.WaitDelay = 5 * time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, errors.Join(err, ctx.Err()), bytes.TrimSpace(said))
	}
	return nil
}

// moduleDir finds the directory that pins a program. The path that the compiler recorded is right except under -trimpath; then
// the go command knows.
func moduleDir(ctx context.Context, name string) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dir := filepath.Join(filepath.Dir(file), "modules", name)
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	said, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(said))), "internal", "teststore", "modules", name), nil
}

// lockFile takes an exclusive lock across processes; the kernel releases it with this process. flock cannot wait for a context,
// so it is asked for every 100 ms.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
