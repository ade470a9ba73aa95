package backups

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/teststore"
)

// The control folder and discovery are in an object store: a cluster forms and grows. The store dies: etcd goes on, a member
// that crashes and a daemon that starts come back without it, and what needs it waits and says so. It comes back, hangs for a
// while, and comes back again: what was asked for is done.
func TestObjectStore(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Store: "s3://" + teststore.Bucket + "/clusters/main", Env: []string{
		"S3_ENDPOINT=" + server.URL, "S3_REGION=" + teststore.Region,
		"S3_ACCESS_KEY_ID=" + teststore.AccessKey, "S3_SECRET_ACCESS_KEY=" + teststore.SecretKey,
	}})
	c.Configure(1)
	c.Start(1, 2, 3)
	c.Members(rig.Soon, 1)
	w := c.Write()
	c.Configure(3)
	c.Voters(rig.Soon, 1, 2, 3)
	if r := c.Ctl("--backup-store="+c.StoreURL(), "get"); r.Code != 0 || !strings.Contains(r.Stdout, "member_count:3") {
		t.Error(r)
	}
	if r := c.Etcdadm("seed", c.StoreURL()); r.Code != 0 {
		t.Error(r)
	}

	server.Kill()
	c.Blocked(c.Host(1), "nothing listens at the store's address")
	c.Host(2).KillEtcd()
	c.Host(3).Crash()
	c.Host(3).Start()
	c.Voters(rig.Soon, 1, 2, 3)
	w.WaitFor(10)
	r := c.Ctl("--backup-store="+c.StoreURL(), "--member-count=1", "--etcd-version="+c.Options.Version, "configure-cluster")
	if r.Code == 0 || !strings.Contains(r.Stderr, "nothing listens") || strings.Contains(r.Stderr, teststore.SecretKey) {
		t.Errorf("a spec without a store: %s", r)
	}

	if err := server.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Configure(1)
	on := c.Members(90*time.Second, 1)
	if err := server.Hang(); err != nil {
		t.Fatal(err)
	}
	c.Blocked(c.Host(on[0]), "did not answer in time")
	w.WaitFor(10)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	c.Configure(3)
	c.Voters(90*time.Second, 1, 2, 3)
	w.Check()
	for _, h := range c.Hosts {
		h.Never(teststore.SecretKey)
	}
}
