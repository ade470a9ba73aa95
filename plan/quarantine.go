package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// lift ends the quarantine of a new generation at a majority of the spec
// (SAFETY.md, rule 14). The member that completed it serves clients already.
func lift(v *view) *Decision {
	if v.intent == nil || v.spec == nil || !v.seen || !v.intent.Quarantined {
		return nil
	}
	need := v.enoughForClients()
	if up := len(v.roster.Up()); up < need {
		// A smaller spec would open it, too. It is not offered: the others may be on
		// their way, and would be taken out again.
		do := "start more daemons"
		if n := len(v.roster.Learners()); n > 0 {
			do = are(n, "member") + " joining"
		}
		v.aside("quarantine", "", "generation %d is quarantined: ordinary clients are not served until %d of its members are up, and %d %s; %s", v.intent.Generation, need, up, verb(up), do)
		return nil
	}
	if !v.obs.Store.Read {
		return nil
	}
	in := v.intent.Clone()
	in.Quarantined = false
	return &Decision{
		Reason: fmt.Sprintf("%s up in generation %d, and %s enough: lift the quarantine", are(len(v.roster.Up()), "member"), in.Generation, are(need, "member")),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}

// openUp restarts the members that still listen on the quarantine URLs after
// the quarantine was lifted, one at a time and raft's leader last. It comes
// after growing: with all voters there it interrupts no client, and a learner
// that receives its snapshot from raft's leader is not cut off.
func openUp(v *view) *Decision {
	if v.intent == nil || v.intent.Quarantined {
		return nil
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.roster.Seats {
			if s.RaftLeader == leading && s.Host != nil && s.Up && s.Host.UnderFence && s.Host.Local.Quarantined {
				d := v.restartOne(s, "the quarantine is lifted")
				if d.Action == nil && v.spec != nil && len(v.roster.Voters()) > v.wanted() {
					return nil // it may wait for the very voter that is one too many
				}
				return d
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
	return n < v.enoughForClients()
}

// enoughForClients is a majority of the spec. Only a spec that is on hold, so
// that the cluster will not grow to it, makes it one of the voters that there
// are: a person's step with --hold does not.
func (v *view) enoughForClients() int {
	if v.spec.Hold {
		return cluster.Quorum(len(v.roster.Voters()))
	}
	return cluster.Quorum(v.spec.MemberCount)
}

// closeFirst puts a learner back into quarantine that was started outside of it,
// to complete the majority, and becomes a voter before another one after all; nil:
// there is no need to.
func (v *view) closeFirst(s cluster.Seat) *Decision {
	if !v.intent.Quarantined || v.spec == nil || s.Host == nil || s.Host.Local.Quarantined || len(v.roster.Voters())+1 >= v.enoughForClients() {
		return nil
	}
	op := v.restart(s.Host, "it is not the member that completes the majority")
	op.Quarantined = true
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("learner %s is ready before those that were to complete the majority with it: restart it in quarantine", seatName(s)), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(s.Host, cluster.Guard{}, op)}},
	}
}

func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
