package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/answer"
)

// ChangeMembership makes one membership call through the own member, which has
// to be a voter, after a last look through raft that the membership is exactly
// what the op relies on (SAFETY.md, rule 3).
func (c *Client) ChangeMembership(ctx context.Context, op cluster.Op, g cluster.Guard) cluster.ApplyReply {
	if g.Cluster == 0 || len(g.Members) == 0 || len(g.Voters) == 0 {
		return answer.Refused("a membership op without a guard")
	}
	if op.Kind == cluster.OpMoveLeader {
		return c.moveLeader(ctx, op, g)
	}
	if g.NotLeader {
		if r := c.checkNotLeader(ctx); r != nil {
			return *r
		}
	}
	effect := func(v cluster.MemberView) (cluster.ApplyReply, bool) { return effectOf(op, g, v) }
	view, r := c.CheckView(ctx, g, effect)
	if r != nil {
		return *r
	}
	if reason := c.mayChange(op, view); reason != "" {
		return answer.Refused("%s", reason)
	}
	pid := c.process().PID
	added, err := c.call(ctx, op)
	c.changed(op.Kind, pid, err)
	if err == nil {
		return cluster.ApplyReply{Outcome: cluster.OutcomeDone, Member: added}
	}
	if !outcomeUnknown(err) {
		return answer.Failed("%v", err)
	}
	// A list through raft that shows the effect settles it. One that does not
	// leaves it open: the call may still be on its way.
	look, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	if m, askErr := c.now(); askErr == nil {
		if v, lookErr := m.View(look, true); lookErr == nil && v.Cluster == g.Cluster {
			if r, there := effectOf(op, g, v); there {
				return r
			}
		}
	}
	return answer.Unknown("%v", err)
}

// mayChange refuses what no leader should have asked for; "" is no refusal.
func (c *Client) mayChange(op cluster.Op, v cluster.MemberView) string {
	own := c.keeper.Now().Local.Member
	if m, ok := Find(v, own); !ok || m.Learner {
		return "the member of this host is not a voter, and membership changes are made through voters"
	}
	target, listed := Find(v, op.Member)
	switch op.Kind {
	case cluster.OpDowngrade:
		if op.Version.IsZero() {
			return "a downgrade to no version"
		}
		return ""
	case cluster.OpCancelDowngrade:
		return ""
	case cluster.OpCompact:
		if op.Revision <= 0 {
			return "a compaction without a revision"
		}
		return ""
	case cluster.OpDisarm: // also of a member that is not listed any more
		if op.Alarm == "" {
			return "no alarm is named"
		}
		return ""
	case cluster.OpAddLearner, cluster.OpAddVoter:
		if len(op.PeerURLs) == 0 {
			return "an added member needs a peer URL"
		}
		return ""
	case cluster.OpUpdateURL:
		if len(op.PeerURLs) == 0 {
			return "an update of the peer URL without a URL"
		}
		// Releases before 3.5.31 and 3.6.12 promote a learner whose URL is updated.
		if listed && target.Learner {
			return "the peer URL of a learner is not updated: etcd would promote it"
		}
	}
	if !listed {
		return "the op's member is not listed"
	}
	return ""
}

func Find(v cluster.MemberView, id cluster.MemberID) (cluster.Member, bool) {
	i := slices.IndexFunc(v.Members, func(m cluster.Member) bool { return m.ID == id })
	if i < 0 {
		return cluster.Member{}, false
	}
	return v.Members[i], true
}

// effectOf tells whether the list shows that the op was made before.
func effectOf(op cluster.Op, g cluster.Guard, v cluster.MemberView) (cluster.ApplyReply, bool) {
	target, listed := Find(v, op.Member)
	there := false
	reply := answer.Done("it was so already")
	switch op.Kind {
	case cluster.OpAddLearner, cluster.OpAddVoter:
		for _, m := range v.Members {
			if !slices.Contains(g.Members, m.ID) && SameSet(m.PeerURLs, op.PeerURLs) && m.Learner == (op.Kind == cluster.OpAddLearner) {
				there, reply.Member = true, m.ID
			}
		}
	case cluster.OpPromote:
		there = listed && !target.Learner
	case cluster.OpRemove:
		there = op.Member != 0 && !listed
	case cluster.OpUpdateURL:
		there = listed && !target.Learner && SameSet(target.PeerURLs, op.PeerURLs)
	}
	return reply, there
}

func SameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (c *Client) call(ctx context.Context, op cluster.Op) (added cluster.MemberID, err error) {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	m, err := c.now()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", etcd.ErrUnreachable, err)
	}
	switch op.Kind {
	case cluster.OpAddLearner, cluster.OpAddVoter:
		var fresh cluster.Member
		fresh, err = m.AddMember(ctx, op.PeerURLs, op.Kind == cluster.OpAddLearner)
		added = fresh.ID
	case cluster.OpPromote:
		err = m.Promote(ctx, op.Member)
	case cluster.OpRemove:
		err = m.Remove(ctx, op.Member)
	case cluster.OpUpdateURL:
		err = m.UpdatePeerURLs(ctx, op.Member, op.PeerURLs)
	case cluster.OpMoveLeader:
		err = m.MoveLeader(ctx, op.Member)
	case cluster.OpDowngrade:
		err = m.Downgrade(ctx, op.Version)
	case cluster.OpCancelDowngrade:
		err = m.CancelDowngrade(ctx)
	case cluster.OpCompact:
		err = m.Compact(ctx, op.Revision)
	case cluster.OpDisarm:
		err = m.Disarm(ctx, op.Alarm, op.Member)
	}
	return added, err
}

// moveLeader hands raft leadership from the own member to another voter.
func (c *Client) moveLeader(ctx context.Context, op cluster.Op, g cluster.Guard) cluster.ApplyReply {
	view, r := c.CheckView(ctx, g, nil)
	if r != nil {
		return *r
	}
	st, r := c.Status(ctx)
	if r != nil {
		return *r
	}
	target, listed := Find(view, op.Member)
	switch {
	case st.Leader == op.Member && op.Member != 0:
		return answer.Done("it was so already")
	case !listed || target.Learner:
		return answer.Refused("member %s is not a voter", op.Member)
	case st.Leader != st.Member:
		return answer.Refused("member %s is the raft leader, not the one of this host", st.Leader)
	}
	_, err := c.call(ctx, op)
	switch {
	case err == nil:
		return answer.Done("")
	case outcomeUnknown(err):
		return answer.Unknown("%v", err)
	}
	return answer.Failed("%v", err)
}

// outcomeUnknown reports whether a membership call may have taken effect.
func outcomeUnknown(err error) bool {
	if errors.Is(err, etcd.ErrUnreachable) { // nothing was sent
		return false
	}
	return errors.Is(err, etcd.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
