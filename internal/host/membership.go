package host

import (
	"context"
	"slices"

	"etcdadm.io/cluster"
)

// changeMembership makes one membership call through the own member, which has
// to be a voter, after a last look through raft that the membership is exactly
// what the op relies on (SAFETY.md, rule 3).
func (h *Host) changeMembership(ctx context.Context, op cluster.Op, g cluster.Guard) cluster.ApplyReply {
	if g.Cluster == 0 || len(g.Members) == 0 || len(g.Voters) == 0 {
		return refused("a membership op without a guard")
	}
	if op.Kind == cluster.OpMoveLeader {
		return h.moveLeader(ctx, op, g)
	}
	if g.NotLeader {
		if r := h.checkNotLeader(ctx); r != nil {
			return *r
		}
	}
	effect := func(v cluster.MemberView) (cluster.ApplyReply, bool) { return effectOf(op, g, v) }
	view, r := h.checkView(ctx, g, effect)
	if r != nil {
		return *r
	}
	if reason := h.mayChange(op, view); reason != "" {
		return refused("%s", reason)
	}
	added, err := h.call(ctx, op)
	if err == nil {
		return cluster.ApplyReply{Outcome: cluster.OutcomeDone, Member: added}
	}
	if !outcomeUnknown(err) {
		return failed("%v", err)
	}
	// A list through raft that shows the effect settles it. One that does not
	// leaves it open: the call may still be on its way.
	look, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	if v, lookErr := h.member().View(look, true); lookErr == nil && v.Cluster == g.Cluster {
		if r, there := effectOf(op, g, v); there {
			return r
		}
	}
	return unknown("%v", err)
}

// mayChange refuses what no leader should have asked for; "" is no refusal.
func (h *Host) mayChange(op cluster.Op, v cluster.MemberView) string {
	own := h.snapshot().Local.Member
	if m, ok := find(v, own); !ok || m.Learner {
		return "the member of this host is not a voter, and membership changes are made through voters"
	}
	target, listed := find(v, op.Member)
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

func find(v cluster.MemberView, id cluster.MemberID) (cluster.Member, bool) {
	i := slices.IndexFunc(v.Members, func(m cluster.Member) bool { return m.ID == id })
	if i < 0 {
		return cluster.Member{}, false
	}
	return v.Members[i], true
}

// effectOf tells whether the list shows that the op was made before.
func effectOf(op cluster.Op, g cluster.Guard, v cluster.MemberView) (cluster.ApplyReply, bool) {
	target, listed := find(v, op.Member)
	there := false
	reply := done("it was so already")
	switch op.Kind {
	case cluster.OpAddLearner, cluster.OpAddVoter:
		for _, m := range v.Members {
			if !slices.Contains(g.Members, m.ID) && sameSet(m.PeerURLs, op.PeerURLs) && m.Learner == (op.Kind == cluster.OpAddLearner) {
				there, reply.Member = true, m.ID
			}
		}
	case cluster.OpPromote:
		there = listed && !target.Learner
	case cluster.OpRemove:
		there = op.Member != 0 && !listed
	case cluster.OpUpdateURL:
		there = listed && !target.Learner && sameSet(target.PeerURLs, op.PeerURLs)
	}
	return reply, there
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (h *Host) call(ctx context.Context, op cluster.Op) (added cluster.MemberID, err error) {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	m := h.member()
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
		if err = m.Compact(ctx, op.Revision); err == nil {
			h.noteCompacted(op.Revision)
		}
	case cluster.OpDisarm:
		err = m.Disarm(ctx, op.Alarm, op.Member)
	}
	return added, err
}

// moveLeader hands raft leadership from the own member to another voter.
func (h *Host) moveLeader(ctx context.Context, op cluster.Op, g cluster.Guard) cluster.ApplyReply {
	view, r := h.checkView(ctx, g, nil)
	if r != nil {
		return *r
	}
	st, r := h.ownStatus(ctx)
	if r != nil {
		return *r
	}
	target, listed := find(view, op.Member)
	switch {
	case st.Leader == op.Member && op.Member != 0:
		return done("it was so already")
	case !listed || target.Learner:
		return refused("member %s is not a voter", op.Member)
	case st.Leader != st.Member:
		return refused("member %s is the raft leader, not the one of this host", st.Leader)
	}
	_, err := h.call(ctx, op)
	switch {
	case err == nil:
		return done("")
	case outcomeUnknown(err):
		return unknown("%v", err)
	}
	return failed("%v", err)
}
