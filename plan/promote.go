package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// promote makes voters of learners that have caught up, by their own word:
// the raft leader's idea of a learner survives a wipe of its disk.
func promote(v *view) *Decision {
	if !v.repairs() {
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

// caughtUp: the learner answers, and what it has itself applied is as near to the
// furthest log in sight as mayLag says.
func (v *view) caughtUp(s cluster.Seat) bool {
	top := v.furthest()
	return s.Up && s.Host.Status.Learner && s.Host.Status.Applied >= top-min(top, v.mayLag())
}

// looksApart is how far apart in time two hosts may be seen in one look.
const looksApart = 2 * time.Second

// mayLag is how many entries a learner may be behind and become a voter: a tenth of the
// log, and nearEntries, whichever is less. Source: etcd refuses a promotion below 90 %
// of the leader's index, and no other: of ten million entries one would do that lacks a
// million of them. Where one voter becomes two, nothing is written from then on until
// the new one has them all. We ask for what etcd asks for as well, because it would
// refuse otherwise.
//
// One entry of grace keeps the answer of a young cluster from flickering, where one
// entry is more than a tenth: hosts are not looked at in the same instant. Under a heavy
// load a learner that has everything seems to lag by what is written in between, and
// would wait for ever; so that much is allowed for, which takes no longer to send than
// it took to write.
func (v *view) mayLag() uint64 {
	top := v.furthest()
	return min(max(top/10, 1), nearEntries+v.writtenWithin(looksApart))
}

// writtenWithin is how many entries are written within a time, as far as the store's
// revision tells: every write has one of its own. A new generation begins far above the
// one before, which nobody wrote.
func (v *view) writtenWithin(d time.Duration) uint64 {
	for _, past := range slices.Backward(v.obs.Memory.Upkeep.Revisions) {
		passed, written := v.obs.At.Sub(past.At), v.revision()-past.Revision
		if passed < time.Second {
			continue // this very look
		}
		if written <= 0 || written >= cluster.RevisionMargin || passed > cluster.MaxUnwatched {
			return 0
		}
		return uint64(float64(written) * d.Seconds() / passed.Seconds())
	}
	return 0
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
