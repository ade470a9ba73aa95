package members

import (
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Join makes the named host a voter.
func Join(v *step.View) *decision.Decision {
	for _, s := range v.Roster.Seats {
		if s.HostID != v.Goal.Host {
			continue
		}
		switch {
		case !s.Learner:
			return &decision.Decision{Reason: words.F("host {host} has voter {voter}", s.HostID, s.ID), Done: true}
		case s.Host == nil:
			return nil // its start is the next rule's
		case v.CaughtUp(s):
			return step.PromoteSeat(v, s)
		default:
			return &decision.Decision{Reason: words.F("learner {learner} is catching up: {lag}", words.SeatName(s), sight.Lag(v.Sight, s)), Again: decision.Soon}
		}
	}
	if d := step.Against(v, len(v.Roster.Voters())+1); d != nil {
		return d
	}
	h, ok := v.Obs.Host(v.Goal.Host)
	if !ok {
		return decision.Refuse("no-such-host", "etcdadm status", "host {host} is unreachable", v.Goal.Host)
	}
	if why := v.Unfit(h); why != "" {
		return decision.Refuse("host-unfit", "", "host {host} cannot carry a member: it {why}", h.Host, why)
	}
	return step.Add(v, h, words.F("add {host}, as asked", h.Host))
}

// AwaitHost waits for the host of the learner that the named host is to carry.
func AwaitHost(v *step.View) *decision.Decision {
	return &decision.Decision{Reason: words.F("learner {learner} waits for its host", v.Goal.Host), Again: decision.Later}
}

// Leave takes a member out. Its host sets the data aside afterwards.
func Leave(v *step.View) *decision.Decision {
	s, d := step.Target(v)
	if d != nil {
		if d.Refused && v.Goal.Acted {
			return &decision.Decision{Reason: words.F("the member is out of the cluster"), Done: true}
		}
		return d
	}
	if s.Learner {
		return step.RemoveLearner(v, s, words.F("remove learner {learner}, as asked", words.SeatName(s)))
	}
	reason := words.F("remove {member}, as asked", words.SeatName(s))
	if len(v.Roster.Voters()) == 1 {
		return decision.Refuse("last-voter", "", "{member} is the only voter; removing it would end the cluster", words.SeatName(s))
	}
	dead, _ := Dead(v, s)
	if !dead {
		if d := step.Against(v, len(v.Roster.Voters())-1); d != nil {
			return d
		}
	}
	if dead {
		return step.RemoveDead(v, s, reason)
	}
	if d := step.BackupFirst(v, true, reason); d != nil {
		return d
	}
	return step.TakeOut(v, s, reason)
}

// PromoteOne makes the named learner a voter.
func PromoteOne(v *step.View) *decision.Decision {
	s, d := step.Target(v)
	switch {
	case d != nil:
		return d
	case !s.Learner:
		return &decision.Decision{Reason: words.F("member {member} is a voter", words.SeatName(s)), Done: true}
	case !s.Up:
		return decision.Refuse("not-ready", "", "learner {learner} is not up: {why}", words.SeatName(s), s.Why)
	case !v.CaughtUp(s):
		return decision.Refuse("not-ready", "", "learner {learner} has not caught up: {lag}", words.SeatName(s), sight.Lag(v.Sight, s))
	}
	if d := step.Against(v, len(v.Roster.Voters())+1); d != nil {
		return d
	}
	return step.PromoteSeat(v, s)
}

// MoveLeader is a person's step.
func MoveLeader(v *step.View) *decision.Decision {
	to, d := step.Target(v)
	if d != nil {
		return d
	}
	if to.RaftLeader {
		return &decision.Decision{Reason: words.F("member {member} leads raft", words.SeatName(to)), Done: true}
	}
	if to.Learner || !to.Up {
		return decision.Refuse("not-a-voter", "", "member {member} cannot lead raft: it {voter}", words.SeatName(to), voterWords(to))
	}
	for _, s := range v.Roster.Up() {
		if s.RaftLeader && !sight.HandsOver(s) {
			return decision.Refuse("no-move-leader", "", "member {member} leads raft and runs etcd {release}, which cannot be told to hand over; etcd can from 3.3 on", words.SeatName(s), s.Release())
		}
		if s.RaftLeader {
			return step.MoveTo(v, s, to, words.F("move raft's leadership from {member} to {member2}, as asked", words.SeatName(s), words.SeatName(to)))
		}
	}
	return decision.Wait(true, "no-leader", "", "no raft leader is in sight that could hand over")
}

func voterWords(s cluster.Seat) string {
	if s.Learner {
		return "is a learner"
	}
	return "is not up: " + s.Why
}

// RestartAsked is a person's step: a member whose etcd runs with other settings than it
// would be started with is restarted in place, under the guards of options that roll. What
// runs with its settings is left alone, so that the step can be asked for again. A voter
// that is not up may be what the quorum hangs on all the same: it waits for the others as
// one that is up does, and what could not come back is not ended at all.
func RestartAsked(v *step.View) *decision.Decision {
	s, d := step.Target(v)
	if d != nil {
		return d
	}
	switch {
	case s.Host == nil || !s.Host.UnderFence:
		return decision.WaitLater("member-silent", "", "the member of {member} cannot restart while its host is unreachable", words.SeatName(s))
	case len(s.Host.Process.Differs) == 0 && s.Up:
		return &decision.Decision{Reason: words.F("the member of {member} already runs with its current settings", words.SeatName(s)), Done: true}
	case len(s.Host.Process.Differs) == 0:
		return &decision.Decision{Reason: words.F("the member of {member} has its new settings and is not up yet: {why}", words.SeatName(s), s.Why), Again: decision.Soon}
	case sight.WithoutTLS(v.Sight, s.Host):
		return decision.Refuse("members-tls", "", "the member of {member} would come back without TLS, which the others use; give its daemon https in --peer-urls first", words.SeatName(s))
	}
	if d := staysDown(v, s); d != nil {
		return d
	}
	why := "as asked, so that " + strings.Join(s.Host.Process.Differs, ", ") + " take effect"
	if !s.Learner {
		if d := step.AwaitAway(v, s, words.F("restart the member of {member}: {why}", words.SeatName(s), why)); d != nil {
			return d
		}
	}
	return step.RestartOne(v, s, why)
}

// RestartAnyway restarts a member as a person asks, whatever its settings are: once, which
// its process tells, and while every other voter is up.
func RestartAnyway(v *step.View) *decision.Decision {
	s, d := step.Target(v)
	if d != nil {
		return d
	}
	ran := v.Goal.Ran
	if s.Host == nil || !s.Host.UnderFence || ran == nil {
		return decision.WaitLater("member-silent", "", "the member of {member} cannot restart while its host is unreachable", words.SeatName(s))
	}
	switch p := s.Host.Process; {
	case ran.Member != s.ID:
		return decision.Refuse("no-such-member", "etcdadm member list", "the member of host {host} that was to be restarted is not listed any more", s.HostID)
	case (ran.PID == 0 || p.PID != ran.PID) && s.Up:
		return &decision.Decision{Reason: words.F("the member of {member} was restarted, and is up", words.SeatName(s)), Done: true}
	case ran.PID == 0 || p.PID != ran.PID:
		return &decision.Decision{Reason: words.F("the member of {member} was restarted, and is not up yet: {why}", words.SeatName(s), s.Why), Again: decision.Soon}
	case sight.WithoutTLS(v.Sight, s.Host):
		return decision.Refuse("members-tls", "", "the member of {member} would come back without TLS, which the others use; give its daemon https in --peer-urls first", words.SeatName(s))
	}
	if d := staysDown(v, s); d != nil {
		return d
	}
	why := "as asked"
	if v.Goal.Reason != "" {
		why += " (" + v.Goal.Reason + ")"
	}
	if !s.Learner {
		if d := step.AwaitAway(v, s, words.F("restart the member of {member}: {why}", words.SeatName(s), why)); d != nil {
			return d
		}
	}
	return step.RestartOne(v, s, why)
}

// staysDown refuses to restart a member that would not come back from it; nil: nothing
// says so.
func staysDown(v *step.View, s cluster.Seat) *decision.Decision {
	alarmed := slices.ContainsFunc(v.Roster.Alarms(cluster.AlarmCorrupt), func(a cluster.Alarm) bool { return a.Member == s.ID })
	switch {
	case s.Host.Vanished():
		return decision.Refuse("data-vanished", "", "the member of {member} serves from memory; its data is gone from the disk, and a restart would end its only copy. Beside other voters it is replaced once they are up", words.SeatName(s))
	case s.Host.Process.Damaged != "":
		return decision.Refuse("data-damaged", "", "the member of {member} would not come back: etcd cannot read its data: {damaged}", words.SeatName(s), s.Host.Process.Damaged)
	case alarmed || !v.Obs.Memory.Member(s.ID).CorruptSince.IsZero():
		return decision.Refuse("corrupt", "", "the member of {member} may not come back: its keys are said to differ, and etcd checks that at start too", words.SeatName(s))
	}
	return nil
}
