package e2e

import (
	"testing"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// Etcd 3.4 restores with etcdctl, raises no revisions, and tells no hash without
// credentials: its backups are taken, tried out and restored all the same.
func TestBackupsOfOldEtcd(t *testing.T) {
	if !*long {
		t.Skip("TestBackups is enough for every day: -e2e.long")
	}
	t.Parallel()
	backUpAndRestore(t, testetcd.V34)
}

func backUpAndRestore(t *testing.T, version string) {
	t.Helper()
	c := formed(t, 3, options{version: version})
	w := c.write()
	c.fill("k/", 300)
	w.waitFor(100)
	w.end()
	name := c.takeBackup()
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"verify", name}, {"drill", name, "--release-dir", cache}} {
		if r := c.backups(words...); r.code != cli.ExitOK {
			t.Errorf("%s", r)
		}
	}
	for _, b := range c.listBackups() {
		if b.Name == name && b.Proven != "drilled" {
			t.Errorf("the drill is not kept beside the backup: %+v", b)
		}
	}
	c.fill("later/", 100)
	if r := c.restore(name); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	c.generation(2, 1, 2, 3)
	w.compare(c.etcd())
	if kept, dropped := c.countKeys("k/"), c.countKeys("later/"); kept != 300 || dropped != 0 {
		t.Errorf("there are %d keys of before the backup and %d of after it", kept, dropped)
	}
	c.write().check()
}
