package old

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// A cluster of 2.3 is backed up while clients write, in the predecessor's format; the
// backup is tried out, and restored to 2.3 and, with the losses accepted, to 3.2. A
// backup that etcdctl of 2.3 made is restored, too.
func TestOldV2Backups(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	testetcd.Binary(t, testetcd.V32)
	t.Run("same version", func(t *testing.T) {
		t.Parallel()
		c, name, before := c23(t)
		c.V2Put(c.Host(1), "later", "1")
		if r := c.Restore(name, "--to-version", "2.2.5"); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "nothing was queued") {
			t.Errorf("to a release that does not read it: %s", r)
		}
		if r := c.Restore(append(oldWait, name)...); r.Code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		c.V2Voters(rig.OldWithin, 1, 2, 3)
		got := c.V2Keys(c.Host(2))
		c.Holds("restored", got, before)
		if in := c.Intent(); in.Generation != 2 || in.Source.Kind != cluster.SourceBackup || in.Version.String() != testetcd.V23 || got["/later"] != "" {
			t.Errorf("generation %d of etcd %s, made from %+v; /later is %q", in.Generation, in.Version, in.Source, got["/later"])
		}
		const theirs = "2018-01-01T00:00:00Z-000001"
		c.V2Put(c.Host(1), "theirs", "1")
		c.AsPredecessor(c.Host(1), theirs)
		c.V2Put(c.Host(1), "theirs", "2")
		c.RestoreByCtl(theirs)
		c.Becomes(3)
		c.V2Voters(rig.OldWithin, 1, 2, 3)
		got = c.V2Keys(c.Host(3))
		c.Holds("restored from etcdctl's", got, before)
		if got["/theirs"] != "1" {
			t.Errorf("/theirs is %q", got["/theirs"])
		}
	})
	t.Run("to version 3", func(t *testing.T) {
		t.Parallel()
		c, name, before := c23(t)
		if r := c.Restore(append(oldWait, name, "--to-version", testetcd.V32)...); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stdout, "empty-directory") || !strings.Contains(r.Stdout, "--accept-loss=") {
			t.Fatalf("a directory was lost without a word: %s", r)
		} else if _, digest, ok := strings.Cut(r.Stdout, "--accept-loss="); ok {
			digest, _, _ = strings.Cut(digest, " ")
			c.V2Voters(rig.Soon, 1, 2, 3) // nothing was stopped
			c.Options.Version = testetcd.V32
			if r := c.Restore(append(oldWait, name, "--to-version", testetcd.V32, "--accept-loss", digest)...); r.Code != cli.ExitOK {
				t.Fatalf("%s", r)
			}
		}
		c.Configure(3)
		c.Runs(rig.OldWithin, 1, 2, 3)
		c.Voters(rig.Soon, 1, 2, 3)
		got := c.KeysOfThree()
		c.Holds("carried over", got, before)
	})
}

var oldWait = slices.Clip([]string{"--wait=" + rig.OldWithin.String()})

// c23 is a cluster of 2.3.8 with a backup, and what was acknowledged before that began.
func c23(t *testing.T) (c *rig.Cluster, name string, before map[string]string) {
	t.Helper()
	c = rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V23})
	c.Configure(3)
	c.Start(1, 2, 3)
	c.V2Voters(rig.Soon, 1, 2, 3)
	if _, err := c.Host(1).V2(t.Context(), http.MethodPut, "/v2/keys/empty", url.Values{"dir": {"true"}}); err != nil {
		t.Fatal(err)
	}
	w := c.V2Write()
	before = w.Sofar()
	name = c.TakeBackup()
	w.End()
	if files := c.TarOf(name); !slices.Contains(files, "member/wal") {
		t.Errorf("the tar holds %v", files)
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"verify", name}, {"drill", name, "--release-dir", cache}} {
		if r := c.Backups(words...); r.Code != cli.ExitOK {
			t.Errorf("%s", r)
		}
	}
	for _, b := range c.ListBackups() {
		if b.Name == name && (b.Proven != "drilled" || b.Revision == 0) {
			t.Errorf("it is listed as %+v", b)
		}
	}
	return c, name, before
}
