package record

import (
	"maps"
	"slices"

	"etcdadm.io/cluster"
)

// Values cross the host's border as copies, in both directions: in one process
// nothing is serialized, and what a caller does with its value is not to reach
// the state.

func CopyURLs(u cluster.URLs) cluster.URLs {
	return cluster.URLs{Peer: slices.Clone(u.Peer), Client: slices.Clone(u.Client), Quarantine: slices.Clone(u.Quarantine)}
}

func CopyLocal(l cluster.LocalMember) cluster.LocalMember {
	l.Known, l.Options, l.URLs = slices.Clone(l.Known), slices.Clone(l.Options), CopyURLs(l.URLs)
	return l
}

func copyVoters(voters []cluster.Voter) []cluster.Voter {
	voters = slices.Clone(voters)
	for i := range voters {
		voters[i].PeerURLs = slices.Clone(voters[i].PeerURLs)
	}
	return voters
}

// CopyIntent goes deeper than Intent.Clone, which shares the URLs.
func CopyIntent(in *cluster.Intent) *cluster.Intent {
	out := in.Clone()
	if out == nil {
		return nil
	}
	for i := range out.Founders {
		out.Founders[i].URLs = CopyURLs(out.Founders[i].URLs)
	}
	out.Voters, out.Next = copyVoters(out.Voters), copyVoters(out.Next)
	for i := range out.Pending {
		out.Pending[i].Voter.PeerURLs = slices.Clone(out.Pending[i].Voter.PeerURLs)
	}
	for i := range out.History {
		sets := slices.Clone(out.History[i].Voters)
		for j := range sets {
			sets[j] = copyVoters(sets[j])
		}
		out.History[i].Voters = sets
	}
	return out
}

func CopyMembers(members []cluster.Member) []cluster.Member {
	members = slices.Clone(members)
	for i := range members {
		members[i].PeerURLs, members[i].ClientURLs = slices.Clone(members[i].PeerURLs), slices.Clone(members[i].ClientURLs)
	}
	return members
}

func CopySpec(s cluster.Spec) *cluster.Spec {
	s.Hosts, s.Options = slices.Clone(s.Hosts), maps.Clone(s.Options)
	return &s
}

// CopyOp copies what a record may keep of an op after its caller has left.
func CopyOp(op cluster.Op) cluster.Op {
	op.Known, op.PeerURLs, op.Members = slices.Clone(op.Known), slices.Clone(op.PeerURLs), CopyMembers(op.Members)
	if op.Source != nil {
		src := *op.Source
		op.Source = &src
	}
	if op.Pause != nil {
		p := *op.Pause
		op.Pause = &p
	}
	return op
}
