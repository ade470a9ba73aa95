package plan

import (
	"slices"

	"etcdadm.io/cluster"
)

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
	case !v.obs.Store.Read:
		return nil
	case slices.EqualFunc(in.Voters, now, sameRecord):
		return nil // a change that was written down may still be about to be made
	case cluster.SameVoters(in.Voters, now):
		in.Voters = now
		return &Decision{
			Reason: "the hosts, disks or addresses of the voters are not those that were written down: write down those that are",
			Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
		}
	}
	reason := "write down the voters that are"
	if !cluster.SameVoters(in.Next, now) {
		reason = "the voters are not those that were written down; somebody changed them by hand: write down those that are"
	}
	in.Voters, in.Next = now, nil
	return &Decision{Reason: reason, Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}}}
}

// sameRecord: a later generation asks the hosts, disks and addresses that are
// recorded for their promise (SAFETY.md, rule 13), so they must be current.
func sameRecord(a, b cluster.Voter) bool {
	return a.Host == b.Host && a.Disk == b.Disk && a.Member == b.Member && slices.Equal(a.PeerURLs, b.PeerURLs)
}

// tidy drops a change of the voters that was written down, not made, and is
// not wanted any more. While a voter is down the change may be its removal,
// which a new leader comes to only after it has watched the silence itself.
func tidy(v *view) *Decision {
	if v.intent == nil || len(v.intent.Next) == 0 || !v.obs.Store.Read || !v.seen || len(v.downVoters()) > 0 {
		return nil
	}
	in := v.intent.Clone()
	in.Next = nil
	return &Decision{
		Reason: "a change of the voters was written down and is not wanted any more: strike it out",
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}
