package old

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// Between versions 2 and 3 keys are carried over one by one: up from 2.3.8 while
// clients write, and back. What is lost is listed, and taken only by its digest.
func TestOldKeysCarriedOver(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	testetcd.Binary(t, testetcd.V32)
	for name, kill := range map[string]bool{"undisturbed": false, "leading daemon killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V23})
			c.Configure(3)
			c.Start(1, 2, 3)
			c.V2Voters(rig.Soon, 1, 2, 3)
			up(c, kill)
			back(c, kill)
		})
	}
}

func up(c *rig.Cluster, kill bool) {
	t := c.T
	t.Helper()
	if _, err := c.Host(1).V2(t.Context(), http.MethodPut, "/v2/keys/expiring", url.Values{"value": {"soon"}, "ttl": {"5000"}}); err != nil {
		t.Fatal(err)
	}
	w := c.V2Write()
	c.Options.Version = testetcd.V32
	if r := c.Upgrade(c.Host(1), testetcd.V32); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "--accept-outage") {
		t.Errorf("without a word for the outage: %s", r)
	}
	c.Disturbed(kill, func() {
		if !kill { // the predecessor's command is a word for the outage itself
			c.Configure(3)
		} else if r := c.Upgrade(c.Host(1), testetcd.V32, "--accept-outage", "--wait=110s"); r.Code != cli.ExitOK {
			t.Errorf("%s", r)
		}
		c.Runs(3*time.Minute, 1, 2, 3)
	})
	w.End()
	c.Voters(rig.Soon, 1, 2, 3)
	client := c.NewClient()
	defer client.Close()
	found := map[string]*clientv3.GetResponse{}
	rig.Eventually(t, rig.Soon, "reading all keys", func(ctx context.Context) (err error) {
		found["all"], err = client.Get(ctx, "/", clientv3.WithPrefix())
		return err
	})
	values, lease := map[string]string{}, clientv3.LeaseID(0)
	for _, kv := range found["all"].Kvs {
		values[string(kv.Key)] = string(kv.Value)
		if string(kv.Key) == "/expiring" {
			lease = clientv3.LeaseID(kv.Lease)
		}
	}
	lost := 0
	for key, value := range w.Acked {
		if values[key] != value {
			lost++
		}
	}
	if lost > 0 || values["/expiring"] != "soon" {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.Acked))
	}
	t.Logf("%d acknowledged writes are there", len(w.Acked))
	if ttl, err := client.TimeToLive(t.Context(), lease); err != nil || ttl.TTL <= 4000 || ttl.TTL > 5000 {
		t.Errorf("the TTL became %+v (%v)", ttl, err)
	}
}

func back(c *rig.Cluster, kill bool) {
	t := c.T
	t.Helper()
	w := c.WriteUnder("/written-later/")
	w.WaitFor(50)
	c.Options.Version = testetcd.V23
	if r := c.Upgrade(c.Host(1), testetcd.V23, "--accept-outage", "--accept-loss"); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "does not exist yet") {
		t.Errorf("a list was accepted that nobody made: %s", r)
	}
	if r := c.Upgrade(c.Host(1), testetcd.V23, "--accept-outage", "--wait=100s"); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "1 leases") || !strings.Contains(r.Stderr, "--accept-loss=") {
		t.Fatalf("a lease was lost without a word: %s", r)
	}
	if r := c.Upgrade(c.Host(1), testetcd.V23, "--dry-run"); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "leases: 1 ") || !strings.Contains(r.Stdout, "digest") {
		t.Errorf("%s", r)
	}
	w.WaitFor(10) // nothing was stopped
	c.Disturbed(kill, func() {
		if r := c.Upgrade(c.Host(1), testetcd.V23, "--accept-outage", "--accept-loss", "--wait=110s"); r.Code != cli.ExitOK {
			t.Errorf("%s", r)
		}
		c.V2Voters(3*time.Minute, 1, 2, 3)
	})
	w.End()
	if in := c.Intent(); in.Generation != 3 || in.Source.Accept == "" || in.Source.Kind != cluster.SourceHalted {
		t.Errorf("the intent is of generation %d, made from %+v", in.Generation, in.Source)
	}
	lost := 0
	for key, value := range w.Acked {
		said, err := c.Host(1).V2(t.Context(), http.MethodGet, "/v2/keys"+key, nil)
		if err != nil || said.Node.Value != value {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.Acked))
	}
	t.Logf("%d acknowledged writes are there", len(w.Acked))
	said, err := c.Host(2).V2(t.Context(), http.MethodGet, "/v2/keys/expiring?quorum=true", nil)
	if err != nil || said.Node.Value != "soon" || said.Node.TTL <= 3000 || said.Node.TTL > 5000 {
		t.Errorf("the lease became %+v (%v)", said.Node, err)
	}
}
