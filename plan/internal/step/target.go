package step

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

// Target finds the member that a person named by host or by member ID.
func Target(v *View) (cluster.Seat, *decision.Decision) {
	if !v.Seen {
		return cluster.Seat{}, decision.Wait(true, "no-quorum", "", "no member answers")
	}
	for _, s := range v.Roster.Seats {
		if v.Goal.Names(s) {
			return s, nil
		}
	}
	if v.Goal.Member != 0 {
		return cluster.Seat{}, decision.Refuse("no-such-member", "etcdadm member list", "no member {member} is listed", v.Goal.Member)
	}
	return cluster.Seat{}, decision.Refuse("no-such-member", "etcdadm member list", "host {host} has no listed member", v.Goal.Host)
}

// Against refuses a step that the daemons would undo at once. Of a larger cluster it
// names the spec; of a smaller one it does not, since whoever takes a member out mostly
// wants another one in its place, and a smaller spec takes a second one with it.
func Against(v *View, voters int) *decision.Decision {
	if v.Goal.Hold || v.Spec == nil || v.Spec.Hold {
		return nil
	}
	now := len(v.Roster.Voters())
	switch says := fmt.Sprintf("the spec asks for %s and this step leads to %d, which would be undone at once", words.MembersWords(v.Spec.MemberCount), voters); {
	case voters > v.Spec.MemberCount && voters > now:
		return decision.Refuse("against-spec", fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.Store(), v.Spec.EtcdVersion, voters|1), "{says}; change the spec, or take the step with --hold", says)
	case voters < v.Spec.MemberCount && voters < now:
		return decision.Refuse("against-spec", "etcdadm member replace "+v.Goal.Object(), "{says}; replace the member by one on another host, or on its own host with nothing of it; or, to have one less, take the step with --hold", says)
	}
	return nil
}
