package e2e

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/teststore"
)

// The control folder and discovery are in an object store: a cluster forms and grows. The store dies: etcd goes on, a member
// that crashes and a daemon that starts come back without it, and what needs it waits and says so. It comes back, hangs for a
// while, and comes back again: what was asked for is done.
func TestObjectStore(t *testing.T) {
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	c := newCluster(t, options{hosts: 3, store: "s3://" + teststore.Bucket + "/clusters/main", env: []string{
		"S3_ENDPOINT=" + server.URL, "S3_REGION=" + teststore.Region,
		"S3_ACCESS_KEY_ID=" + teststore.AccessKey, "S3_SECRET_ACCESS_KEY=" + teststore.SecretKey,
	}})
	c.configure(1)
	c.start(1, 2, 3)
	c.members(soon, 1)
	w := c.write()
	c.configure(3)
	c.voters(soon, 1, 2, 3)
	if r := c.ctl("--backup-store="+c.storeURL(), "get"); r.code != 0 || !strings.Contains(r.stdout, "member_count:3") {
		t.Error(r)
	}
	if r := c.etcdadm("seed", c.storeURL()); r.code != 0 {
		t.Error(r)
	}

	server.Kill()
	c.blocked(c.host(1), "nothing listens at the store's address")
	c.host(2).killEtcd()
	c.host(3).crash()
	c.host(3).start()
	c.voters(soon, 1, 2, 3)
	w.waitFor(10)
	r := c.ctl("--backup-store="+c.storeURL(), "--member-count=1", "--etcd-version="+c.options.version, "configure-cluster")
	if r.code == 0 || !strings.Contains(r.stderr, "nothing listens") || strings.Contains(r.stderr, teststore.SecretKey) {
		t.Errorf("a spec without a store: %s", r)
	}

	if err := server.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.configure(1)
	on := c.members(90*time.Second, 1)
	if err := server.Hang(); err != nil {
		t.Fatal(err)
	}
	c.blocked(c.host(on[0]), "did not answer in time")
	w.waitFor(10)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	c.configure(3)
	c.voters(90*time.Second, 1, 2, 3)
	w.check()
	for _, h := range c.hosts {
		h.never(teststore.SecretKey)
	}
}

// never checks that a daemon has not said something.
func (h *host) never(words string) {
	h.c.t.Helper()
	if strings.Contains(tail(h.log, 1<<20), words) {
		h.c.t.Errorf("the daemon of host %d says %q", h.n, words)
	}
}
