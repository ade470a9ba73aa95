package old

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// Thousands of keys with TTLs of seconds, renewed up to the halt, keep nothing from going
// on: neither do they change the list that was accepted, nor end the copy. What lasts is
// all there, and what is left of the others runs out then.
func TestOldKeysThatRunOut(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	t.Parallel()
	testetcd.Binary(t, testetcd.V32)
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V23})
	c.Configure(3)
	c.Start(1, 2, 3)
	c.V2Voters(rig.Soon, 1, 2, 3)
	w, leases := c.V2Write(), c.V2Renew(4000)
	c.Options.Version = testetcd.V32
	r := c.Upgrade(c.Host(1), testetcd.V32, "--accept-outage", "--wait=100s")
	if r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "empty-directory") || !strings.Contains(r.Stderr, "--accept-loss=") {
		t.Fatalf("directories were lost without a word: %s", r)
	}
	_, digest, _ := strings.Cut(r.Stderr, "--accept-loss=")
	digest, _, _ = strings.Cut(digest, " ")
	if r := c.Upgrade(c.Host(1), testetcd.V32, "--accept-outage", "--accept-loss="+strings.TrimSpace(digest), "--wait=4m"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Runs(rig.OldWithin, 1, 2, 3)
	w.End()
	leases.End()
	c.Voters(rig.Soon, 1, 2, 3)
	got := c.KeysOfThree()
	client := c.NewClient()
	defer client.Close()
	c.Holds("after keys ran out", got, w.Sofar())
	left := 0
	for key, value := range leases.Sofar() {
		switch {
		case got[key] == value:
			left++
		case got[key] != "":
			t.Errorf("%s is %q", key, got[key])
		}
	}
	t.Logf("%d of 4000 keys with TTLs are there yet", left)
	rig.Eventually(t, time.Minute, "end of the leases", func(ctx context.Context) error {
		said, err := client.Get(ctx, "/lease/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && said.Count > 0 {
			err = fmt.Errorf("%d keys are left", said.Count)
		}
		return err
	})
}
