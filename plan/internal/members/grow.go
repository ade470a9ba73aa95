package members

import (
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Grow adds learners, as many at a time as etcd takes, until the voters and
// learners are as many as the spec asks for.
func Grow(v *step.View) *decision.Decision {
	if !v.Repairs() {
		return nil
	}
	have := len(v.Roster.Seats)
	switch {
	case len(v.Roster.Voters()) >= v.Wanted():
		return nil
	case have >= v.Wanted():
		return step.CatchingUp(v)
	case !v.AcceptsAdd():
		return step.NoAdd(v, words.F("{have} of {wanted} members present", have, v.Wanted()))
	}
	free, why := v.Candidates()
	if len(free) == 0 {
		if len(v.Roster.Learners()) > 0 {
			return step.CatchingUp(v)
		}
		v.Notice("no-host", "", "{voters} of {wanted} voters present, and no host is free{because}: start a daemon on another host", len(v.Roster.Voters()), v.Wanted(), words.Because(why))
		return nil // the rest can go on without
	}
	reason := words.F("{have} of {wanted} members present: add {host}", have, v.Wanted(), free[0].Host)
	if len(v.Roster.Learners()) == 0 {
		if d := step.BackupFirst(v, false, reason); d != nil {
			return d
		}
	}
	return step.Add(v, free[0], reason)
}

// Promote makes voters of learners that have caught up, by their own word:
// the raft leader's idea of a learner survives a wipe of its disk.
func Promote(v *step.View) *decision.Decision {
	if !v.Repairs() {
		return nil
	}
	for _, s := range v.Roster.Learners() {
		if len(v.Roster.Voters()) >= v.Wanted() || !v.CaughtUp(s) {
			continue
		}
		if d := addBeforePromoting(v); d != nil {
			return d
		}
		return step.PromoteSeat(v, s)
	}
	return nil
}

// addBeforePromoting adds the second learner while there is one voter. Source:
// etcd accepts any add from a single voter, and with two voters asks that both
// have been connected for five seconds.
func addBeforePromoting(v *step.View) *decision.Decision {
	if len(v.Roster.Voters()) != 1 || len(v.Roster.Seats) >= v.Wanted() || len(v.Roster.Learners()) >= v.MostLearners() {
		return nil
	}
	free, _ := v.Candidates()
	if len(free) == 0 || v.StartingLearner() != "" {
		return nil
	}
	return step.Add(v, free[0], words.F("{count} wanted, {count2} present: add {host} before the learner becomes a voter", words.Are(v.Wanted(), "voter"), words.Are(len(v.Roster.Seats), "member"), free[0].Host))
}
