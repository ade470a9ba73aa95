package members

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// FinishJoining starts members that were added and not started, and takes out
// learners that nobody can start. A learner has no vote: removing one is
// always safe, and one that never started blocks the next add.
func FinishJoining(v *step.View) *decision.Decision {
	if d := startFounder(v); d != nil {
		return d
	}
	if d := startAdded(v); d != nil {
		return d
	}
	if d := nudge(v); d != nil {
		return d
	}
	waiting := v.StartingLearner()
	for _, s := range v.Roster.Learners() {
		if due, why := Needs(v, s, RemedyRemove); due { // a pause does not keep it: no other could be added meanwhile
			return step.RemoveLearner(v, s, why)
		}
		if due, why := Needs(v, s, remedyRestart); due {
			if d := step.RestartHung(v, s.Host, why); d != nil {
				return d
			}
		}
		switch {
		case s.Host != nil:
			noteLag(v, s)
		case s.Condition != cluster.ConditionNeverStarted, waiting != "": // two joiners that start together wait for each other's answers
		default:
			if d := oldListAt(v, s.Owner, s); d != nil {
				return d
			}
			return step.StartJoiner(v, s.Owner, s.Member)
		}
	}
	return superfluous(v)
}

// startFounder starts a founder that the running cluster still waits for.
func startFounder(v *step.View) *decision.Decision {
	if len(v.Intent.Founders) == 0 {
		return nil
	}
	var listed []cluster.Member
	for _, s := range v.Roster.Voters() {
		if dead, _ := Dead(v, s); s.Host == nil && !dead { // one that refused for so long is replaced
			listed = append(listed, s.Member)
		}
	}
	if len(listed) == 0 {
		return nil
	}
	ops, _ := generation.UnstartedFounders(v, v.Members())
	ops = slices.DeleteFunc(ops, func(o decision.HostOp) bool {
		return !slices.ContainsFunc(listed, func(m cluster.Member) bool { return m.ID == o.Op.Member })
	})
	if len(ops) == 0 {
		return nil
	}
	p := v.Projection(0, 1)
	return &decision.Decision{
		Reason: words.F("founder {founder} has not started yet, and the cluster lists it", ops[0].Host),
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Ops: ops[:1], Projection: &p},
	}
}

// oldListAt waits while a member answers that does not keep up. Source: a
// joining etcd takes its member ID from the list of whichever member answers
// first, by peer URL. A list from before a former member at this address was
// removed would give it that member's ID, and an empty disk its vote. A
// learner that is catching up goes through every old list on its way, since it
// applies the log from the beginning.
//
// This is a look at what was; what answers when the member starts may be
// another one. So its host looks at the ID that it took.
func oldListAt(v *step.View, h *cluster.HostReport, joiner cluster.Seat) *decision.Decision {
	for _, s := range v.Roster.Seats {
		what, why := "voter", s.Why
		if s.Learner {
			what, why = "learner", words.OrElse(s.Why, "it is catching up")
		}
		if s.ID == joiner.ID || sight.KeepsUp(v.Sight, s) || !MayAnswer(v, s) {
			continue
		}
		if is, gone := Needs(v, s, RemedyReplace); is { // it serves without its data or with other keys, and never keeps up again
			if d := replaceFirst(v); d != nil && d.Action != nil {
				return d
			}
			// Its own host may not be able to take its place, and then the joiner
			// is the one that will, which cannot begin before it is gone.
			if v.Repairs() && !v.Held() && !s.Learner {
				if d := v.Unasked(step.RemoveDead(v, s, words.F("voter {voter} has to be replaced ({gone}), and {host}, which was added, cannot start beside its old list: remove it", words.SeatName(s), gone, h.Host))); d != nil && d.Action != nil {
					return d
				}
			}
		}
		d := decision.Wait(false, "voter-behind", "", "member {member} was added for {host}; it is started once {what} {member2} keeps up or is gone, because its list may be old ({why})",
			joiner.ID, h.Host, what, words.SeatName(s), why)
		d.Again = decision.Later
		return d
	}
	return nil
}

// MayAnswer reports whether a process of the member runs as far as anybody can tell.
func MayAnswer(v *step.View, s cluster.Seat) bool {
	if s.Host != nil {
		return s.Host.Process.State != cluster.ProcessStopped && s.Host.Process.State != cluster.ProcessBackoff
	}
	for i := range v.Obs.Hosts {
		for _, r := range v.Obs.Hosts[i].Reaches {
			if r.Member == s.ID && (r.Answers || r.Open) { // what is paused goes on, and answers then
				return true
			}
		}
	}
	return false
}

// nudgeAfter is how long a learner may take to serve after it has received
// raft's snapshot.
const nudgeAfter = 400 * time.Millisecond

// nudge restarts a learner that has received raft's snapshot and does not
// serve. Source: a starting member proposes its name and client URLs, and
// serves once it has applied that. When the proposal is in the snapshot that it
// receives, nothing is left to apply, and it waits out etcd's request time-out
// of seven seconds; always so after a restore, whose log begins with a
// snapshot. A process that began after the snapshot came is left alone.
func nudge(v *step.View) *decision.Decision {
	for _, s := range v.Roster.Learners() {
		h := s.Host
		if h == nil || !h.UnderFence || h.Status != nil || h.Process.State != cluster.ProcessRunning || h.Local.State != cluster.MemberStarted ||
			h.Received == 0 || h.Process.Uptime <= h.Received {
			continue
		}
		if left := nudgeAfter - h.Received; left > 0 {
			return &decision.Decision{Reason: words.F("learner {learner} has received the snapshot, and is about to serve", words.SeatName(s)), Again: left}
		}
		p := v.Projection(0, 0)
		return &decision.Decision{
			Reason: words.F("learner {learner} has received the snapshot and waits for its own name, which is in it: restart it", words.SeatName(s)),
			Again:  decision.Soon,
			Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, step.Restart(v, h, "it waits for what it has already"))}},
		}
	}
	return nil
}

// superfluous takes out learners that would make more voters than are wanted.
func superfluous(v *step.View) *decision.Decision {
	room := v.Wanted() - len(v.Roster.Voters())
	for _, s := range v.Roster.Voters() {
		if !s.Up {
			room++ // it may be dead, and the learner its successor
		}
	}
	if MakesWay(v).ID != 0 {
		room++ // for the successor of one at a time
	}
	learners := v.Roster.Learners()
	if v.Goal.Kind != decision.Converge || !v.Repairs() || v.Held() || len(learners) <= max(room, 0) {
		return nil
	}
	s := learners[len(learners)-1]
	return step.RemoveLearner(v, s, words.F("{count} wanted: learner {learner} is no longer needed, remove it", words.Are(v.Wanted(), "voter"), words.SeatName(s)))
}

// noteLag tells a person of a learner that does not get there.
func noteLag(v *step.View, s cluster.Seat) {
	since := v.Obs.Memory.Member(s.ID).JoiningSince
	if since.IsZero() || v.Obs.At.Sub(since) < catchUpPatience || s.Host != nil && len(s.Host.Paused) > 0 {
		return
	}
	v.Notice("learner-lags", "etcdadm member remove "+s.ID.String(), "learner {learner} has not caught up for {lasted}: {lag}", words.SeatName(s), v.Obs.At.Sub(since).Round(time.Second), sight.Lag(v.Sight, s))
}
