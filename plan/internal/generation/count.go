package generation

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// countFor is the count that goes into the intent with the command's
// generation: its own, unless somebody changed the spec since it was queued;
// else the one before, as long as it has a meaning.
func countFor(v *step.View, c *cluster.Command) *cluster.CountChange {
	var before *cluster.CountChange
	if v.Intent != nil {
		before = v.Intent.Count
	}
	if n := c.Count.On(v.Obs.Spec, before); n != nil {
		return n
	}
	if before.InForce(v.Obs.Spec) || before.Left(v.Obs.Spec) {
		return before
	}
	return nil
}

// A member count that a command asks for is judged with the command, goes into
// the intent with its generation, in one write, and is in force from then on
// ([cluster.Observation.Wanted]). So nothing is left half done, whoever ends
// when; what remains is to have the spec say it, for people to read.

// judgedWith is a view of the same with the spec that a command asks for. It is
// how the command is judged, and nothing else.
func judgedWith(v *step.View, c *cluster.Command) *step.View {
	spec := v.Spec
	if v.Spec != nil && v.Obs.Spec != nil {
		if n := countFor(v, c); n != nil {
			s := n.Apply(*v.Obs.Spec)
			spec = &s
		}
	}
	return v.With(spec)
}

// wrongCount ends a command whose count cannot be right; nil: it can.
func wrongCount(v *step.View, c *cluster.Command) *decision.Decision {
	if c.Count == nil || v.Spec == nil {
		return nil
	}
	if err := v.Spec.Validate(); err != nil {
		return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf("it asks for %s: %v", words.MembersWords(c.Count.Members), err))
	}
	return nil
}

// PutCount has the spec say what the present generation's command asked for.
// It comes among the work that a running cluster is not kept waiting for.
func PutCount(v *step.View) *decision.Decision { return countInSpec(v) }

func countInSpec(v *step.View) *decision.Decision {
	if v.Intent == nil || v.Intent.Count == nil || v.Intent.Count.Left(v.Obs.Spec) || v.Intent.State != cluster.IntentFounded || !v.Obs.Store.Read || v.Obs.Spec == nil || v.SpecUnread() {
		return nil
	}
	n := *v.Intent.Count
	if n.InForce(v.Obs.Spec) && n.Members != n.Was {
		return &decision.Decision{
			Reason: words.F("the command of generation {generation} asked for {members}: write that into the spec, which says {was}", v.Intent.Generation, words.MembersWords(n.Members), n.Was), Again: decision.Soon,
			Action: &decision.Action{Kind: decision.ActSpec, Count: &n, Command: fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.Store(), n.Version, n.Members)},
		}
	}
	in := v.Intent.Clone()
	in.Count = nil // a person had the last word
	if !n.Done && n.Members != n.Was && v.Obs.Spec.MemberCount == n.Members && v.Obs.Spec.EtcdVersion == n.Version {
		n.Done = true
		in.Count = &n
	}
	return &decision.Decision{
		Reason: words.F("the spec asks for {memberCount}: what the command of generation {generation} asked for is no longer in force", words.MembersWords(v.Obs.Spec.MemberCount), in.Generation),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
	}
}

// countWords tells whoever gave the command what became of the count.
func countWords(v *step.View, c *cluster.Command) string {
	switch n := v.Intent.Count; {
	case c.Count == nil:
		return ""
	case n != nil && n.Members == c.Count.Members && v.Spec != nil && v.Spec.MemberCount == n.Members:
		return fmt.Sprintf("; %s wanted from now on", words.Are(n.Members, "member"))
	}
	return fmt.Sprintf("; the spec was changed after the command was queued, so its %s not asked for", words.Are(c.Count.Members, "member"))
}

// sameCount: both ask for as many members, or neither says.
func sameCount(a, b *cluster.Command) bool {
	return (a.Count == nil) == (b.Count == nil) && (a.Count == nil || a.Count.Members == b.Count.Members)
}
