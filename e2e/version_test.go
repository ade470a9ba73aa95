package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// to asks for another version and waits until every member runs it and all have
// agreed on its line.
func (c *testCluster) to(version string, hosts ...int) {
	c.t.Helper()
	c.asks(version, len(hosts))
	c.runs(3*time.Minute, hosts...)
}

// asks writes another version into the spec, as a person would.
func (c *testCluster) asks(version string, members int) {
	c.t.Helper()
	c.options.version = version
	c.configure(members)
}

// runs waits until every member runs the wanted version and all have agreed on
// its line.
func (c *testCluster) runs(within time.Duration, hosts ...int) {
	c.t.Helper()
	began, version := time.Now(), c.options.version
	want := cluster.MustVersion(version)
	eventually(c.t, within, "every member runs etcd "+version, func(ctx context.Context) error {
		for _, n := range hosts {
			st, err := c.status(ctx, n)
			if err != nil {
				return err
			}
			if st.Version != version {
				return fmt.Errorf("host %d runs %s", n, st.Version)
			}
			if want.Has(cluster.StorageVersion) && (st.StorageVersion != want.Base().String() || st.DowngradeInfo.GetEnabled()) {
				return fmt.Errorf("the data of host %d has the format %q", n, st.StorageVersion)
			}
		}
		return nil
	})
	c.t.Logf("etcd %s after %s", version, time.Since(began).Round(10*time.Millisecond))
}

// status is what the member of a host says of itself.
func (c *testCluster) status(ctx context.Context, n int) (*clientv3.StatusResponse, error) {
	client, err := c.dial(c.host(n).clientURL())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	st, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return nil, fmt.Errorf("host %d: %w", n, err)
	}
	return st, nil
}

// midway waits until the first member runs a version, and gives the hosts that
// do and those that do not.
func (c *testCluster) midway(version string, hosts ...int) (moved, left []*host) {
	c.t.Helper()
	eventually(c.t, soon, "a first member runs etcd "+version, func(context.Context) error {
		if moved, left = c.split(version, hosts...); len(moved) == 0 {
			return errors.New("none does")
		}
		return nil
	})
	return moved, left
}

// split gives the hosts whose members say that they run a version, and the others.
func (c *testCluster) split(version string, hosts ...int) (moved, left []*host) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	for _, n := range hosts {
		if st, err := c.status(ctx, n); err == nil && st.Version == version {
			moved = append(moved, c.host(n))
		} else {
			left = append(left, c.host(n))
		}
	}
	return moved, left
}

// upgrade runs etcdadm upgrade through a host's daemon.
func (c *testCluster) upgrade(h *host, words ...string) result {
	c.t.Helper()
	return c.etcdadm(slices.Concat([]string{"upgrade", "--data-dir", h.dir}, words)...)
}

// Up over two lines and down again while clients write: nothing that was
// acknowledged is lost, no write fails for good, and every process but those of
// etcd stays.
func TestVersions(t *testing.T) {
	t.Parallel()
	testetcd.Binary(t, testetcd.V36)
	testetcd.Binary(t, testetcd.V37)
	c := formed(t, 3, options{version: testetcd.V35})
	w := c.write()
	c.to(testetcd.V37, 1, 2, 3)
	c.to(testetcd.V35, 1, 2, 3)
	w.check()
	w.neverBack()
}

// A cluster of one has no other voter to wait for, and nobody who serves
// meanwhile: it is restarted in place, up and down.
func TestVersionsOfOne(t *testing.T) {
	t.Parallel()
	testetcd.Binary(t, testetcd.V35)
	testetcd.Binary(t, testetcd.V37)
	c := formed(t, 1, options{})
	w := c.write()
	c.to(testetcd.V37, 1)
	if !*long {
		w.check()
		w.neverBack()
		return
	}
	c.to(testetcd.V35, 1)
	c.to(testetcd.V36, 1)
	w.check()
	w.neverBack()
}
