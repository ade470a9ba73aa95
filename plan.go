package etcdadm

import (
	"context"

	"etcdadm.io/plan"
)

// Plan is what the leading daemon would do next, why, and what blocks it. It is worked out here, by [plan.Next], from
// what that daemon saw last.
//
// Errors: ErrNoLeader; as for [Client.Status].
func (c *Client) Plan(ctx context.Context) (plan.Decision, error) {
	r, err := c.led(ctx)
	if err != nil {
		return plan.Decision{}, err
	}
	return plan.Next(plan.Goal{Kind: plan.Converge}, r.Observation), nil
}
