package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// handOver moves raft's leadership away from a member that is about to be
// touched, to the voter that is furthest, of those that are preferred if any is.
func (v *view) handOver(from cluster.Seat, reason string, prefer func(cluster.Seat) bool) *Decision {
	better := func(s, to cluster.Seat) bool {
		if prefer != nil && prefer(s) != prefer(to) {
			return prefer(s)
		}
		return s.Host.Status.Applied > to.Host.Status.Applied
	}
	var to cluster.Seat
	for _, s := range v.roster.Up() {
		if s.ID == from.ID {
			continue
		}
		if to.ID == 0 || better(s, to) {
			to = s
		}
	}
	if to.ID == 0 {
		return wait(true, "no-successor", "", "%s; no other voter is up to lead raft meanwhile", reason)
	}
	return v.moveTo(from, to, reason+"; it leads raft, so "+seatName(to)+" takes over first")
}

// handsOver reports whether a member can be told to hand raft's leadership over.
// One of an older release is stopped as it is: 3.2 hands over when it ends, and
// 2.3 leaves the others to elect.
func handsOver(s cluster.Seat) bool {
	return s.Release().IsZero() || s.Release().Has(cluster.MoveLeader)
}

func (v *view) moveTo(from, to cluster.Seat, reason string) *Decision {
	p := v.projection(0, 0)
	return &Decision{
		Reason: reason,
		Again:  soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: "etcdadm member move-leader " + to.ID.String(), Ops: []HostOp{
			onHost(from.Host, v.roster.Guard(), cluster.Op{Kind: cluster.OpMoveLeader, Member: to.ID, Host: to.HostID})}},
	}
}

// moveLeader is a person's step.
func moveLeader(v *view) *Decision {
	to, d := v.target()
	if d != nil {
		return d
	}
	if to.RaftLeader {
		return &Decision{Reason: fmt.Sprintf("member %s leads raft", seatName(to)), Done: true}
	}
	if to.Learner || !to.Up {
		return refuse("not-a-voter", "", "member %s cannot lead raft: it %s", seatName(to), voterWords(to))
	}
	for _, s := range v.roster.Up() {
		if s.RaftLeader && !handsOver(s) {
			return refuse("no-move-leader", "", "member %s leads raft and runs etcd %s, which cannot be told to hand over; etcd can from 3.3 on", seatName(s), s.Release())
		}
		if s.RaftLeader {
			return v.moveTo(s, to, fmt.Sprintf("move raft's leadership from %s to %s, as asked", seatName(s), seatName(to)))
		}
	}
	return wait(true, "no-leader", "", "no raft leader is in sight that could hand over")
}

func voterWords(s cluster.Seat) string {
	if s.Learner {
		return "is a learner"
	}
	return "is not up: " + s.Why
}
