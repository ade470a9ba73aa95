package step

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
)

func removeVoter(v *View, s cluster.Seat, p cluster.Projection, reason words.Text) *decision.Decision {
	next := v.Voters(func(x cluster.Seat) bool { return !x.Learner && x.ID != s.ID })
	op := cluster.Op{Kind: cluster.OpRemove, Member: s.ID, Host: s.HostID}
	return changeVoters(v, next, p, op, s.ID, "etcdadm member remove "+s.ID.String(), reason)
}

func RemoveLearner(v *View, s cluster.Seat, reason words.Text) *decision.Decision {
	op := cluster.Op{Kind: cluster.OpRemove, Member: s.ID, Host: s.HostID}
	return Membership(v, v.Projection(0, 0), op, s.ID, "etcdadm member remove "+s.ID.String(), reason)
}

// TakeOut removes a voter that is up, or of which nothing is known; raft's
// leadership is moved away first.
func TakeOut(v *View, s cluster.Seat, reason words.Text) *decision.Decision {
	up := 0
	if s.Up {
		up = -1
	}
	p := v.Projection(-1, up)
	if d := AwaitAway(v, s, reason); d != nil {
		return d
	}
	if !p.Keeps(v.Wanted()) {
		return decision.WaitLater("waiting-for-voters", "", "{reason}; too few voters would remain: {projection}", reason, p)
	}
	switch {
	case s.RaftLeader && !s.Up:
		return decision.WaitLater("waiting-for-voters", "", "{reason}; it leads raft and cannot be asked to hand over: {why}", reason, s.Why)
	case s.RaftLeader && sight.HandsOver(s):
		return HandOver(v, s, reason, func(to cluster.Seat) bool { return v.Named(to.Host) }) // who is to make way would hand over again
	}
	return removeVoter(v, s, p, reason)
}

// RemoveDead removes a voter that is dead, if the voters that are up are a
// quorum of the remaining.
func RemoveDead(v *View, s cluster.Seat, reason words.Text) *decision.Decision {
	p := v.Projection(-1, 0)
	if h := sight.PausedBeside(&v.Roster, s); h != nil && s.Host != nil && s.Host.Process.Runs() { // raft may count on it
		return &decision.Decision{Reason: words.F("{what}; {why}", reason, h.Why), Again: h.Again, Passes: true}
	}
	serves := s.Condition == cluster.ConditionVanished || s.Condition == cluster.ConditionDiffering && s.Host != nil && s.Host.Status != nil && s.Host.Status.Healthy
	if serves && s.RaftLeader && s.Host.UnderFence && s.Host.Status != nil && sight.HandsOver(s) {
		return HandOver(v, s, reason, nil) // it still leads raft, from memory or with other keys
	}
	if !p.Keeps(v.Wanted()) {
		return decision.Wait(true, "waiting-for-voters", "", "voter {voter} is dead and cannot be removed now: {projection}", words.SeatName(s), p)
	}
	return removeVoter(v, s, p, reason)
}

func SetAsideOp(v *View, h *cluster.HostReport, reason string, sentence words.Text) *decision.Decision {
	p := v.Projection(0, 0)
	op := cluster.Op{Kind: cluster.OpSetAside, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster, Generation: h.Local.Generation, Reason: reason}
	return &decision.Decision{
		Reason: words.F("{what}: stop it and set its data aside", sentence),
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, op)}},
	}
}
