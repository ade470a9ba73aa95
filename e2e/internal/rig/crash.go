package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"etcdadm.io/cluster"
)

// Formed is a cluster of n voters on hosts 1 to n.
func Formed(t *testing.T, n int, o Options) *Cluster {
	t.Helper()
	o.Hosts = max(o.Hosts, n)
	c := NewCluster(t, o)
	c.Form(n)
	return c
}

// Form makes a cluster of n voters on hosts 1 to n.
func (c *Cluster) Form(n int) {
	c.T.Helper()
	c.Configure(n)
	hosts := Numbers(n)
	c.Start(hosts...)
	c.Voters(Soon, hosts...)
	// The members serve a moment before the leader has written that down; what a
	// test does to the cluster is done to one that is on record.
	Eventually(c.T, Soon, "the founding is on record", func(context.Context) error {
		if in := c.Intent(); in.State != cluster.IntentFounded {
			return fmt.Errorf("generation %d is %s", in.Generation, in.State)
		}
		return nil
	})
}

func Numbers(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// Without are the hosts of a cluster of n but for some.
func Without(n int, left ...*Host) []int {
	return slices.DeleteFunc(Numbers(n), func(i int) bool {
		return slices.ContainsFunc(left, func(h *Host) bool { return h.N == i })
	})
}

// Process waits for what the leading daemon says of a host's process.
func (c *Cluster) Process(h, seenBy *Host, what string, fits func(cluster.Process) bool) {
	c.T.Helper()
	id := h.ID()
	Eventually(c.T, Soon, fmt.Sprintf("the process of host %d is %s", h.N, what), func(ctx context.Context) error {
		r, err := c.Report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Observation == nil {
			return errors.New("there is no observation")
		}
		for _, s := range r.Observation.Hosts {
			if s.Host == id {
				if !fits(s.Process) {
					return fmt.Errorf("it is %+v", s.Process)
				}
				return nil
			}
		}
		return errors.New("the host is not in the observation")
	})
}
