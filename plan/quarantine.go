package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// lift ends the quarantine of a new generation at a majority of the spec, and
// then restarts the members that still listen on the quarantine URLs, one at a
// time and raft's leader last (SAFETY.md, rule 14).
func lift(v *view) *Decision {
	if v.intent == nil || v.spec == nil || !v.seen {
		return nil
	}
	if v.intent.Quarantined {
		need := cluster.Quorum(v.wanted())
		if up := len(v.roster.Up()); up < need {
			v.aside("quarantine", fmt.Sprintf("etcdadm seed %s --version %s --nodes 1", v.store(), v.spec.EtcdVersion),
				"generation %d is quarantined: ordinary clients are not served until %d of its members are up, and %d %s; start more daemons, or ask for fewer members", v.intent.Generation, need, up, verb(up))
			return nil
		}
		if !v.obs.Store.Read {
			return nil
		}
		in := v.intent.Clone()
		in.Quarantined = false
		return &Decision{
			Reason: fmt.Sprintf("%d of %d wanted members of generation %d are up: lift the quarantine", len(v.roster.Up()), v.wanted(), in.Generation),
			Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
		}
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.roster.Seats {
			if s.RaftLeader == leading && s.Host != nil && s.Up && s.Host.UnderFence && s.Host.Local.Quarantined {
				return v.restartOne(s, "the quarantine is lifted")
			}
		}
	}
	return nil
}

// joinsQuarantined: the learner is to be started in quarantine. The one that
// completes the majority of the spec when it is promoted is not: the quarantine
// is lifted at that moment, and until then a learner takes no writes.
func (v *view) joinsQuarantined(id cluster.MemberID) bool {
	if !v.intent.Quarantined || v.spec == nil {
		return v.intent.Quarantined
	}
	n := len(v.roster.Voters())
	for _, s := range v.roster.Learners() {
		if n++; s.ID == id {
			break
		}
	}
	return n < cluster.Quorum(v.wanted())
}

func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
