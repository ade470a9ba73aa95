package backups

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// A backup store that etcd-manager wrote is restored from, with the commands
// that its users know: on fresh hosts, with the release that the store asks for.
func TestStoreOfThePredecessor(t *testing.T) {
	rig.TakesLong(t, "15 s")
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V35})
	c.UnpackPredecessor()
	r := c.Ctl("--backup-store="+c.StoreURL(), "list-backups")
	for _, name := range []string{"2026-11-20T23:13:17Z-000001", predecessorsBackup, "2026-11-20T23:16:18Z-000003", "2026-11-20T23:17:49Z-000001", "2026-11-20T23:21:17Z-000001"} {
		if !strings.Contains(r.Stdout, name+"\n") {
			t.Errorf("backup %s is not listed: %s", name, r)
		}
	}
	if r := c.Ctl("--backup-store="+c.StoreURL(), "get"); !strings.Contains(r.Stdout, `member_count:3 etcd_version:"3.5.35"`) {
		t.Errorf("%s", r)
	}
	if r := c.Backups("verify", predecessorsBackup); r.Code != 0 {
		t.Errorf("%s", r)
	}
	c.Start(1, 2, 3)
	c.Blocked(c.Host(1), "written by kubernetes-sigs/etcd-manager", "etcdadm restore 2026-11-20T23:21:17Z-000001")
	began := time.Now()
	command := c.RestoreByCtl(predecessorsBackup)
	c.TakesWrites()
	t.Logf("served %s after the command", time.Since(began).Round(time.Millisecond))
	c.Generation(1, 1, 2, 3)
	c.Ended(command, "done")
	w := c.Write()
	status, err := c.Etcd().Status(t.Context(), c.Host(1).ClientURL())
	if err != nil || status.Version != testetcd.V35 {
		t.Errorf("etcd %+v runs, want %s (%v)", status, testetcd.V35, err)
	}
	all, err := c.Etcd().Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil || all.Count < 5001 {
		t.Errorf("%+v keys are there, want at least 5001 (%v)", all, err)
	}
	leased, err := c.Etcd().Get(t.Context(), "/leased")
	if err != nil || leased.Count != 1 || leased.Kvs[0].Lease == 0 {
		t.Errorf("the leased key is %+v (%v)", leased, err)
	}
	c.KeepsTheFormat(c.TakeBackup())
	w.Check()
}

const predecessorsBackup = "2026-11-20T23:14:17Z-000001"
