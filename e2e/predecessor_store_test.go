package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// A backup store that etcd-manager wrote is restored from, with the commands
// that its users know: on fresh hosts, with the release that the store asks for.
func TestStoreOfThePredecessor(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3, version: testetcd.V35})
	c.unpackPredecessor()
	r := c.ctl("--backup-store="+c.storeURL(), "list-backups")
	for _, name := range []string{"2026-11-20T23:13:17Z-000001", predecessorsBackup, "2026-11-20T23:16:18Z-000003", "2026-11-20T23:17:49Z-000001", "2026-11-20T23:21:17Z-000001"} {
		if !strings.Contains(r.stdout, name+"\n") {
			t.Errorf("backup %s is not listed: %s", name, r)
		}
	}
	if r := c.ctl("--backup-store="+c.storeURL(), "get"); !strings.Contains(r.stdout, `member_count:3 etcd_version:"3.5.35"`) {
		t.Errorf("%s", r)
	}
	if r := c.backups("verify", predecessorsBackup); r.code != 0 {
		t.Errorf("%s", r)
	}
	c.start(1, 2, 3)
	c.blocked(c.host(1), "written by kubernetes-sigs/etcd-manager", "etcdadm restore 2026-11-20T23:21:17Z-000001")
	began := time.Now()
	command := c.restoreByCtl(predecessorsBackup)
	c.takesWrites()
	t.Logf("served %s after the command", time.Since(began).Round(time.Millisecond))
	c.generation(1, 1, 2, 3)
	c.ended(command, "done")
	w := c.write()
	status, err := c.etcd().Status(t.Context(), c.host(1).clientURL())
	if err != nil || status.Version != testetcd.V35 {
		t.Errorf("etcd %+v runs, want %s (%v)", status, testetcd.V35, err)
	}
	all, err := c.etcd().Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil || all.Count < 5001 {
		t.Errorf("%+v keys are there, want at least 5001 (%v)", all, err)
	}
	leased, err := c.etcd().Get(t.Context(), "/leased")
	if err != nil || leased.Count != 1 || leased.Kvs[0].Lease == 0 {
		t.Errorf("the leased key is %+v (%v)", leased, err)
	}
	c.keepsTheFormat(c.takeBackup())
	w.check()
}

const predecessorsBackup = "2026-11-20T23:14:17Z-000001"

// unpackPredecessor puts the predecessor's store into this cluster's place.
func (c *testCluster) unpackPredecessor() {
	c.t.Helper()
	if err := os.MkdirAll(c.store, 0o700); err != nil {
		c.t.Fatal(err)
	}
	packed := filepath.Join("..", "internal", "backupstore", "testdata", "etcd-manager-store-3.5.35.tar.gz")
	if out, err := exec.CommandContext(c.t.Context(), "tar", "-xzf", packed, "-C", c.store, "--strip-components=1").CombinedOutput(); err != nil {
		c.t.Fatalf("unpack %s: %v: %s", packed, err, out)
	}
}
