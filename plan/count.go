package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// A member count that a command asks for is judged with the command, goes into
// the intent with its generation, in one write, and is in force from then on
// ([cluster.Observation.Wanted]). So nothing is left half done, whoever ends
// when; what remains is to have the spec say it, for people to read.

// judgedWith is a view of the same with the spec that a command asks for. It is
// how the command is judged, and nothing else.
func (v *view) judgedWith(c *cluster.Command) *view {
	w := *v
	if v.spec == nil || v.obs.Spec == nil {
		return &w
	}
	if n := v.countFor(c); n != nil {
		s := n.Apply(*v.obs.Spec)
		w.spec = &s
	}
	return &w
}

// countFor is the count that goes into the intent with the command's
// generation: its own, unless somebody changed the spec since it was queued;
// else the one before, as long as it has a meaning.
func (v *view) countFor(c *cluster.Command) *cluster.CountChange {
	var before *cluster.CountChange
	if v.intent != nil {
		before = v.intent.Count
	}
	if n := c.Count.On(v.obs.Spec, before); n != nil {
		return n
	}
	if before.InForce(v.obs.Spec) || before.Left(v.obs.Spec) {
		return before
	}
	return nil
}

// wrongCount ends a command whose count cannot be right; nil: it can.
func (v *view) wrongCount(c *cluster.Command) *Decision {
	if c.Count == nil || v.spec == nil {
		return nil
	}
	if err := v.spec.Validate(); err != nil {
		return endCommand(c.Name, CommandRejected, fmt.Sprintf("it asks for %s: %v", membersWords(c.Count.Members), err))
	}
	return nil
}

// putCount has the spec say what the present generation's command asked for.
// It comes among the work that a running cluster is not kept waiting for.
func putCount(v *view) *Decision {
	if v.intent == nil || v.intent.Count == nil || v.intent.Count.Left(v.obs.Spec) || v.intent.State != cluster.IntentFounded || !v.obs.Store.Read || v.obs.Spec == nil || v.specUnread() {
		return nil
	}
	n := *v.intent.Count
	if n.InForce(v.obs.Spec) && n.Members != n.Was {
		return &Decision{
			Reason: fmt.Sprintf("the command of generation %d asked for %s: write that into the spec, which says %d", v.intent.Generation, membersWords(n.Members), n.Was), Again: soon,
			Action: &Action{Kind: ActSpec, Count: &n, Command: fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", v.store(), n.Version, n.Members)},
		}
	}
	in := v.intent.Clone()
	in.Count = nil // a person had the last word
	if !n.Done && n.Members != n.Was && v.obs.Spec.MemberCount == n.Members && v.obs.Spec.EtcdVersion == n.Version {
		n.Done = true
		in.Count = &n
	}
	return &Decision{
		Reason: fmt.Sprintf("the spec asks for %s: what the command of generation %d asked for is no longer in force", membersWords(v.obs.Spec.MemberCount), in.Generation),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}

// specUnread: the spec in sight is an older one, because it could not be read now.
func (v *view) specUnread() bool {
	for _, g := range v.obs.Gaps {
		if g.Kind == cluster.GapSpec || g.Kind == cluster.GapStore {
			return true
		}
	}
	return false
}

// countWords tells whoever gave the command what became of the count.
func (v *view) countWords(c *cluster.Command) string {
	switch n := v.intent.Count; {
	case c.Count == nil:
		return ""
	case n != nil && n.Members == c.Count.Members && v.spec != nil && v.spec.MemberCount == n.Members:
		return fmt.Sprintf("; %s wanted from now on", are(n.Members, "member"))
	}
	return fmt.Sprintf("; the spec was changed after the command was queued, so its %s not asked for", are(c.Count.Members, "member"))
}

func membersWords(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

// sameCount: both ask for as many members, or neither says.
func sameCount(a, b *cluster.Command) bool {
	return (a.Count == nil) == (b.Count == nil) && (a.Count == nil || a.Count.Members == b.Count.Members)
}
