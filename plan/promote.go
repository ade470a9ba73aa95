package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// promote makes voters of learners that have caught up, by their own word:
// the raft leader's idea of a learner survives a wipe of its disk.
func promote(v *view) *Decision {
	if v.spec == nil {
		return nil
	}
	for _, s := range v.roster.Learners() {
		if len(v.roster.Voters()) >= v.wanted() || !v.caughtUp(s) {
			continue
		}
		return v.promoteSeat(s)
	}
	return nil
}

// caughtUp: the learner answers and is within a tenth of the log. Source:
// etcd refuses a promotion below 90 % of the leader's index; we ask for that
// of what the learner itself has applied.
func (v *view) caughtUp(s cluster.Seat) bool {
	top := v.furthest()
	return s.Up && s.Host.Status.Learner && s.Host.Status.Applied >= top-top/10
}

func (v *view) promoteSeat(s cluster.Seat) *Decision {
	p := v.projection(1, 1)
	if !p.Keeps(v.wanted()) {
		return wait(true, "waiting-for-voters", "", "learner %s has caught up and waits for a voter to come back: %s", seatName(s), p)
	}
	next := v.voters(func(x cluster.Seat) bool { return !x.Learner || x.ID == s.ID })
	op := cluster.Op{Kind: cluster.OpPromote, Member: s.ID, Host: s.HostID}
	return v.changeVoters(next, p, op, s.ID, "etcdadm member promote "+s.ID.String(),
		fmt.Sprintf("learner %s has caught up (index %d of %d): make it a voter", seatName(s), s.Host.Status.Applied, v.furthest()))
}
