package host_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestVotersSwapTheirURLs: etcd refuses the URL that another member has, and
// takes one at which nobody is. That is how two voters that came back with each
// other's address are told to the cluster, one after the other.
func TestVotersSwapTheirURLs(t *testing.T) {
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := testetcd.Start(t, testetcd.Config{Version: version, Members: 3})
			client := c.Client(t)
			list, err := client.MemberList(ctx)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]uint64{}
			for _, m := range list.Members {
				ids[m.Name] = m.ID
			}
			a, b := ids[c.Members[0].Name], ids[c.Members[1].Name]
			atA, atB := c.Members[0].PeerURL, c.Members[1].PeerURL
			if _, err := client.MemberUpdate(ctx, a, []string{atB}); err == nil {
				t.Fatal("etcd took a URL twice")
			}
			for _, swap := range [][2]string{{atB, atA}, {atA, atB}} { // and back
				update(ctx, t, client, a, "http://a.moving.invalid:2380")
				update(ctx, t, client, b, swap[1])
				update(ctx, t, client, a, swap[0])
			}
			if err := c.WaitHealthy(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// update gives a member another URL. etcd gives such a change some seconds, and a busy machine needs more.
func update(ctx context.Context, t *testing.T, client *clientv3.Client, id uint64, url string) {
	t.Helper()
	for {
		_, err := client.MemberUpdate(ctx, id, []string{url})
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, rpctypes.ErrTimeout) {
			t.Fatalf("update %x to %s: %v", id, url, err)
		}
	}
}
