package etcd

import (
	"cmp"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"etcdadm.io/cluster"
)

// View lists the members. A linearizable list is as new as any acknowledged
// change; it needs a quorum and a voter. Before 3.5 MemberList answers from the
// member's own memory, so there a quorum read goes before it, after which this
// member has applied all that was acknowledged (SAFETY.md, rule 3). The
// Linearizable flag of the answer is set only when one of both was done.
func (c *Client) View(ctx context.Context, linearizable bool) (cluster.MemberView, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if linearizable {
		s, err := c.LocalStatus(ctx)
		if err != nil {
			return cluster.MemberView{}, err
		}
		if !s.Version.LinearizableMemberList() {
			if _, err := c.quorumRead(ctx); err != nil {
				return cluster.MemberView{}, err
			}
		}
	}
	reply, err := rpc(ctx, c, CallTimeout, "list members", reads, c.cluster.MemberList, &pb.MemberListRequest{Linearizable: linearizable})
	if err != nil {
		return cluster.MemberView{}, err
	}
	return cluster.MemberView{
		Cluster:      cluster.ClusterID(reply.Header.GetClusterId()),
		Members:      members(reply.Members),
		Linearizable: linearizable,
	}, nil
}

// AddMember adds a member that is yet to be started. etcd computes its ID from
// the peer URLs and the current second.
func (c *Client) AddMember(ctx context.Context, peerURLs []string, learner bool) (cluster.Member, error) {
	op := "add member"
	if learner {
		op = "add learner"
	}
	reply, err := rpc(ctx, c, CallTimeout, op, mutates, c.cluster.MemberAdd, &pb.MemberAddRequest{PeerURLs: peerURLs, IsLearner: learner})
	if err != nil {
		return cluster.Member{}, err
	}
	return member(reply.Member), nil
}

// Promote makes a learner a voter. A follower passes the call on to the leader.
func (c *Client) Promote(ctx context.Context, id cluster.MemberID) error {
	_, err := rpc(ctx, c, CallTimeout, "promote member", mutates, c.cluster.MemberPromote, &pb.MemberPromoteRequest{ID: uint64(id)})
	return err
}

// Remove removes a member for ever: its ID is never accepted again.
func (c *Client) Remove(ctx context.Context, id cluster.MemberID) error {
	_, err := rpc(ctx, c, CallTimeout, "remove member", mutates, c.cluster.MemberRemove, &pb.MemberRemoveRequest{ID: uint64(id)})
	return err
}

// UpdatePeerURLs changes where a voter is reached by its peers. It must not be
// used on a learner: releases before 3.5.31 and 3.6.12 silently promote it.
func (c *Client) UpdatePeerURLs(ctx context.Context, id cluster.MemberID, peerURLs []string) error {
	_, err := rpc(ctx, c, CallTimeout, "update peer URLs", mutates, c.cluster.MemberUpdate, &pb.MemberUpdateRequest{ID: uint64(id), PeerURLs: peerURLs})
	return err
}

// MayChange is nil where the credential is of a user with the role root, which changes
// of members want, or where authentication is off. Nothing is changed by it: only
// that role may list the users (source: needAdminPermission of 3.4.25, 3.5.35, 3.6.16
// and 3.7.3).
func (c *Client) MayChange(ctx context.Context) error {
	_, err := rpc(ctx, c, CallTimeout, "list users", reads, c.auth.UserList, &pb.AuthUserListRequest{})
	return err
}

// MoveLeader hands raft leadership to a voter. Only the leader takes the call.
func (c *Client) MoveLeader(ctx context.Context, to cluster.MemberID) error {
	_, err := rpc(ctx, c, CallTimeout, "move leader", mutates, c.maintenance.MoveLeader, &pb.MoveLeaderRequest{TargetID: uint64(to)})
	return err
}

func members(listed []*pb.Member) []cluster.Member {
	out := make([]cluster.Member, 0, len(listed))
	for _, m := range listed {
		out = append(out, member(m))
	}
	slices.SortFunc(out, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func member(m *pb.Member) cluster.Member {
	return cluster.Member{
		ID:         cluster.MemberID(m.GetID()),
		Name:       m.GetName(),
		PeerURLs:   sorted(m.GetPeerURLs()),
		ClientURLs: sorted(m.GetClientURLs()),
		Learner:    m.GetIsLearner(),
	}
}

func sorted(urls []string) []string {
	out := slices.Clone(urls)
	slices.Sort(out)
	return out
}
