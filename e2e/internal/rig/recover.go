package rig

import (
	"context"
	"fmt"

	"etcdadm.io/cluster"
)

// Recovers runs etcdadm recover through a host's daemon.
func (c *Cluster) Recovers(through *Host, words ...string) Result {
	c.T.Helper()
	return c.Etcdadm(append([]string{"recover", "--data-dir", through.Dir}, words...)...)
}

// Founded waits until a generation serves, be it in quarantine.
func (c *Cluster) Founded(n uint64) {
	c.T.Helper()
	Eventually(c.T, RestoreWithin, fmt.Sprintf("generation %d is founded", n), func(context.Context) error {
		if in := c.Intent(); in.Generation != n || in.State != cluster.IntentFounded {
			return fmt.Errorf("generation %d is %s", in.Generation, in.State)
		}
		return nil
	})
}
