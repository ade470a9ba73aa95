package members

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// ReplaceAsked has another member take the place of the voter that a person named. A
// backup comes first. Where a host is free and etcd accepts a learner, the successor is
// a voter before the other one is removed, so that never fewer are up than are now.
// Where etcd accepts none (two of three are up), or no host is free, the voter goes
// first, which only one that is not up does: the voters that are up, and how many of
// them may fail, stay what they are (SAFETY.md, rules 1 and 4). With no host free, its
// own host then carries the successor.
func ReplaceAsked(v *step.View) *decision.Decision {
	r := v.Goal.Replaced
	if r == nil {
		if _, d := step.Target(v); d != nil {
			return d
		}
		return decision.Refuse("not-a-voter", "etcdadm member remove "+v.Goal.Object(), "{object} is a learner, which has no vote: remove it, and another is added in its place", v.Goal.Object())
	}
	s, listed := v.Roster.Seat(r.Member)
	if !listed {
		return takePlace(v, r)
	}
	reason := words.F("replace {member}, as asked", words.SeatName(s))
	if d := step.BackupFirstOr(v, "etcdadm member replace "+words.SeatName(s)+" --no-backup", step.BackupBeforeChange, true, reason); d != nil {
		return d
	}
	if len(v.Roster.Voters()) > r.Voters && (v.Goal.By == "" || votes(v, v.Goal.By)) {
		return takeAway(v, s, words.F("{what}: its successor is a voter", reason))
	}
	if d := promoteSuccessor(v); d != nil {
		return d
	}
	return succeed(v, s, reason)
}

// succeed begins with the successor of a voter that is listed.
func succeed(v *step.View, s cluster.Seat, reason words.Text) *decision.Decision {
	h, why := successor(v, decision.CarrierOf(s))
	switch {
	case h != nil && (v.AcceptsAdd() || s.Up):
		return step.Add(v, h, words.F("{reason}: add {host}, which will take its place", reason, h.Host))
	case h != nil:
		return takeAway(v, s, words.F("{reason}: remove it first, since etcd accepts no new member while it is down and listed; host {host} is ready", reason, h.Host))
	case v.Goal.By != "":
		return notYet(v, "host-unfit", "host {host} cannot take the place of {member}{because}", v.Goal.By, words.SeatName(s), words.Because(why))
	case len(v.Roster.Voters()) == 1:
		return notYet(v, "no-host", "{member} is the only voter, and no host is free to take its place{because}: start a daemon on another host", words.SeatName(s), words.Because(why))
	case s.Up:
		return notYet(v, "no-host", "no host is free to replace {member}{because}, and it is up, so the cluster would survive less without it. Start a daemon on another host; or, for a new disk, stop its daemon and etcd and start the daemon on the empty disk", words.SeatName(s), words.Because(why))
	case comesBack(v, s) == "":
		return notYet(v, "no-host", "no host is free to replace {member}{because}: start a daemon on another host, or bring its host back", words.SeatName(s), words.Because(why))
	}
	return takeAway(v, s, words.F("{reason}: remove it, so that its host {host} can join again with nothing of it", reason, decision.CarrierOf(s)))
}

// takePlace goes on once the voter is removed: its successor joins.
func takePlace(v *step.View, r *decision.Replaced) *decision.Decision {
	if len(v.Roster.Voters()) >= r.Voters && (v.Goal.By == "" || votes(v, v.Goal.By)) {
		return &decision.Decision{Reason: words.F("member {member} is replaced: {count} there", r.Member, words.Are(len(v.Roster.Voters()), "voter")), Done: true}
	}
	if d := promoteSuccessor(v); d != nil {
		return d
	}
	h, why := successor(v, r.Host)
	if h == nil && v.Goal.By == "" {
		if own, ok := v.Obs.Host(r.Host); ok && v.Unfit(own) == "" {
			h = own
		}
	}
	if h == nil {
		return decision.WaitLater("no-host", "", "member {member} was removed, and no host can take its place now{because}", r.Member, words.Because(why))
	}
	return step.Add(v, h, words.F("add {host} in place of member {member}, as asked", h.Host, r.Member))
}

// successor is the host that takes the place of another one's member; nil: there is
// none, and in words why.
func successor(v *step.View, of cluster.HostID) (*cluster.HostReport, []string) {
	free, why := v.Candidates()
	for _, h := range free {
		if h.Host != of && (v.Goal.By == "" || h.Host == v.Goal.By) {
			return h, nil
		}
	}
	if _, ok := v.Obs.Host(v.Goal.By); v.Goal.By != "" {
		switch {
		case !ok:
			why = []string{"it is unreachable"}
		case v.Roster.Seated(v.Goal.By):
			why = []string{"it carries a member"}
		}
	}
	return nil, why
}

// promoteSuccessor takes the learner that is on its way further: the one of the named
// host, or any.
func promoteSuccessor(v *step.View) *decision.Decision {
	learners := v.Roster.Learners()
	for _, l := range learners {
		if (v.Goal.By == "" || l.HostID == v.Goal.By) && v.CaughtUp(l) {
			return step.PromoteSeat(v, l)
		}
	}
	if len(learners) > 0 {
		return step.CatchingUp(v)
	}
	return nil
}

// takeAway removes the voter that is to be replaced.
func takeAway(v *step.View, s cluster.Seat, reason words.Text) *decision.Decision {
	if gone, _ := Needs(v, s, RemedyReplace); gone {
		return step.RemoveDead(v, s, reason)
	}
	return step.TakeOut(v, s, reason)
}

// votes: the host carries a voter.
func votes(v *step.View, id cluster.HostID) bool {
	return slices.ContainsFunc(v.Roster.Voters(), func(s cluster.Seat) bool { return s.HostID == id })
}

// notYet refuses a step that nothing was begun of, and waits where something was.
func notYet(v *step.View, code, template string, facts ...any) *decision.Decision {
	if v.Goal.Acted {
		return decision.WaitLater(code, "", template, facts...)
	}
	return decision.Refuse(code, "", template, facts...)
}
