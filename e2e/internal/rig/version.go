package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
)

// To asks for another version and waits until every member runs it and all have
// agreed on its line.
func (c *Cluster) To(version string, hosts ...int) {
	c.T.Helper()
	c.Asks(version, len(hosts))
	c.Runs(3*time.Minute, hosts...)
}

// Asks writes another version into the spec, as a person would.
func (c *Cluster) Asks(version string, members int) {
	c.T.Helper()
	c.Options.Version = version
	c.Configure(members)
}

// Runs waits until every member runs the wanted version and all have agreed on
// its line.
func (c *Cluster) Runs(within time.Duration, hosts ...int) {
	c.T.Helper()
	began, version := time.Now(), c.Options.Version
	want := cluster.MustVersion(version)
	Eventually(c.T, within, "every member runs etcd "+version, func(ctx context.Context) error {
		for _, n := range hosts {
			st, err := c.Status(ctx, n)
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
	c.T.Logf("etcd %s after %s", version, time.Since(began).Round(10*time.Millisecond))
}

// Status is what the member of a host says of itself.
func (c *Cluster) Status(ctx context.Context, n int) (*clientv3.StatusResponse, error) {
	client, err := c.Dial(c.Host(n).ClientURL())
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

// Midway waits until the first member runs a version, and gives the hosts that
// do and those that do not.
func (c *Cluster) Midway(version string, hosts ...int) (moved, left []*Host) {
	c.T.Helper()
	Eventually(c.T, Soon, "a first member runs etcd "+version, func(context.Context) error {
		if moved, left = c.Split(version, hosts...); len(moved) == 0 {
			return errors.New("none does")
		}
		return nil
	})
	return moved, left
}

// Split gives the hosts whose members say that they run a version, and the others.
func (c *Cluster) Split(version string, hosts ...int) (moved, left []*Host) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), 5*time.Second)
	defer cancel()
	for _, n := range hosts {
		if st, err := c.Status(ctx, n); err == nil && st.Version == version {
			moved = append(moved, c.Host(n))
		} else {
			left = append(left, c.Host(n))
		}
	}
	return moved, left
}

// Upgrade runs etcdadm upgrade through a host's daemon.
func (c *Cluster) Upgrade(h *Host, words ...string) Result {
	c.T.Helper()
	return c.Etcdadm(slices.Concat([]string{"upgrade", "--data-dir", h.Dir}, words)...)
}
