package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// releases makes a directory of releases for one host alone, with these of the
// cache.
func (h *host) releases(versions ...string) (dir string) {
	h.c.t.Helper()
	dir = filepath.Join(h.c.dir, fmt.Sprintf("releases-%d", h.n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.c.t.Fatal(err)
	}
	for _, v := range versions {
		h.install(v)
	}
	h.flags = append(h.flags, "--release-dir="+dir)
	return dir
}

// install puts a release of the cache into the host's own directory.
func (h *host) install(version string) {
	h.c.t.Helper()
	from := testetcd.Binary(h.c.t, version).Dir
	if err := os.Symlink(from, filepath.Join(h.c.dir, fmt.Sprintf("releases-%d", h.n), filepath.Base(from))); err != nil {
		h.c.t.Fatal(err)
	}
}

// With the oldest release that can be rolled: young and idle, so that its logs
// hold what the newest one does not read.
func TestVersionsFromOldEtcd(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{version: testetcd.V34})
	w := c.write()
	w.waitFor(20)
	w.end()
	c.to(testetcd.V37, 1, 2, 3)
	w.compare(c.etcd())
	c.write().check()
}

// Nobody has written a key yet: etcd 3.5 then leaves in every database that members were
// removed which are there, and the first member of 3.6 would refuse them.
func TestUpgradeOfNeverWrittenCluster(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{version: testetcd.V34})
	c.to(testetcd.V37, 1, 2, 3)
	mended := 0
	for n := 1; n <= 3; n++ {
		if log, err := os.ReadFile(filepath.Join(c.host(n).dir, "logs", "etcd.log")); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(log), "permanently removed") {
			t.Errorf("the etcd of host %d was told that it was removed", n)
		}
		if log, err := os.ReadFile(c.host(n).log); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(log), "members were removed which are there") {
			mended++
		}
	}
	if mended == 0 {
		t.Error("no database had to be mended: this is not the case that is meant")
	}
	w := c.write()
	w.waitFor(20)
	w.check()
	w.neverBack()
}

// One release line, another patch of it, forth and back.
func TestPatches(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{version: testetcd.V36Before})
	w := c.write()
	c.to(testetcd.V36, 1, 2, 3)
	c.to(testetcd.V36Before, 1, 2, 3)
	w.check()
	w.neverBack()
}

func TestVersionsWithTLS(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{version: testetcd.V35, tls: true})
	w := c.write()
	c.to(testetcd.V36, 1, 2, 3)
	c.to(testetcd.V35, 1, 2, 3)
	w.check()
	w.neverBack()
}

// One voter is kept on the old line until a person says how it goes on: back at
// no cost, or on.
func TestUpgradePauses(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{})
	w := c.write()
	h := c.host(1)
	paused := func() {
		t.Helper()
		r := c.upgrade(h, testetcd.V37, "--pause-before-last", "--wait=3m")
		if r.code != cli.ExitOK || !strings.Contains(r.stdout, "the last one is kept on "+testetcd.V36) {
			t.Fatalf("%s", r)
		}
		c.blocked(h, "the last one is kept on "+testetcd.V36, "etcdadm upgrade --resume")
		if moved, left := c.split(testetcd.V37, 1, 2, 3); len(moved) != 2 || len(left) != 1 {
			t.Errorf("%d members run the new version, %d the old one", len(moved), len(left))
		}
		c.passes(5 * time.Second) // in which the last one does not follow
		if _, left := c.split(testetcd.V37, 1, 2, 3); len(left) != 1 {
			t.Errorf("%d members are left on the old version", len(left))
		}
	}
	finished := func(version string, words ...string) {
		t.Helper()
		if r := c.upgrade(h, append(words, "--wait=3m")...); r.code != cli.ExitOK || !strings.Contains(r.stdout, "every member runs etcd "+version) {
			t.Fatalf("%s", r)
		}
		c.options.version = version
		c.runs(soon, 1, 2, 3)
	}
	if r := c.upgrade(h, "--rollback"); r.code != cli.ExitUnsafe {
		t.Errorf("nothing is under way: %s", r)
	}
	if r := c.upgrade(h, "--resume"); r.code != cli.ExitUnsafe {
		t.Errorf("nothing is paused: %s", r)
	}
	paused()
	finished(testetcd.V36, "--rollback")
	paused()
	finished(testetcd.V37, "--resume")
	w.check()
	w.neverBack()
}

// What is not installed on every host that needs it is not begun.
func TestVersionNotInstalled(t *testing.T) {
	longOnly(t)
	c := newCluster(t, options{hosts: 3, version: testetcd.V35})
	c.host(2).releases(testetcd.V35)
	c.configure(3)
	c.start(1, 2, 3)
	c.voters(soon, 1, 2, 3)
	w := c.write()
	if r := c.upgrade(c.host(1), testetcd.V36); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "nothing was changed") || !strings.Contains(r.stderr, testetcd.V36) {
		t.Errorf("%s", r)
	}
	c.asks(testetcd.V36, 3)
	c.blocked(c.host(1), "the spec asks for "+testetcd.V36, "on "+string(c.host(2).id()))
	c.passes(5 * time.Second)
	for n := range 3 {
		if st, err := c.status(t.Context(), n+1); err != nil || st.Version != testetcd.V35 {
			t.Errorf("host %d runs %+v (%v)", n+1, st, err)
		}
	}
	c.host(2).install(testetcd.V36)
	c.runs(3*time.Minute, 1, 2, 3)
	w.check()
	w.neverBack()
}

// A release that ends at every start on one host is taken back there, is told,
// and is tried again once that host's daemon was restarted.
func TestReleaseDoesNotStart(t *testing.T) {
	longOnly(t)
	c := newCluster(t, options{hosts: 3, version: testetcd.V35})
	good := testetcd.Binary(t, testetcd.V36)
	h := c.host(2)
	broken := filepath.Join(h.releases(testetcd.V35), filepath.Base(good.Dir))
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ \"$1\" = --version ] && exec " + good.Etcd + " --version\necho it does not start here >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(broken, "etcd"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c.configure(3)
	c.start(1, 2, 3)
	before := c.voters(soon, 1, 2, 3)
	w := c.write()
	c.asks(testetcd.V36, 3)
	c.said(2*time.Minute, "does not start")
	c.blocked(c.host(1), "etcd "+testetcd.V36+" did not start on host "+string(h.id()))
	h.serves(soon)
	if st, err := c.status(t.Context(), 2); err != nil || st.Version != testetcd.V35 {
		t.Errorf("host 2 runs %+v (%v)", st, err)
	}
	if err := os.Rename(broken, broken+"-broken"); err != nil {
		t.Fatal(err)
	}
	h.install(testetcd.V36)
	h.kill()
	h.start()
	c.runs(3*time.Minute, 1, 2, 3)
	same(t, before, c.voters(soon, 1, 2, 3))
	w.check()
	w.neverBack()
}

// The wish is taken back half way: up, and down.
func TestVersionIsTakenBack(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{version: testetcd.V36})
	w := c.write()
	before := c.voters(soon, 1, 2, 3)
	for _, other := range []string{testetcd.V37, testetcd.V35} {
		c.asks(other, 3)
		c.midway(other, 1, 2, 3)
		c.to(testetcd.V36, 1, 2, 3)
	}
	same(t, before, c.voters(soon, 1, 2, 3))
	w.check()
	w.neverBack()
}

// longOnly marks a test as one of the long tier, and parallel.
func longOnly(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("TestVersions is enough for every day: -e2e.long")
	}
	t.Parallel()
}
