package plan

import "etcdadm.io/cluster"

// settle brings the intent's record of the voters in line with a list that
// went through raft: a change that was written down and made is narrowed to
// what is, and a change that somebody made by hand is recorded.
func settle(v *view) *Decision {
	if !v.seen || v.intent == nil {
		return nil
	}
	in := v.intent.Clone()
	now := v.votersNow()
	switch {
	case in.Cluster != 0 && in.Cluster != v.roster.Cluster:
		return wait(false, "foreign-cluster", "", "the members in sight are of cluster %s, and this cluster is %s; nothing is changed", v.roster.Cluster, in.Cluster)
	case cluster.SameVoters(in.Voters, now):
		return nil // a change that was written down may still be about to be made
	case !v.obs.Store.Read:
		return nil
	}
	reason := "write down the voters that are"
	if !cluster.SameVoters(in.Next, now) {
		reason = "the voters are not those that were written down; somebody changed them by hand: write down those that are"
	}
	in.Voters, in.Next = now, nil
	return &Decision{Reason: reason, Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}}}
}

// tidy drops a change of the voters that was written down, not made, and is
// not wanted any more.
func tidy(v *view) *Decision {
	if v.intent == nil || v.intent.Next == nil || !v.obs.Store.Read || !v.seen {
		return nil
	}
	in := v.intent.Clone()
	in.Next = nil
	return &Decision{
		Reason: "a change of the voters was written down and is not wanted any more: strike it out",
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}
