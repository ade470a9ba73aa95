package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/setup"
	"etcdadm.io/plan"
)

// How the host leaves its cluster, and what of it others know is taken back.

// leaving is the goal. The spec's member count is on hold meanwhile: else the leader would give this host a new member.
func leaving(id cluster.MemberID, noBackup bool) plan.Goal {
	return plan.Goal{Kind: plan.Leave, Member: id, Hold: true, NoBackup: noBackup}
}

// behind is what stays in the cluster if this host goes without its leave.
func (j *job) behind(m *Member) []Left {
	if m != nil && m.Voters == 1 && !m.Learner || j.Host == "" {
		return nil
	}
	host := cluster.ShellWord(string(j.Host))
	return []Left{
		{"the member of host " + string(j.Host) + ", if the cluster lists one", "etcdadm member remove " + host},
		{"host " + string(j.Host) + ", as one that does not answer", "etcdadm host forget " + host},
	}
}

// leave has the leading daemon remove the member. It says what is waited for.
func (h *Host) leave(ctx context.Context, p Plan, o Options) error {
	c, err := h.open(p.job, false)
	if err != nil {
		return err
	}
	defer c.Close()
	most := orElse(o.Wait, DefaultWait)
	ctx, cancel := context.WithTimeout(ctx, most+lookTimeout)
	defer cancel()
	h.say("removing member %s from cluster %s; this waits %s at most", p.Member.ID, p.Cluster, most)
	telling, told := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.retell(telling, c)
	}()
	result, err := c.Goal(ctx, manager.GoalRequest{Goal: leaving(p.Member.ID, o.NoBackup), Within: most})
	told()
	<-ended
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted before the member was removed; nothing was changed here: %w", err)
	case err != nil:
		return &Error{Problem: "have the leading daemon remove the member", Err: err, Advice: "run the command again to go on"}
	case result.Outcome == manager.GoalDone:
		return nil
	case result.Outcome == manager.GoalExpired:
		return &Error{Problem: "the member was not removed within " + most.String() + ": " + result.Decision.Reason.String(), Err: ErrWaiting, Advice: "run the command again, with a longer --wait if it only needs more time; " + byForce}
	}
	return &Error{Problem: result.Decision.Reason.String(), Err: ErrUnsafe, Advice: "etcdadm status says what to do; " + byForce}
}

// retell says what the leading daemon waits for, each thing once, until the context ends.
func (h *Host) retell(ctx context.Context, c Cluster) {
	said := ""
	for waitFor(ctx, again) == nil {
		r, err := c.Status(ctx)
		if err != nil || r.Decision == nil || r.Decision.Done || ctx.Err() != nil {
			continue
		}
		if why := r.Decision.Reason.String(); why != said {
			said = why
			h.say("waiting: %s", why)
		}
	}
}

// awaitKeepers waits until the other hosts keep the cluster's record without this one. Without a shared store the record
// would else wait for this host: of two keepers, for ever.
func (h *Host) awaitKeepers(ctx context.Context, j *job) error {
	c, err := h.open(j, false)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.keep, keepTimeout))
	defer cancel()
	said := false
	for {
		r, err := c.Status(ctx)
		if err == nil && r.Leading && !slices.Contains(r.Keepers, j.Host) {
			return nil
		}
		if !said {
			h.say("waiting: the other hosts take over this host's part of the cluster's record")
			said = true
		}
		if err := waitFor(ctx, again); errors.Is(err, context.Canceled) {
			return err
		} else if err != nil {
			return &Error{Problem: "the cluster's record still counts on this host", Err: ErrWaiting, Advice: "run the command again; " + byForce + ", and the record may not be writable any more"}
		}
	}
}

// tell has the other hosts follow the spec again, and forget this one where the cluster has let it go. What could not be
// told is left behind.
func (h *Host) tell(ctx context.Context, j *job) (left []Left, err error) {
	if len(j.Others) == 0 || j.Forced && !j.Lift {
		return nil, nil
	}
	c, err := h.open(j, true)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.tell, tellTimeout))
	defer cancel()
	if j.Lift {
		if err := h.lift(ctx, j, c); err != nil {
			return nil, &Error{Problem: "have the cluster follow its spec again, which was on hold for this", Err: err, Advice: "run the command again to go on"}
		}
	}
	if j.Forced {
		return nil, nil
	}
	return h.forget(ctx, j, c)
}

// folder is where the cluster has its spec.
func (h *Host) folder(ctx context.Context, j *job, c Cluster) (*control.Folder, error) {
	s, err := setup.ReadSettings(h.Paths)
	if err != nil {
		return nil, err
	}
	if _, ok := kept.DataDir(s.Store()); ok {
		return control.New(c.Kept(), j.Cluster).Known(), nil
	}
	return setup.OpenFolder(ctx, s)
}

// held tells whether the spec is on hold, by the spec itself: what the leading daemon has observed is some seconds old,
// and may be of before an earlier run was called off.
func (h *Host) held(ctx context.Context, j *job) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.look, lookTimeout))
	defer cancel()
	c, err := h.open(j, false)
	if err != nil {
		return false, err
	}
	defer c.Close()
	folder, err := h.folder(ctx, j, c)
	if err != nil {
		return false, err
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil {
		return false, err
	}
	return read.Spec != nil && read.Spec.Hold, nil
}

// unhold has the spec followed again, and makes sure of it: a leader that was just taking the step may put it on hold
// once more.
func (h *Host) unhold(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, callOffTimeout)
	defer cancel()
	c, err := h.open(j, false)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		if err := h.lift(ctx, j, c); err != nil {
			return err
		}
		if err := waitFor(ctx, orElse(h.bounds.sure, sureAfter)); err != nil {
			return err
		}
		if held, err := h.held(ctx, j); err != nil || !held {
			return err
		}
	}
}

// lift ends the hold that the removal put on the spec.
func (h *Host) lift(ctx context.Context, j *job, c Cluster) error {
	folder, err := h.folder(ctx, j, c)
	if err != nil {
		return err
	}
	for {
		if err = folder.Settings().Hold(ctx, false); err == nil {
			return nil
		}
		if waitFor(ctx, again) != nil { // a new leader is being elected
			return err
		}
	}
}

// forget asks each daemon, until it does not count this host as there any more. Interrupted, it is not done.
func (h *Host) forget(ctx context.Context, j *job, c Cluster) ([]Left, error) {
	waiting := slices.Clone(j.Others)
	said := false
	for {
		waiting = slices.DeleteFunc(waiting, func(at cluster.Contact) bool {
			f, err := c.Forget(ctx, at, j.Host)
			return err == nil && f.Refuse == ""
		})
		if len(waiting) == 0 {
			return nil, nil
		}
		if !said {
			h.say("waiting: the other hosts forget host %s", j.Host)
			said = true
		}
		if err := waitFor(ctx, again); errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("interrupted: %w; run the command again to go on", err)
		} else if err != nil {
			break
		}
	}
	var names []string
	for _, at := range waiting {
		names = append(names, string(at.Host))
	}
	return []Left{{fmt.Sprintf("host %s, as one that does not answer: %s did not take it in that it is gone", j.Host, strings.Join(names, ", ")), "etcdadm host forget " + cluster.ShellWord(string(j.Host))}}, nil
}
