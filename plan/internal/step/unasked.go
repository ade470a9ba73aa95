package step

import (
	"slices"

	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

// Unasked is the one gate of steps that nobody asked for: what a rule would begin because of
// what it sees, such as a dead voter or a full database, goes through here. While
// self-management is off, or while that is not known, the step is not taken: it is noted, with
// the command by which a person has it taken, and nil lets the rules go on. Other decisions
// are what they were.
func (v *View) Unasked(d *decision.Decision) *decision.Decision {
	switch {
	case d == nil || d.Action == nil || v.Obs.SelfManaged():
		return d
	case v.Applies != "" && v.Applies == v.Rule:
		if g := v.Goal; g.Shown != "" && !g.Acted && g.Shown != d.Action.String() {
			return decision.Refuse("manual", "etcdadm apply "+v.Rule, "the step is another one now than the one that was shown ({shown}): {reason}; now it is: {step}", g.Shown, d.Reason, d.Action.String())
		}
		return d
	}
	off := words.F("self-management is off")
	if why := v.Obs.ManualUnknown; why != "" {
		off = words.F("whether self-management is off is not known ({why})", why)
	}
	b := decision.Blocker{Code: "manual", Rule: v.Rule, Command: "etcdadm apply " + v.Rule, Sentence: words.F("{off}: {reason}; rule {rule} would begin with the step: {step}", off, d.Reason, v.Rule, d.Action.String())}
	if !slices.ContainsFunc(v.Notices, func(o decision.Blocker) bool { return o.Code == b.Code && o.Sentence.Equal(b.Sentence) }) {
		v.Notices = append(v.Notices, b)
	}
	return nil
}
