package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// Releases makes a directory of releases for one host alone, with these of the
// cache.
func (h *Host) Releases(versions ...string) (dir string) {
	h.C.T.Helper()
	dir = filepath.Join(h.C.Dir, fmt.Sprintf("releases-%d", h.N))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.C.T.Fatal(err)
	}
	for _, v := range versions {
		h.Install(v)
	}
	h.Flags = append(h.Flags, "--release-dir="+dir)
	return dir
}

// Install puts a release of the cache into the host's own directory.
func (h *Host) Install(version string) {
	h.C.T.Helper()
	from := testetcd.Binary(h.C.T, version).Dir
	if err := os.Symlink(from, filepath.Join(h.C.Dir, fmt.Sprintf("releases-%d", h.N), filepath.Base(from))); err != nil {
		h.C.T.Fatal(err)
	}
}

// LongOnly marks a test as one of the long tier, and parallel.
func LongOnly(t *testing.T) {
	t.Helper()
	if !*Long {
		t.Skip("TestVersions is enough for every day: -e2e.long")
	}
	t.Parallel()
}
