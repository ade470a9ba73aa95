package members

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Move begins to take a voter off a host that the spec does not name, while as many vote as
// it asks for: a named host that is free is added, and promoted. Then there is one voter too
// many, and Shrink takes the other one out, under the gate and after a backup. One at a time.
//
// It begins with a voter that is up. One that is dead is replaced, which puts its successor
// on a named host, too.
func Move(v *step.View) *decision.Decision {
	s := MakesWay(v)
	if s.ID == 0 || len(v.Roster.Voters()) != v.Wanted() {
		return nil
	}
	if d := promoteSuccessor(v); d != nil {
		return d
	}
	free, why := v.Candidates()
	if len(free) == 0 {
		v.Notice("no-host", "", "{voter} is to make way, since the spec names other hosts, and none of them is free{because}: start a daemon on one of them", words.SeatName(s), words.Because(why))
		return nil
	}
	return step.Add(v, free[0], words.F("{voter} makes way, since the spec names other hosts: add {host}", words.SeatName(s), free[0].Host))
}

// MakesWay is the voter that goes next of those that are up on hosts which the spec does not
// name; without an ID: there is none. Whose host nobody knows is named by nobody.
func MakesWay(v *step.View) cluster.Seat {
	if v.Spec == nil || v.Spec.Hold || len(v.Spec.Hosts) == 0 || v.Goal.Kind != decision.Converge {
		return cluster.Seat{}
	}
	var leave []cluster.Seat
	for _, s := range v.Roster.Voters() {
		if s.Up && s.HostID != "" && !slices.Contains(v.Spec.Hosts, s.HostID) {
			leave = append(leave, s)
		}
	}
	if len(leave) == 0 {
		return cluster.Seat{}
	}
	return LeastWanted(*v.Spec, leave)
}
