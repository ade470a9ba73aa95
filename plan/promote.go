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
		if d := v.addBeforePromoting(); d != nil {
			return d
		}
		return v.promoteSeat(s)
	}
	return nil
}

// addBeforePromoting adds the second learner while there is one voter. Source:
// etcd accepts any add from a single voter, and with two voters asks that both
// have been connected for five seconds.
func (v *view) addBeforePromoting() *Decision {
	if len(v.roster.Voters()) != 1 || len(v.roster.Seats) >= v.wanted() || len(v.roster.Learners()) >= v.mostLearners() {
		return nil
	}
	free, _ := v.candidates()
	if len(free) == 0 || v.startingLearner() != "" {
		return nil
	}
	return v.add(free[0], fmt.Sprintf("%s wanted and %s there: add %s before the learner becomes a voter", are(v.wanted(), "voter"), are(len(v.roster.Seats), "member"), free[0].Host))
}

// caughtUp: the learner answers and is within a tenth of the log. Source:
// etcd refuses a promotion below 90 % of the leader's index; we ask for that
// of what the learner itself has applied. One entry of grace keeps the answer
// of a young cluster from flickering, where one entry is more than a tenth;
// hosts are not looked at in the same instant.
func (v *view) caughtUp(s cluster.Seat) bool {
	top := v.furthest()
	return s.Up && s.Host.Status.Learner && s.Host.Status.Applied >= top-max(top/10, min(top, 1))
}

func (v *view) promoteSeat(s cluster.Seat) *Decision {
	p := v.projection(1, 1)
	if !p.Keeps(v.wanted()) {
		return wait(true, "waiting-for-voters", "", "learner %s has caught up and waits for a voter to come back: %s", seatName(s), p)
	}
	if d := v.closeFirst(s); d != nil {
		return d
	}
	next := v.voters(func(x cluster.Seat) bool { return !x.Learner || x.ID == s.ID })
	op := cluster.Op{Kind: cluster.OpPromote, Member: s.ID, Host: s.HostID}
	return v.changeVoters(next, p, op, s.ID, "etcdadm member promote "+s.ID.String(),
		fmt.Sprintf("learner %s has caught up (index %d of %d): make it a voter", seatName(s), s.Host.Status.Applied, v.furthest()))
}
