package step

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

func PromoteSeat(v *View, s cluster.Seat) *decision.Decision {
	p := v.Projection(1, 1)
	if !p.Keeps(v.Wanted()) {
		return decision.Wait(true, "waiting-for-voters", "", "learner {learner} has caught up and waits for a voter to come back: {projection}", words.SeatName(s), p)
	}
	if d := closeFirst(v, s); d != nil {
		return d
	}
	next := v.Voters(func(x cluster.Seat) bool { return !x.Learner || x.ID == s.ID })
	op := cluster.Op{Kind: cluster.OpPromote, Member: s.ID, Host: s.HostID}
	return changeVoters(v, next, p, op, s.ID, "etcdadm member promote "+s.ID.String(),
		words.F("learner {learner} has caught up (index {index} of {furthest}): make it a voter", words.SeatName(s), s.Host.Status.Applied, v.Furthest()))
}

// closeFirst puts a learner back into quarantine that was started outside of it,
// to complete the majority, and becomes a voter before another one after all; nil:
// there is no need to.
func closeFirst(v *View, s cluster.Seat) *decision.Decision {
	if !v.Intent.Quarantined || v.Spec == nil || s.Host == nil || s.Host.Local.Quarantined || len(v.Roster.Voters())+1 >= v.EnoughForClients() {
		return nil
	}
	op := Restart(v, s.Host, "it is not the member that completes the majority")
	op.Quarantined = true
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("learner {learner} is ready before the others of the majority: restart it in quarantine", words.SeatName(s)), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(s.Host, cluster.Guard{}, op)}},
	}
}
