package rig

import (
	"testing"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

func BackUpAndRestore(t *testing.T, version string) {
	t.Helper()
	c := Formed(t, 3, Options{Version: version})
	w := c.Write()
	c.Fill("k/", 300)
	w.WaitFor(100)
	w.End()
	name := c.TakeBackup()
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
		if b.Name == name && b.Proven != "drilled" {
			t.Errorf("the drill is not kept beside the backup: %+v", b)
		}
	}
	c.Fill("later/", 100)
	if r := c.Restore(name); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	c.Generation(2, 1, 2, 3)
	w.Compare(c.Etcd())
	if kept, dropped := c.CountKeys("k/"), c.CountKeys("later/"); kept != 300 || dropped != 0 {
		t.Errorf("there are %d keys of before the backup and %d of after it", kept, dropped)
	}
	c.Write().Check()
}
