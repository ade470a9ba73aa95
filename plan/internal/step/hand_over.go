package step

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

// HandOver moves raft's leadership away from a member that is about to be
// touched, to the voter that is furthest, of those that are preferred if any is.
func HandOver(v *View, from cluster.Seat, reason words.Text, prefer func(cluster.Seat) bool) *decision.Decision {
	goes := func(s cluster.Seat) bool { return len(s.Host.Paused) > 0 }
	better := func(s, to cluster.Seat) bool {
		if goes(s) != goes(to) {
			return goes(to)
		}
		if prefer != nil && prefer(s) != prefer(to) {
			return prefer(s)
		}
		return s.Host.Status.Applied > to.Host.Status.Applied
	}
	var to cluster.Seat
	for _, s := range v.Roster.Up() {
		if s.ID == from.ID {
			continue
		}
		if to.ID == 0 || better(s, to) {
			to = s
		}
	}
	if to.ID == 0 {
		return decision.Wait(true, "no-successor", "", "{reason}; no other voter is up to lead raft meanwhile", reason)
	}
	return MoveTo(v, from, to, words.F("{what}; it leads raft, so {to} takes over first", reason, words.SeatName(to)))
}

func MoveTo(v *View, from, to cluster.Seat, reason words.Text) *decision.Decision {
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: reason,
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: "etcdadm member move-leader " + to.ID.String(), Ops: []decision.HostOp{
			decision.OnHost(from.Host, v.Roster.Guard(), cluster.Op{Kind: cluster.OpMoveLeader, Member: to.ID, Host: to.HostID})}},
	}
}
