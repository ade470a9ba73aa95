package restore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// Clients hold watches and leases while the cluster is restored under them. The
// leases of the backup live on by the stream that was open, and end with it; the
// ones of after it are told to be gone. Watches end with an error; no revision
// goes back, none is given a second time to another value, and a copy that is kept by
// watches is the same as what is there.
func TestClientsAcrossARestore(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	const ttl = 20
	c := rig.Formed(t, 3, rig.Options{})
	h := &rig.Revisions{T: t, Seen: map[int64]string{}}
	mirrors := make([]*rig.Mirror, 3)
	for i := range mirrors {
		mirrors[i] = &rig.Mirror{Prefix: "m/", History: h}
		c.During(func(ctx context.Context, client *clientv3.Client) {
			mirrors[i].Client = client
			mirrors[i].Run(ctx)
		})
	}
	stopWriting := c.During(rig.Rewrites(h, "m/"))
	kept, stop := c.KeepAlive("/kept", ttl)
	p := c.Poll()
	name := c.TakeBackup()
	dropped, _ := c.KeepAlive("/dropped", ttl)
	c.Passes(2 * time.Second) // what is written now is dropped
	highest := mirrors[0].Seen()

	if r := c.Restore(name); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Generation(2, 1, 2, 3)
	p.Reaches(highest + 1_000_000_000)
	kept.More(t, 2)
	select {
	case <-dropped.Ended:
	case <-time.After(rig.Soon):
		t.Error("a lease that was granted after the backup is kept alive")
	}
	c.Passes(2 * time.Second)
	stopWriting()
	if _, err := c.Etcd().Put(t.Context(), "m/last", "one"); err != nil {
		t.Fatal(err)
	}
	for i, m := range mirrors {
		rig.Eventually(t, rig.Soon, fmt.Sprintf("copy %d is what is there", i), func(ctx context.Context) error {
			got, err := c.Etcd().Get(ctx, "m/", clientv3.WithPrefix())
			if err != nil {
				return err
			}
			keys := map[string]string{}
			for _, kv := range got.Kvs {
				keys[string(kv.Key)] = string(kv.Value)
			}
			return m.Is(keys)
		})
		if m.Seen() < highest+1_000_000_000 {
			t.Errorf("copy %d is at revision %d, and the restore began above %d", i, m.Seen(), highest)
		}
		// By a compaction, or by a member that is a learner yet and turns it away.
		if m.Lists.Load() < 2 {
			t.Errorf("copy %d was never told to list again", i)
		}
		t.Logf("copy %d was listed %d times, and its watches ended by a compaction %d times", i, m.Lists.Load(), m.Compacted.Load())
	}
	h.Mu.Lock()
	t.Logf("%d writes were seen", len(h.Seen))
	h.Mu.Unlock()

	left, err := c.Etcd().TimeToLive(t.Context(), kept.ID, clientv3.WithAttachedKeys())
	if err != nil || left.GrantedTTL != ttl || left.TTL > ttl || len(left.Keys) != 1 {
		t.Errorf("the lease is %+v (%v)", left, err)
	}
	stop()
	rig.Eventually(t, rig.Soon, "the key ends with its lease", func(ctx context.Context) error {
		got, err := c.Etcd().Get(ctx, "/kept")
		if err == nil && got.Count > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}
