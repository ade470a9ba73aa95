// Package testenv makes tests independent of who runs them: what a test says must not
// depend on the home directory, the proxies, the credentials or the settings of etcd and
// etcdadm that lie in the environment of a person or of a CI.
//
// It works by being imported. In a test program, before anything else has looked, the
// environment is reduced to what names programs and temporary files, what steers Go, and
// what steers the tests and the children that they make of themselves (ETCDADM_TEST_*,
// ETCDADM_E2E_*, TEST_*); HOME is a directory that is not there. Programs that a test
// starts inherit that. What fetches and compiles asks for the environment as it was
// ([Outside]): there the proxies are needed.
package testenv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cleaned marks the environment of a process whose test has reduced it already: what
// the test adds for a child is for the child.
const cleaned = "ETCDADM_TEST_CLEANED"

// nowhere is the home of those who have none.
const nowhere = "/nonexistent"

var (
	kept     = []string{"PATH", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "CC", "CXX"}
	prefixes = []string{"GO", "TEST_", "CGO_", "ETCDADM_TEST_", "ETCDADM_E2E_", "ETCDADM_PREDECESSOR_"}
	outside  = os.Environ()
)

func init() {
	if testing.Testing() && os.Getenv(cleaned) == "" {
		reduce()
	}
}

// Outside is the environment that the test program was started with.
func Outside() []string { return slices.Clone(outside) }

func reduce() {
	// These are found by HOME, and are the same for every test of a machine.
	places := map[string]string{}
	if dir, err := os.UserCacheDir(); err == nil {
		places["XDG_CACHE_HOME"] = dir
		places["GOCACHE"] = filepath.Join(dir, "go-build")
	}
	if dir, err := os.UserHomeDir(); err == nil {
		places["GOPATH"] = filepath.Join(dir, "go")
	}
	if dir, err := os.UserConfigDir(); err == nil {
		places["GOENV"] = filepath.Join(dir, "go", "env")
	}
	for _, pair := range outside {
		if name, _, _ := strings.Cut(pair, "="); !isKept(name) {
			os.Unsetenv(name)
		}
	}
	for name, place := range places {
		if os.Getenv(name) == "" {
			os.Setenv(name, place)
		}
	}
	os.Setenv("HOME", nowhere)
	os.Setenv(cleaned, "1")
}

func isKept(name string) bool {
	return slices.Contains(kept, name) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
