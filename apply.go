package etcdadm

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

const (
	// usualStep is how long a step is waited for where the context has no deadline.
	usualStep = time.Minute
	// toAnswer is what the leading daemon is left of a context's time to say how far it got.
	toAnswer = 2 * time.Second
)

// Applied is what became of a step by hand.
type Applied struct {
	By       cluster.HostID // whose daemon carried it out
	Decision plan.Decision  // the last one: what was reached, or why it was not
	Steps    []Step         // taken on the way, in their order
}

// Step is one that was taken.
type Step struct {
	Rule   string // of package plan, which decided it
	Reason string
	Action string
	// Projection is who votes after it; nil: it changes no voter.
	Projection *cluster.Projection
}

// Apply asks the leading daemon for one step of a person, under the rules of its own steps, and waits until it ends: for a
// minute, or until two seconds before the context's deadline. Another daemon that leads meanwhile goes on with the step.
// Set the goal's kind, its subject and what it allows, and nothing else.
//
// Errors: ErrRefused, where waiting would not help, with why in the decision, and steps that were taken before stay;
// ErrWaiting, where it takes longer: what was begun goes on as the spec asks, and without a step nothing will be begun;
// ErrNoDaemon; ErrNoLeader; the context's, and then the step may be taken all the same.
func (c *Client) Apply(ctx context.Context, goal plan.Goal) (Applied, error) {
	within := usualStep
	if until, ok := ctx.Deadline(); ok {
		within = max(time.Until(until)-toAnswer, time.Until(until)/2)
	}
	return c.hand(ctx, manager.GoalRequest{Goal: goal, Within: within})
}

// PlanStep is what [Client.Apply] would begin with. Nothing is changed.
//
// Errors: ErrRefused, with why in the decision; ErrNoDaemon; ErrNoLeader; the context's.
func (c *Client) PlanStep(ctx context.Context, goal plan.Goal) (plan.Decision, error) {
	a, err := c.hand(ctx, manager.GoalRequest{Goal: goal, DryRun: true, Within: askTimeout})
	return a.Decision, err
}

func (c *Client) hand(ctx context.Context, r manager.GoalRequest) (Applied, error) {
	if r.Goal.Kind == "" || r.Goal.Kind == plan.Converge {
		return Applied{}, sorted(ErrRefused, errors.New("the goal names no step: the daemons follow the spec by themselves"))
	}
	ctx, cancel := context.WithTimeout(ctx, r.Within+askTimeout)
	defer cancel()
	got, err := c.console.Goal(ctx, r)
	if err != nil {
		return Applied{}, answered(err)
	}
	out := Applied{By: got.Leader, Decision: got.Decision}
	for _, s := range got.Steps {
		out.Steps = append(out.Steps, Step(s))
	}
	switch err := got.Err(); {
	case errors.Is(err, manager.ErrRefused):
		return out, sorted(ErrRefused, err)
	case errors.Is(err, manager.ErrExpired):
		return out, sorted(ErrWaiting, err)
	}
	return out, nil
}

// answered tells a daemon that answered, and found none that leads, from no daemon.
func answered(err error) error {
	if errors.Is(err, peer.ErrRemote) {
		return sorted(ErrNoLeader, errors.New(err.Error())) // whose chain says that no daemon answered
	}
	return err
}
