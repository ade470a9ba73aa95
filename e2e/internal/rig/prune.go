package rig

import (
	"context"
	"slices"

	"etcdadm.io/plan"
)

// Asides is what becomes of everything that a host set aside, as the leading
// daemon says.
func (c *Cluster) Asides(ctx context.Context, h *Host) ([]plan.Aside, error) {
	r, err := c.Report(ctx, h)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(r.Aside, func(a plan.Aside) bool { return a.Host != h.ID() }), nil
}
