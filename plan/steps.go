package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// names: the goal is about this member.
func (g Goal) names(s cluster.Seat) bool {
	return g.Member != 0 && s.ID == g.Member || g.Host != "" && s.HostID == g.Host
}

// target finds the member that a person named by host or by member ID.
func (v *view) target() (cluster.Seat, *Decision) {
	if !v.seen {
		return cluster.Seat{}, wait(true, "no-quorum", "", "no member answers")
	}
	for _, s := range v.roster.Seats {
		if v.goal.names(s) {
			return s, nil
		}
	}
	if v.goal.Member != 0 {
		return cluster.Seat{}, refuse("no-such-member", "etcdadm member list", "no member %s is listed", v.goal.Member)
	}
	return cluster.Seat{}, refuse("no-such-member", "etcdadm member list", "host %s carries no listed member", v.goal.Host)
}

// against refuses a step that the daemons would undo at once. Of a larger cluster it
// names the spec; of a smaller one it does not, since whoever takes a member out mostly
// wants another one in its place, and a smaller spec takes a second one with it.
func (v *view) against(voters int) *Decision {
	if v.goal.Hold || v.spec == nil || v.spec.Hold {
		return nil
	}
	now := len(v.roster.Voters())
	switch says := fmt.Sprintf("the spec asks for %s and this step leads to %d, which would be undone at once", membersWords(v.spec.MemberCount), voters); {
	case voters > v.spec.MemberCount && voters > now:
		return refuse("against-spec", fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.store(), v.spec.EtcdVersion, voters|1), "%s; change the spec, or take the step with --hold", says)
	case voters < v.spec.MemberCount && voters < now:
		return refuse("against-spec", "etcdadm member replace "+v.goal.object(), "%s; replace the member by one on another host, or on its own host with nothing of it; or, to have one less, take the step with --hold", says)
	}
	return nil
}

// object is the host or the member that the goal is about.
func (g Goal) object() string {
	if g.Host != "" {
		return string(g.Host)
	}
	return g.Member.String()
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
