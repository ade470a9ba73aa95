package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// settle brings the intent's record of the voters in line with a list that
// went through raft: a change that was written down and made is narrowed to
// what is, and a change that somebody made by hand is recorded.
func settle(v *view) *Decision {
	if !v.seen || v.intent == nil {
		return nil
	}
	in, now := v.intent, v.votersNow()
	if slices.EqualFunc(in.Voters, now, sameRecord) && (in.Cluster == 0 || in.Cluster == v.roster.Cluster) {
		return nil // a change that was written down may still be about to be made
	}
	in = in.Clone()
	in.Next = cluster.Named(in.Next, now) // of an added voter the ID is known only now
	switch {
	case in.Cluster != 0 && in.Cluster != v.roster.Cluster:
		return wait(false, "foreign-cluster", "", "the members in sight are of cluster %s, and this cluster is %s; nothing is changed", v.roster.Cluster, in.Cluster)
	case !v.obs.Store.Read:
		return nil
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
	in.Settle(now)
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
//
// Its call may still be on its way, and so it stays pending until no such call
// can be left. So do the changes that another one came in between of.
func tidy(v *view) *Decision {
	if v.intent == nil || !v.obs.Store.Read || !v.seen || len(v.downVoters()) > 0 {
		return nil
	}
	if len(v.intent.Next)+len(v.intent.Pending) == 0 {
		return nil
	}
	if len(v.intent.Next) > 0 {
		in := v.intent.Clone()
		in.Supersede(nil)
		if v.replacingListed() {
			in.Replacing = nil
		}
		return &Decision{
			Reason: "a change of the voters was written down and is not wanted any more: strike it out",
			Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
		}
	}
	return v.strikePending()
}

// strikePending drops the changes that another one came in between of, once no call for
// them can be left; nil: it may be, or there are none.
func (v *view) strikePending() *Decision {
	if len(v.intent.Pending) == 0 || !v.obs.Store.Read || !v.seen || v.quietFor() < callsEnd {
		return nil
	}
	in := v.intent.Clone()
	in.Pending = nil
	return &Decision{
		Reason: fmt.Sprintf("nothing came of the changes of the voters that were written down and not made for %s: strike them out", v.quietFor().Round(time.Second)),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}

// callsEnd is how long after the last write of the intent a membership call
// that was decided on before it can still take effect, while every voter's host
// is under this leader's fence: the op may rely on an observation of five
// seconds, looks for two, calls for five, and etcd's raft may take as long again
// to tell the loss of a proposal.
const callsEnd = 20 * time.Second

// quietFor is how long nobody else can have begun a change of the voters.
func (v *view) quietFor() time.Duration {
	q := v.obs.Memory.Quiet
	if q.Since.IsZero() || q.Fence != v.obs.Fence || q.Generation != v.intent.Generation || q.Write != v.intent.Write {
		return 0
	}
	return v.obs.At.Sub(q.Since)
}

// tooManyPending waits when changes came in between of each other again and
// again: a later generation has to ask for the promises of every set that they
// can lead to.
//
// It does not keep a voter whose host is not under this leader's fence from being
// taken out: while that one is listed nothing is ever quiet, and so it would be
// waited for for ever. There are fewer of those than voters.
func (v *view) tooManyPending(op cluster.Op, reason string) *Decision {
	if len(v.intent.Pending) < cluster.MostPending || op.Kind == cluster.OpRemove && slices.Contains(v.unfenced(), op.Member) {
		return nil
	}
	if d := v.strikePending(); d != nil { // a rule that waits here is before the one that tidies up
		return d
	}
	return waitLater("settling", "", "%d changes of the voters were begun and not seen to end; waiting until they are%s: %s", len(v.intent.Pending), v.mayStillAct(), reason)
}

// mayStillAct names the voters because of which nothing is seen to end.
func (v *view) mayStillAct() string {
	var names []string
	for _, id := range v.unfenced() {
		s, _ := v.roster.Seat(id)
		names = append(names, seatName(s))
	}
	if len(names) == 0 {
		return ""
	}
	return ", which cannot be known while a voter's host has not promised this leader's fence (" + strings.Join(names, ", ") + ")"
}

// unfenced are the voters whose hosts may still carry out an op of another leader.
func (v *view) unfenced() (out []cluster.MemberID) {
	for _, s := range v.roster.Voters() {
		if s.Host == nil || !s.Host.UnderFence {
			out = append(out, s.ID)
		}
	}
	return out
}
