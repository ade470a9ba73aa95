package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Changes of version that stop half way, with three members of real etcd: what
// RollBack and CancelDowngrade of a path rely on.

// member restarts one of several members as another release.
func member(t *testing.T, c *testetcd.Cluster, i int, version string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := c.Use(ctx, i, version); err != nil {
		t.Fatal(err)
	}
	return c.Restart(ctx, i)
}

func must(t *testing.T, c *testetcd.Cluster, i int, version string) {
	t.Helper()
	if err := member(t, c, i, version); err != nil {
		t.Fatalf("member %d as etcd %s: %v", i, version, err)
	}
}

// agreed waits until every member tells what is expected of its Status.
func agreed(t *testing.T, c *testetcd.Cluster, what string, is func(*clientv3.StatusResponse) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		all := true
		var last *clientv3.StatusResponse
		for _, m := range c.Members {
			s, err := c.Client(t).Status(ctx, m.ClientURL)
			if last = s; err != nil || !is(s) {
				all = false
				break
			}
		}
		if all {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %+v", what, last)
		case <-tick.C:
		}
	}
}

func storage(line string) func(*clientv3.StatusResponse) bool {
	return func(s *clientv3.StatusResponse) bool { return strings.HasPrefix(s.StorageVersion, line+".") }
}

func idle(s *clientv3.StatusResponse) bool { return s.DowngradeInfo == nil || !s.DowngradeInfo.Enabled }

// Until the last member is at the version above, the way back is open; after
// that it is not.
func TestWayBackHalfWayUp(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 3, Args: often})
	put(t, c, "before")
	agreed(t, c, "storage", storage("3.6"))
	for _, i := range []int{0, 1} {
		must(t, c, i, testetcd.V37)
	}
	put(t, c, "half way")
	agreed(t, c, "storage half way up", storage("3.6"))
	for _, i := range []int{1, 0} {
		must(t, c, i, testetcd.V36)
	}
	expect(t, c, "half way")
	for i := range c.Members {
		must(t, c, i, testetcd.V37)
	}
	agreed(t, c, "storage after the last one", storage("3.7"))
	if member(t, c, 0, testetcd.V36) == nil {
		t.Error("a member goes back after the cluster version has risen")
	}
	must(t, c, 0, testetcd.V37) // and is not the worse for it
	expect(t, c, "half way")
}

// A downgrade with one member down is cancelled, and that member goes up
// again; or it is gone on with. A second one waits for the end of the first.
func TestDowngradeHalfWay(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V37, Members: 3, Args: often})
	put(t, c, "before")
	agreed(t, c, "storage", storage("3.7"))
	downgrade(t, c, "3.6")
	agreed(t, c, "ready for the downgrade", storage("3.6"))
	must(t, c, 0, testetcd.V36)
	put(t, c, "half way down")

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := c.Client(t).Downgrade(ctx, clientv3.DowngradeCancel, ""); err != nil {
		t.Fatal(err)
	}
	agreed(t, c, "cancelled", idle)
	agreed(t, c, "still of the line below", storage("3.6"))
	must(t, c, 0, testetcd.V37)
	agreed(t, c, "up again", storage("3.7"))
	expect(t, c, "half way down")

	downgrade(t, c, "3.6")
	agreed(t, c, "ready for the second downgrade", storage("3.6"))
	for i := range c.Members {
		must(t, c, i, testetcd.V36)
	}
	agreed(t, c, "ended by itself", idle)
	expect(t, c, "half way down")
}
