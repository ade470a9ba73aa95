package generation

import (
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Lift ends the quarantine of a new generation at a majority of the spec
// (SAFETY.md, rule 14). The member that completed it serves clients already.
func Lift(v *step.View) *decision.Decision {
	if v.Intent == nil || v.Spec == nil || !v.Seen || !v.Intent.Quarantined {
		return nil
	}
	need := v.EnoughForClients()
	if up := len(v.Roster.Up()); up < need {
		// A smaller spec would open it, too. It is not offered: the others may be on
		// their way, and would be taken out again.
		do := "start more daemons"
		if n := len(v.Roster.Learners()); n > 0 {
			do = words.Are(n, "member") + " joining"
		}
		v.Notice("quarantine", "", "generation {generation} is quarantined: ordinary clients are not served until {need} of its members are up, and {up} {verb}; {do}", v.Intent.Generation, need, up, words.Verb(up), do)
		return nil
	}
	if !v.Obs.Store.Read {
		return nil
	}
	in := v.Intent.Clone()
	in.Quarantined = false
	return &decision.Decision{
		Reason: words.F("{count} up in generation {generation}, and {count2} enough: lift the quarantine", words.Are(len(v.Roster.Up()), "member"), in.Generation, words.Are(need, "member")),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
	}
}

// OpenUp restarts the members that still listen on the quarantine URLs after
// the quarantine was lifted, one at a time and raft's leader last. It comes
// after growing: with all voters there it interrupts no client, and a learner
// that receives its snapshot from raft's leader is not cut off.
func OpenUp(v *step.View) *decision.Decision {
	if v.Intent == nil || v.Intent.Quarantined {
		return nil
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.Roster.Seats {
			if s.RaftLeader == leading && s.Host != nil && s.Up && s.Host.UnderFence && s.Host.Local.Quarantined {
				d := step.RestartOne(v, s, "the quarantine is lifted")
				if d.Action == nil && v.Spec != nil && len(v.Roster.Voters()) > v.Wanted() {
					return nil // it may wait for the very voter that is one too many
				}
				return d
			}
		}
	}
	return nil
}
