package fakeetcd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// readyShare is how much of the leader's log a learner must have. Source:
// readyPercentThreshold.
const readyShare = 0.9

// configure proposes a configuration change and ends the request when it is
// applied here. Like etcd it sets no deadline of its own.
func (p *Proc) configure(r *request, kind raftpb.ConfChangeType, id cluster.MemberID, c confContext) {
	context, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("fakeetcd: marshal a configuration change: %v", err))
	}
	n := p.id()
	p.requests[n] = r
	cc := &raftpb.ConfChange{Id: new(n), Type: kind.Enum(), NodeId: new(uint64(id)), Context: context}
	p.guard(func() { p.propose(proposal{request: r, change: cc}) })
}

// addMember. Source: ClusterServer.MemberAdd and EtcdServer.mayAddMember.
func (p *Proc) addMember(r *request, urls []string, learner bool) {
	for _, u := range urls {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
			r.finish(nil, etcd.ErrBadPeerURLs)
			return
		}
	}
	if len(urls) == 0 {
		r.finish(nil, etcd.ErrBadPeerURLs)
		return
	}
	voters := p.st.voters()
	if !learner && !readyToAdd(voters) {
		r.finish(nil, etcd.ErrNotEnoughStarted)
		return
	}
	if len(voters) != 1 && p.connectedSince(voters) < cluster.Quorum(len(voters)+1) {
		r.finish(nil, etcd.ErrUnhealthy)
		return
	}
	m := cluster.Member{ID: addedMemberID(urls, time.Now()), PeerURLs: slices.Sorted(slices.Values(urls)), Learner: learner}
	r.result = func(int64) any { return m }
	kind := raftpb.ConfChangeAddNode
	if learner {
		kind = raftpb.ConfChangeAddLearnerNode
	}
	p.configure(r, kind, m.ID, confContext{Member: m})
}

// readyToAdd. Source: RaftCluster.IsReadyToAddVotingMember.
func readyToAdd(voters []cluster.Member) bool {
	started := started(voters)
	return (started == 1 && len(voters) == 1) || started >= cluster.Quorum(len(voters)+1)
}

func started(voters []cluster.Member) int {
	n := 0
	for _, m := range voters {
		if m.Name != "" {
			n++
		}
	}
	return n
}

// removeMember. Source: EtcdServer.mayRemoveMember.
func (p *Proc) removeMember(r *request, id cluster.MemberID) {
	if m := p.st.members[id]; m == nil || !m.Learner {
		if err := p.mayRemoveVoter(id); err != nil {
			r.finish(nil, err)
			return
		}
	}
	p.configure(r, raftpb.ConfChangeRemoveNode, id, confContext{})
}

func (p *Proc) mayRemoveVoter(id cluster.MemberID) error {
	voters := p.st.voters()
	others := slices.DeleteFunc(slices.Clone(voters), func(m cluster.Member) bool { return m.ID == id })
	if started(others) < len(others)/2+1 {
		return etcd.ErrNotEnoughStarted
	}
	p.connect()
	if c := p.conns[id]; id != p.member && (c == nil || !c.active) {
		return nil // it is down, and so no part of the active quorum
	}
	if p.connectedSince(voters)-1 < 1+(len(voters)-1)/2 {
		return etcd.ErrUnhealthy
	}
	return nil
}

// updateMember. Source: EtcdServer.UpdateMember, which checks nothing.
func (p *Proc) updateMember(r *request, id cluster.MemberID, urls []string) {
	p.configure(r, raftpb.ConfChangeUpdateNode, id, confContext{Member: cluster.Member{ID: id, PeerURLs: urls}})
}

// promoteMember is decided by the leader, to whom a follower passes it on.
// Source: EtcdServer.PromoteMember.
func (p *Proc) promoteMember(r *request, id cluster.MemberID, until time.Time) {
	if r.over {
		return
	}
	if p.lead == p.member {
		if err := p.mayPromote(id); err != nil {
			r.finish(nil, err)
			return
		}
		p.configure(r, raftpb.ConfChangeAddNode, id, confContext{Member: cluster.Member{ID: id}, Promote: true})
		return
	}
	if !time.Now().Before(until) {
		r.finish(nil, errTimeout)
		return
	}
	leader := p.peer(p.lead)
	if p.lead == 0 || leader == nil || leader.paused || !p.net.linked(p.host, leader.host) {
		p.later(p.net.opt.Tick/2, func() { p.promoteMember(r, id, until) })
		return
	}
	delay, _ := p.net.link(p.host, leader.host)
	p.net.after(delay, func() {
		if leader.exit != "" || leader.lead != leader.member {
			p.later(p.net.opt.Tick/2, func() { p.promoteMember(r, id, until) })
			return
		}
		if err := leader.mayPromote(id); err != nil {
			r.finish(nil, err)
			return
		}
		leader.configure(r, raftpb.ConfChangeAddNode, id, confContext{Member: cluster.Member{ID: id}, Promote: true})
	})
}

// mayPromote is asked of the leader. Its Match of a learner is what the learner
// once confirmed; it survives a wipe of the learner's disk. Source:
// EtcdServer.isLearnerReady and RaftCluster.IsReadyToPromoteMember.
func (p *Proc) mayPromote(id cluster.MemberID) error {
	progress := p.rn.Status().Progress
	learner, ok := progress[uint64(id)]
	if !ok {
		return etcd.ErrMemberNotFound
	}
	if float64(learner.Match) < readyShare*float64(progress[uint64(p.member)].Match) {
		return etcd.ErrNotReady
	}
	voters := p.st.voters()
	if started(voters)+1 < cluster.Quorum(len(voters)+1) {
		return etcd.ErrNotEnoughStarted
	}
	return nil
}

// moveLeader. Source: maintenanceServer.MoveLeader and EtcdServer.MoveLeader.
func (p *Proc) moveLeader(r *request, to cluster.MemberID) {
	if p.lead != p.member {
		r.finish(nil, etcd.ErrNotLeader)
		return
	}
	if m := p.st.members[to]; m == nil || m.Learner {
		r.finish(nil, etcd.ErrBadTransferee)
		return
	}
	p.guard(func() { p.rn.TransferLeader(uint64(to)) })
	var wait func()
	wait = func() {
		switch {
		case r.over:
		case p.lead == to:
			r.finish(nil, nil)
		default:
			p.later(p.net.opt.Tick, wait)
		}
	}
	wait()
}

// addedMemberID computes the ID that etcd gives to a member added at a time: a
// hash of its peer URLs and the second. So the same peer URLs removed and added
// again within one second get the removed ID, and the add is refused. Source:
// ClusterServer.MemberAdd, which puts the second where a founding has its token.
func addedMemberID(peerURLs []string, at time.Time) cluster.MemberID {
	ids, _ := etcd.MemberIDs(strconv.FormatInt(at.Unix(), 10), []cluster.Member{{PeerURLs: peerURLs}})
	return ids[0]
}
