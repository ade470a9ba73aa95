package rig

import (
	"context"
	"time"
)

// WipeAll has every host lose its processes and its disk.
func (c *Cluster) WipeAll(keepIdentity bool) {
	c.T.Helper()
	for _, h := range c.Hosts {
		h.Crash()
	}
	for _, h := range c.Hosts {
		h.Wipe(keepIdentity)
	}
}

// TakesWrites waits until an ordinary client can write.
func (c *Cluster) TakesWrites() {
	c.T.Helper()
	client := c.NewClient()
	defer client.Close()
	Eventually(c.T, RestoreWithin, "a write by an ordinary client", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second) // a member in the way holds up no other
		defer cancel()
		_, err := client.Put(ctx, "served", "again")
		return err
	})
}
