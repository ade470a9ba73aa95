package versions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// With the oldest release that can be rolled: young and idle, so that its logs
// hold what the newest one does not read.
func TestVersionsFromOldEtcd(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V34})
	w := c.Write()
	w.WaitFor(20)
	w.End()
	c.To(testetcd.V37, 1, 2, 3)
	w.Compare(c.Etcd())
	c.Write().Check()
}

// Nobody has written a key yet: etcd 3.5 then leaves in every database that members were
// removed which are there, and the first member of 3.6 would refuse them.
func TestUpgradeOfNeverWrittenCluster(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V34})
	c.To(testetcd.V37, 1, 2, 3)
	mended := 0
	for n := 1; n <= 3; n++ {
		if log, err := os.ReadFile(filepath.Join(c.Host(n).Dir, "logs", "etcd.log")); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(log), "permanently removed") {
			t.Errorf("the etcd of host %d was told that it was removed", n)
		}
		if log, err := os.ReadFile(c.Host(n).Log); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(log), "listed existing members as removed") {
			mended++
		}
	}
	if mended == 0 {
		t.Error("no database had to be mended: this is not the case that is meant")
	}
	w := c.Write()
	w.WaitFor(20)
	w.Check()
	w.NeverBack()
}

// One release line, another patch of it, forth and back.
func TestPatches(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V36Before})
	w := c.Write()
	c.To(testetcd.V36, 1, 2, 3)
	c.To(testetcd.V36Before, 1, 2, 3)
	w.Check()
	w.NeverBack()
}

func TestVersionsWithTLS(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V35, TLS: true})
	w := c.Write()
	c.To(testetcd.V36, 1, 2, 3)
	c.To(testetcd.V35, 1, 2, 3)
	w.Check()
	w.NeverBack()
}

// One voter is kept on the old line until a person says how it goes on: back at
// no cost, or on.
func TestUpgradePauses(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	h := c.Host(1)
	paused := func() {
		t.Helper()
		r := c.Upgrade(h, testetcd.V37, "--pause-before-last", "--wait=3m")
		if r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "the last one stays on "+testetcd.V36) {
			t.Fatalf("%s", r)
		}
		c.Blocked(h, "the last one stays on "+testetcd.V36, "etcdadm upgrade --resume")
		if moved, left := c.Split(testetcd.V37, 1, 2, 3); len(moved) != 2 || len(left) != 1 {
			t.Errorf("%d members run the new version, %d the old one", len(moved), len(left))
		}
		c.Passes(5 * time.Second) // in which the last one does not follow
		if _, left := c.Split(testetcd.V37, 1, 2, 3); len(left) != 1 {
			t.Errorf("%d members are left on the old version", len(left))
		}
	}
	finished := func(version string, words ...string) {
		t.Helper()
		if r := c.Upgrade(h, append(words, "--wait=3m")...); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "every member runs etcd "+version) {
			t.Fatalf("%s", r)
		}
		c.Options.Version = version
		c.Runs(rig.Soon, 1, 2, 3)
	}
	if r := c.Upgrade(h, "--rollback"); r.Code != cli.ExitUnsafe {
		t.Errorf("nothing is under way: %s", r)
	}
	if r := c.Upgrade(h, "--resume"); r.Code != cli.ExitUnsafe {
		t.Errorf("nothing is paused: %s", r)
	}
	paused()
	finished(testetcd.V36, "--rollback")
	paused()
	finished(testetcd.V37, "--resume")
	w.Check()
	w.NeverBack()
}

// What is not installed on every host that needs it is not begun.
func TestVersionNotInstalled(t *testing.T) {
	rig.LongOnly(t)
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V35})
	c.Host(2).Releases(testetcd.V35)
	c.Configure(3)
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	w := c.Write()
	if r := c.Upgrade(c.Host(1), testetcd.V36); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "nothing was changed") || !strings.Contains(r.Stderr, testetcd.V36) {
		t.Errorf("%s", r)
	}
	c.Asks(testetcd.V36, 3)
	c.Blocked(c.Host(1), "the spec asks for "+testetcd.V36, string(c.Host(2).ID())+" has no etcd "+testetcd.V36)
	c.Passes(5 * time.Second)
	for n := range 3 {
		if st, err := c.Status(t.Context(), n+1); err != nil || st.Version != testetcd.V35 {
			t.Errorf("host %d runs %+v (%v)", n+1, st, err)
		}
	}
	c.Host(2).Install(testetcd.V36)
	c.Runs(3*time.Minute, 1, 2, 3)
	w.Check()
	w.NeverBack()
}

// A release that ends at every start on one host is taken back there, is told,
// and is tried again once that host's daemon was restarted.
func TestReleaseDoesNotStart(t *testing.T) {
	rig.LongOnly(t)
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V35})
	good := testetcd.Binary(t, testetcd.V36)
	h := c.Host(2)
	broken := filepath.Join(h.Releases(testetcd.V35), filepath.Base(good.Dir))
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ \"$1\" = --version ] && exec " + good.Etcd + " --version\necho it does not start here >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(broken, "etcd"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Configure(3)
	c.Start(1, 2, 3)
	before := c.Voters(rig.Soon, 1, 2, 3)
	w := c.Write()
	c.Asks(testetcd.V36, 3)
	c.Said(2*time.Minute, "does not start")
	c.Blocked(c.Host(1), "etcd "+testetcd.V36+" did not start on host "+string(h.ID()))
	h.Serves(rig.Soon)
	if st, err := c.Status(t.Context(), 2); err != nil || st.Version != testetcd.V35 {
		t.Errorf("host 2 runs %+v (%v)", st, err)
	}
	if err := os.Rename(broken, broken+"-broken"); err != nil {
		t.Fatal(err)
	}
	h.Install(testetcd.V36)
	h.Kill()
	h.Start()
	c.Runs(3*time.Minute, 1, 2, 3)
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	w.Check()
	w.NeverBack()
}

// The wish is taken back half way: up, and down.
func TestVersionIsTakenBack(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V36})
	w := c.Write()
	before := c.Voters(rig.Soon, 1, 2, 3)
	for _, other := range []string{testetcd.V37, testetcd.V35} {
		c.Asks(other, 3)
		c.Midway(other, 1, 2, 3)
		c.To(testetcd.V36, 1, 2, 3)
	}
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	w.Check()
	w.NeverBack()
}
