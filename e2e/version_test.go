package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// to asks for another version and waits until every member runs it and all have
// agreed on its line.
func (c *testCluster) to(version string, hosts ...int) {
	c.t.Helper()
	c.options.version = version
	began := time.Now()
	c.configure(len(hosts))
	want := cluster.MustVersion(version)
	eventually(c.t, 3*time.Minute, "every member runs etcd "+version, func(ctx context.Context) error {
		for _, n := range hosts {
			client := c.newClient(n)
			st, err := client.Status(ctx, client.Endpoints()[0])
			client.Close()
			if err != nil {
				return fmt.Errorf("host %d: %w", n, err)
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
	t.Logf("longest stall %s, %d attempts failed", w.longest, w.failed)
	w.check()
}
