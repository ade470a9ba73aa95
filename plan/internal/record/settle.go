package record

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Settle brings the intent's record of the voters in line with a list that
// went through raft: a change that was written down and made is narrowed to
// what is, and a change that somebody made by hand is recorded.
func Settle(v *step.View) *decision.Decision {
	if !v.Seen || v.Intent == nil {
		return nil
	}
	in, now := v.Intent, v.VotersNow()
	if slices.EqualFunc(in.Voters, now, sameRecord) && (in.Cluster == 0 || in.Cluster == v.Roster.Cluster) {
		return nil // a change that was written down may still be about to be made
	}
	in = in.Clone()
	in.Next = cluster.Named(in.Next, now) // of an added voter the ID is known only now
	switch {
	case in.Cluster != 0 && in.Cluster != v.Roster.Cluster:
		return decision.Wait(false, "foreign-cluster", "", "the members in sight are of cluster {cluster}, and this cluster is {cluster2}; nothing is changed", v.Roster.Cluster, in.Cluster)
	case !v.Obs.Store.Read:
		return nil
	case cluster.SameVoters(in.Voters, now):
		in.Voters = now
		return &decision.Decision{
			Reason: words.F("record the current hosts, disks and addresses of the voters"),
			Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
		}
	}
	reason := words.F("record the current voters")
	if !cluster.SameVoters(in.Next, now) {
		reason = words.F("record the current voters, which somebody changed by hand")
	}
	in.Settle(now)
	return &decision.Decision{Reason: reason, Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}}}
}

// sameRecord: a later generation asks the hosts, disks and addresses that are
// recorded for their promise (SAFETY.md, rule 13), so they must be current.
func sameRecord(a, b cluster.Voter) bool {
	return a.Host == b.Host && a.Disk == b.Disk && a.Member == b.Member && slices.Equal(a.PeerURLs, b.PeerURLs)
}

// Tidy drops a change of the voters that was written down, not made, and is
// not wanted any more. While a voter is down the change may be its removal,
// which a new leader comes to only after it has watched the silence itself.
//
// Its call may still be on its way, and so it stays pending until no such call
// can be left. So do the changes that another one came in between of.
func Tidy(v *step.View) *decision.Decision {
	if v.Intent == nil || !v.Obs.Store.Read || !v.Seen || len(v.DownVoters()) > 0 {
		return nil
	}
	if len(v.Intent.Next)+len(v.Intent.Pending) == 0 {
		return nil
	}
	if len(v.Intent.Next) > 0 {
		in := v.Intent.Clone()
		in.Supersede(nil)
		if v.ReplacingListed() {
			in.Replacing = nil
		}
		return &decision.Decision{
			Reason: words.F("drop a recorded change of voters that is no longer wanted"),
			Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
		}
	}
	return step.StrikePending(v)
}
