// Package first is the first start of a member: what proves that it may be, and how it is run
// then (SAFETY.md, rules 8b and 12).
package first

import (
	"context"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
)

// Own is what a host is told of itself.
type Own struct {
	Cluster string
	URLs    cluster.URLs // where a member of this host listens, as it advertises them
	Sources bool         // it makes sources of generations ready
}

// Intents is the host's own access to the intent in the backup store.
type Intents interface {
	// ReadIntent returns nil without error when there is none; one that is Adopted
	// where etcd-manager's marker is in its place.
	ReadIntent(ctx context.Context) (*cluster.Intent, error)
}

// Founder is the first start of a founder: the intent, as this host
// reads it by itself, names this disk, and is still being founded. Later than
// that the member list has to have the member (SAFETY.md, rule 12).
func (o Own) Founder(ctx context.Context, from Intents, op cluster.Op, s record.State) (l record.Launch, m cluster.LocalMember, r *cluster.ApplyReply) {
	no := func(format string, args ...any) (record.Launch, cluster.LocalMember, *cluster.ApplyReply) {
		x := answer.Refused(format, args...)
		return record.Launch{}, cluster.LocalMember{}, &x
	}
	ctx, cancel := context.WithTimeout(ctx, work.ReadDeadline)
	defer cancel()
	in, err := from.ReadIntent(ctx)
	switch {
	case err != nil:
		return no("host %s cannot read the intent by itself: %v", s.Host, err)
	case in == nil || in.Adopted():
		return no("there is no intent in the store that host %s reads", s.Host)
	case in.Name != o.Cluster:
		return no("the intent is of the cluster %q", in.Name)
	case in.Generation != op.Generation || in.Nonce != op.Nonce:
		return no("host %s reads generation %d with nonce %q, the op is for generation %d with nonce %q", s.Host, in.Generation, in.Nonce, op.Generation, op.Nonce)
	case in.Token == "":
		return no("the intent has no token")
	}
	f, named := in.Founder(s.Host, s.Disk)
	switch {
	case !named:
		return no("the intent does not name disk %s of host %s as a founder", s.Disk, s.Host)
	case f.Member != op.Member:
		return no("the intent gives this founder member %s, the op member %s", f.Member, op.Member)
	case !member.SameSet(f.URLs.Peer, o.URLs.Peer):
		return no("the intent was written for the peer URLs %v, this host listens at %v", f.URLs.Peer, o.URLs.Peer)
	case !op.Version.IsZero() && !in.Version.IsZero() && op.Version != in.Version:
		return no("the intent founds with etcd %s, the op with %s", in.Version, op.Version)
	}
	fromData := op.Source != nil && op.Source.FromData()
	if in.Source.FromData() != fromData || fromData && (*op.Source != in.Source || !o.Sources) {
		return no("the intent makes generation %d from another source than the op", in.Generation)
	}
	if fromData {
		if why := sourceLaunch(in, f, s); why != "" {
			return no("%s", why)
		}
	}
	switch in.State {
	case cluster.IntentFounding:
	case cluster.IntentFounded:
		if _, listed := member.Find(cluster.MemberView{Members: op.Members}, op.Member); !listed {
			return no("generation %d is founded, and member %s is not in its list", in.Generation, op.Member)
		}
	default:
		return no("the intent is in the state %q", in.State)
	}
	l = record.Launch{Version: in.Version, Token: in.Token, URLs: o.URLs, Founding: true, Quarantined: op.Quarantined || in.Quarantined}
	if l.Version.IsZero() {
		l.Version = op.Version
	}
	for _, f := range in.Founders {
		l.InitialCluster = append(l.InitialCluster, cluster.Member{ID: f.Member, Name: string(f.Host), PeerURLs: slices.Clone(f.URLs.Peer)})
	}
	m = cluster.LocalMember{Generation: in.Generation, Nonce: in.Nonce, Token: in.Token, Cluster: in.Cluster, Member: f.Member}
	return l, m, nil
}

// Joiner is the first start of a member that was added to a cluster:
// this disk holds a preparation from before the add (SAFETY.md, rule 8b).
func (o Own) Joiner(op cluster.Op, s record.State) (l record.Launch, m cluster.LocalMember, r *cluster.ApplyReply) {
	no := func(format string, args ...any) (record.Launch, cluster.LocalMember, *cluster.ApplyReply) {
		x := answer.Refused(format, args...)
		return record.Launch{}, cluster.LocalMember{}, &x
	}
	p := s.Local
	own, listed := member.Find(cluster.MemberView{Members: op.Members}, op.Member)
	switch {
	case p.State != cluster.MemberPrepared:
		return no("host %s holds no preparation for a member, so nothing proves that its disk never forgot member %s", s.Host, op.Member)
	case p.Generation != op.Generation || p.Nonce != op.Nonce || p.Cluster != op.Cluster:
		return no("host %s is prepared for generation %d of cluster %s, the op is for generation %d of cluster %s", s.Host, p.Generation, p.Cluster, op.Generation, op.Cluster)
	case slices.Contains(p.Known, op.Member):
		return no("member %s existed before host %s was prepared, so it is not this disk's", op.Member, s.Host)
	case !listed:
		return no("the op's member list does not have member %s", op.Member)
	case !member.SameSet(own.PeerURLs, o.URLs.Peer):
		return no("member %s was added with the peer URLs %v, this host listens at %v", op.Member, own.PeerURLs, o.URLs.Peer)
	}
	l = record.Launch{Version: op.Version, Token: p.Token, URLs: o.URLs, Quarantined: op.Quarantined}
	l.InitialCluster = member.NamedMembers(op.Members, op.Member, s.Host)
	p.Member, p.State = op.Member, cluster.MemberStarting
	return l, p, nil
}

// sourceLaunch is the first start of the founder of a generation that was made
// from data: the intent, as this host reads it by itself, is being founded with
// what lies ready here, and every generation before it is closed.
func sourceLaunch(in *cluster.Intent, f cluster.Founder, s record.State) string {
	switch st := s.Staged; {
	case in.State != cluster.IntentFounding:
		return fmt.Sprintf("generation %d is %s: its founder ran already, and this disk does not know of it", in.Generation, in.State)
	case len(in.Founders) != 1:
		return fmt.Sprintf("generation %d was made from data and has %d founders; it can have only one", in.Generation, len(in.Founders))
	case slices.ContainsFunc(in.History, func(g cluster.PastGeneration) bool { return !g.Closed }):
		return fmt.Sprintf("a generation before %d is not closed yet", in.Generation)
	case st == nil || st.State != cluster.StageReady || st.Token != in.Token:
		return fmt.Sprintf("what generation %d begins with does not lie ready on this disk", in.Generation)
	case st.Source != in.Source:
		return fmt.Sprintf("what lies ready on this disk was made from another source than generation %d", in.Generation)
	case st.Member != f.Member || st.Cluster != in.Cluster:
		return fmt.Sprintf("what lies ready is member %s of cluster %s, and generation %d begins with member %s of cluster %s", st.Member, st.Cluster, in.Generation, f.Member, in.Cluster)
	}
	return ""
}
