package members

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Since when.

func now(v *step.View, _ cluster.Seat) time.Time { return v.Obs.At }

func silence(v *step.View, s cluster.Seat) time.Time { return v.SilentSince(s) }

func lasting(_ *step.View, s cluster.Seat) time.Time { return s.Since }

func joining(v *step.View, s cluster.Seat) time.Time { return v.Obs.Memory.Member(s.ID).JoiningSince }

func hostless(v *step.View, s cluster.Seat) time.Time { return v.Obs.Memory.Member(s.ID).HostlessSince }

func withoutLeader(v *step.View, s cluster.Seat) time.Time {
	if s.Host == nil {
		return time.Time{}
	}
	return sight.LeaderlessSince(v.Sight, s.Host)
}

// endsAtStarts is since when the member's process has ended at each start.
func endsAtStarts(v *step.View, s cluster.Seat) time.Time {
	h := s.Host
	if h == nil || !h.UnderFence || h.Process.State != cluster.ProcessBackoff || !h.Local.HasData || h.Local.State != cluster.MemberStarted || !h.Local.Run {
		return time.Time{}
	}
	if silent := v.Obs.Memory.Member(s.ID).SilentSince; !silent.IsZero() {
		return silent
	}
	return v.Obs.Memory.QuorumlessSince
}

// For how long.

func atOnce(*step.View, cluster.Seat) time.Duration { return 0 }

func deadAfter(v *step.View, _ cluster.Seat) time.Duration { return v.DeadAfter() }

func exactly(d time.Duration) func(*step.View, cluster.Seat) time.Duration {
	return func(*step.View, cluster.Seat) time.Duration { return d }
}

// restartTurn doubles with each restart that did not help.
func restartTurn(v *step.View, s cluster.Seat) time.Duration {
	return sight.Patience(v.Obs.Memory.Member(s.ID).Revived)
}

// learnerTurn: a learner answers nothing while it receives a whole database, which a
// restart would begin anew.
func learnerTurn(v *step.View, s cluster.Seat) time.Duration {
	return min(catchUpPatience<<min(v.Obs.Memory.Member(s.ID).Revived, 10), sight.ReviveMost)
}

// What has to be true beside it.

func othersUp(v *step.View, s cluster.Seat) string {
	for _, o := range v.Roster.Voters() {
		if o.ID != s.ID && !o.Up {
			return fmt.Sprintf("%s is not up: %s", words.SeatName(o), o.Why)
		}
	}
	return ""
}

// othersServe: a member that still counts for raft goes through the gate of every planned
// step; one that does not run has nothing left to take away.
func othersServe(v *step.View, s cluster.Seat) string {
	if h := v.MayBeAway(s); h != nil {
		return h.Why.String()
	}
	return ""
}

// noWayBack: one that was just given another release may not know the format, and is given
// back the one that it came from.
func noWayBack(_ *step.View, s cluster.Seat) string {
	if s.Host.Local.Previous.IsZero() {
		return ""
	}
	return fmt.Sprintf("it is given etcd %s back first, which it ran before", s.Host.Local.Previous)
}

func enoughToCompare(v *step.View, _ cluster.Seat) string {
	if len(v.Roster.Voters()) < 3 {
		return "with fewer than three voters nobody can tell whose keys are right"
	}
	return ""
}

// soundVotersUp: every other voter is up, or the majority that convicted this one may be
// gone. One whose keys are known to differ, too, does not count against it; but while this
// one serves, that one has to answer as well: a removal that takes effect late must not meet
// a cluster that lacks both (SAFETY.md, rule 3).
func soundVotersUp(v *step.View, s cluster.Seat) string {
	for _, o := range v.Roster.Voters() {
		differs := !v.Obs.Memory.Member(o.ID).CorruptSince.IsZero()
		switch {
		case o.ID == s.ID || o.Up || differs && (answers(o) || !answers(s)):
		case differs:
			return fmt.Sprintf("%s, whose keys differ too, does not answer: bring its host back, or start a daemon on another host", words.SeatName(o))
		default:
			return fmt.Sprintf("%s is not up: %s", words.SeatName(o), o.Why)
		}
	}
	return ""
}

// answers: its member told its host its status, and may count for raft.
func answers(s cluster.Seat) bool { return s.Host != nil && s.Host.Status != nil }

// quorumWithout: those that are up are a quorum, of which this one is not.
func quorumWithout(v *step.View, s cluster.Seat) string {
	if h := sight.PausedBeside(&v.Roster, s); h != nil && !s.Learner {
		return h.Why.String()
	}
	if v.Seen && v.Roster.Linearizable && v.Roster.HasQuorum() {
		return ""
	}
	return "without it no quorum is known to stand"
}

// answersNothing: it has its data, answers its host nothing, and could see a leader if it
// began anew.
func answersNothing(v *step.View, s cluster.Seat) string {
	switch {
	case s.Host.Status != nil:
		return "it answers"
	case !s.Host.Local.HasData:
		return "it has no data to begin anew with"
	case v.Barred(s.ID):
		return "no restart helps while it and the others reject each other's certificates"
	}
	return ""
}

func runOnce(_ *step.View, s cluster.Seat) string {
	if s.Host.UnderFence && s.Host.Local.State == cluster.MemberStarted {
		return ""
	}
	return "it has not run yet"
}

// otherHostFree: another host could join in its place that gave up none of this
// generation's members, since what is taken out is kept, and each try is a copy.
func otherHostFree(v *step.View, _ cluster.Seat) string {
	if free, _ := v.Candidates(); len(free) == 0 || v.GaveUp(free[0]) > 0 {
		return "no other host is free to join in its place"
	}
	return ""
}
