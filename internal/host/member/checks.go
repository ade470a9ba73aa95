package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
)

// CheckOwnGuard checks a guard of an op that stops the own member's process.
// A guard that is given has to hold. Where nothing runs, nothing is taken down
// by the op, and there is nobody to ask.
func (c *Client) CheckOwnGuard(ctx context.Context, g cluster.Guard) *cluster.ApplyReply {
	if g.Cluster == 0 && len(g.Members) == 0 && !g.NotLeader && !g.Leaderless {
		return nil
	}
	p := c.process()
	if p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff {
		return nil
	}
	if g.Cluster != 0 || len(g.Members) > 0 {
		if _, r := c.CheckView(ctx, g, nil); r != nil {
			return r
		}
	}
	if g.Leaderless {
		return c.checkLeaderless(ctx)
	}
	if g.NotLeader {
		return c.checkNotLeader(ctx)
	}
	return nil
}

// checkLeaderless refuses a restart that relies on the member seeing no raft leader,
// once it sees one: a quorum may have come back since the look, and hang on it. That
// it does not answer is what such a restart is for.
func (c *Client) checkLeaderless(ctx context.Context) *cluster.ApplyReply {
	st, r := c.Status(ctx)
	if r != nil || st.Leader == 0 {
		return nil
	}
	x := answer.Refused("member %s sees raft leader %s by now: it is not restarted", st.Member, st.Leader)
	return &x
}

func (c *Client) checkNotLeader(ctx context.Context) *cluster.ApplyReply {
	st, r := c.Status(ctx)
	if r == nil && st.Leader == st.Member {
		x := answer.Refused("member %s is the raft leader", st.Member)
		r = &x
	}
	return r
}

// Status asks the own member, and makes sure that it is the recorded one. A reply is the
// refusal where it is not.
func (c *Client) Status(ctx context.Context) (cluster.MemberStatus, *cluster.ApplyReply) {
	_, st, r := c.recorded(ctx)
	return st, r
}

// recorded also gives what was asked.
func (c *Client) recorded(ctx context.Context) (Member, cluster.MemberStatus, *cluster.ApplyReply) {
	no := func(format string, args ...any) (Member, cluster.MemberStatus, *cluster.ApplyReply) {
		r := answer.Refused(format, args...)
		return nil, cluster.MemberStatus{}, &r
	}
	m, err := c.now()
	local := c.keeper.Now().Local
	if errors.Is(err, errNoMember) || local.Member == 0 {
		return no("host %s runs no member", c.host)
	}
	if err != nil {
		return no("the member of host %s cannot be asked: %v", c.host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	st, err := m.Status(ctx)
	switch {
	case err != nil:
		return no("the member of host %s does not tell its status: %v", c.host, err)
	case st.Member != local.Member:
		return no("member %s answers on host %s, which carries member %s", st.Member, c.host, local.Member)
	}
	return m, st, nil
}

// CheckView takes a member list through raft and compares it with the guard. It
// is the last look before an op acts. When the list shows the op's effect
// already, the reply says done.
func (c *Client) CheckView(ctx context.Context, g cluster.Guard, effect func(cluster.MemberView) (cluster.ApplyReply, bool)) (cluster.MemberView, *cluster.ApplyReply) {
	m, _, r := c.recorded(ctx)
	if r != nil {
		return cluster.MemberView{}, r
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	v, err := m.View(ctx, true)
	if err != nil {
		r := answer.Refused("no member list could be had through raft: %v", err)
		return v, &r
	}
	if v.Cluster != g.Cluster {
		r := answer.Refused("the member is of cluster %s, the op is for cluster %s", v.Cluster, g.Cluster)
		return v, &r
	}
	if effect != nil {
		if r, there := effect(v); there {
			return v, &r
		}
	}
	if reason := differs(v, g); reason != "" {
		r := answer.Refused("%s", reason)
		return v, &r
	}
	return v, nil
}

// differs says how a member list is not what the guard expects.
func differs(v cluster.MemberView, g cluster.Guard) string {
	var members, voters []cluster.MemberID
	for _, m := range v.Members {
		members = append(members, m.ID)
		if !m.Learner {
			voters = append(voters, m.ID)
		}
	}
	for _, c := range []struct {
		what       string
		have, want []cluster.MemberID
	}{{"members", members, g.Members}, {"voters", voters, g.Voters}} {
		have, want := slices.Sorted(slices.Values(c.have)), slices.Sorted(slices.Values(c.want))
		if !slices.Equal(have, want) {
			return fmt.Sprintf("the %s are %v now, the op relies on %v", c.what, have, want)
		}
	}
	return ""
}

// Mismatch says that an op is about another member than the host's; "" when it
// is about this one, or names none.
func Mismatch(op cluster.Op, l cluster.LocalMember) string {
	if op.Member != 0 && op.Member != l.Member || op.Cluster != 0 && l.Cluster != 0 && op.Cluster != l.Cluster {
		return "the op is about member " + op.Member.String() + " of cluster " + op.Cluster.String() +
			", the host carries member " + l.Member.String() + " of cluster " + l.Cluster.String()
	}
	return ""
}

// MayChangeRelease refuses a release that etcd would not start with beside the
// others: one below the line that the members have agreed on, or more than one
// above it. It asks the own member, so that no leader with an old idea of the
// cluster can put the member down for good. One that does not run has nothing to
// lose, and only its host's leader knows the others.
func (c *Client) MayChangeRelease(ctx context.Context, op cluster.Op, runs cluster.Version) *cluster.ApplyReply {
	if op.Version == runs {
		return nil
	}
	if !op.Changes {
		r := answer.Refused("the op restarts etcd %s, and host %s runs %s", op.Version, c.host, runs)
		return &r
	}
	if p := c.process().State; op.Version.SameMinor(runs) || p == cluster.ProcessBackoff || p == cluster.ProcessStopped {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	var a cluster.Agreement
	m, err := c.now()
	if err == nil {
		a, err = m.Agreed(ctx)
	}
	agreed, line := a.Version, op.Version.Base()
	var r cluster.ApplyReply
	switch {
	case err != nil:
		r = answer.Refused("host %s cannot tell which version the members have agreed on: %v", c.host, err)
	case a.Downgrade && line != agreed:
		r = answer.Refused("etcd has a downgrade under way that etcd %s has no part in", op.Version)
	case agreed.IsZero(), line != agreed && !(line.Neighbours(agreed) && line.Compare(agreed) > 0):
		r = answer.Refused("the members have agreed on etcd %s, and etcd %s does not start beside that", agreed, op.Version)
	default:
		return nil
	}
	return &r
}
