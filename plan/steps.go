package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// target finds the member that a person named by host or by member ID.
func (v *view) target() (cluster.Seat, *Decision) {
	if !v.seen {
		return cluster.Seat{}, wait(true, "no-quorum", "", "no member answers")
	}
	for _, s := range v.roster.Seats {
		if v.goal.Member != 0 && s.ID == v.goal.Member || v.goal.Host != "" && s.HostID == v.goal.Host {
			return s, nil
		}
	}
	if v.goal.Member != 0 {
		return cluster.Seat{}, refuse("no-such-member", "etcdadm member list", "no member %s is listed", v.goal.Member)
	}
	return cluster.Seat{}, refuse("no-such-member", "etcdadm member list", "host %s carries no listed member", v.goal.Host)
}

// against refuses a step that the daemons would undo at once.
func (v *view) against(voters int) *Decision {
	if v.goal.Hold || v.spec == nil || v.spec.Hold {
		return nil
	}
	over, under := voters > v.spec.MemberCount, voters < v.spec.MemberCount
	if !over && !under || over && voters <= len(v.roster.Voters()) || under && voters >= len(v.roster.Voters()) {
		return nil
	}
	odd := voters | 1
	if under {
		odd = (voters - 1) | 1
	}
	return refuse("against-spec", fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.store(), v.spec.EtcdVersion, odd),
		"the spec asks for %s and this step leads to %d, which would be undone at once; change the spec, or take the step with --hold", membersWords(v.spec.MemberCount), voters)
}

// join makes the named host a voter.
func join(v *view) *Decision {
	for _, s := range v.roster.Seats {
		if s.HostID != v.goal.Host {
			continue
		}
		switch {
		case !s.Learner:
			return &Decision{Reason: fmt.Sprintf("host %s carries voter %s", s.HostID, s.ID), Done: true}
		case s.Host == nil:
			if d := finishJoining(v); d != nil {
				return d
			}
			return &Decision{Reason: fmt.Sprintf("learner %s waits for its host", seatName(s)), Again: later}
		case v.caughtUp(s):
			return v.promoteSeat(s)
		default:
			return &Decision{Reason: fmt.Sprintf("learner %s is catching up: %s", seatName(s), lag(v, s)), Again: soon}
		}
	}
	if d := v.against(len(v.roster.Voters()) + 1); d != nil {
		return d
	}
	h, ok := v.obs.Host(v.goal.Host)
	if !ok {
		return refuse("no-such-host", "etcdadm status", "host %s is not in sight", v.goal.Host)
	}
	if why := v.unfit(h); why != "" {
		return refuse("host-unfit", "", "host %s cannot be given a member: it %s", h.Host, why)
	}
	return v.add(h, fmt.Sprintf("add %s, as asked", h.Host))
}

// leave takes a member out. Its host sets the data aside afterwards.
func leave(v *view) *Decision {
	s, d := v.target()
	if d != nil {
		if d.Refused && v.goal.Acted {
			return &Decision{Reason: "the member is out of the cluster", Done: true}
		}
		return d
	}
	if s.Learner {
		return v.removeLearner(s, fmt.Sprintf("remove learner %s, as asked", seatName(s)))
	}
	reason := fmt.Sprintf("remove %s, as asked", seatName(s))
	if len(v.roster.Voters()) == 1 {
		return refuse("last-voter", "", "%s is the only voter; removing it would end the cluster", seatName(s))
	}
	dead, _ := v.dead(s)
	if !dead {
		if d := v.against(len(v.roster.Voters()) - 1); d != nil {
			return d
		}
	}
	if dead {
		return v.removeDead(s, reason)
	}
	if d := v.backupFirst(true, reason); d != nil {
		return d
	}
	return v.takeOut(s, reason)
}

// promoteOne makes the named learner a voter.
func promoteOne(v *view) *Decision {
	s, d := v.target()
	switch {
	case d != nil:
		return d
	case !s.Learner:
		return &Decision{Reason: fmt.Sprintf("member %s is a voter", seatName(s)), Done: true}
	case !s.Up:
		return refuse("not-ready", "", "learner %s is not up: %s", seatName(s), s.Why)
	case !v.caughtUp(s):
		return refuse("not-ready", "", "learner %s has not caught up: %s", seatName(s), lag(v, s))
	}
	if d := v.against(len(v.roster.Voters()) + 1); d != nil {
		return d
	}
	return v.promoteSeat(s)
}
