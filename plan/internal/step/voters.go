package step

import (
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

// Membership is a decision to make one membership call.
func Membership(v *View, p cluster.Projection, op cluster.Op, except cluster.MemberID, command string, reason words.Text) *decision.Decision {
	s, ok := v.Speaker(except)
	if !ok {
		return decision.Wait(true, "no-speaker", "", "no voter that is up could make the change: {reason}", reason)
	}
	return &decision.Decision{
		Reason: reason,
		Again:  decision.Later,
		Action: &decision.Action{
			Kind:       decision.ActHosts,
			Ops:        []decision.HostOp{decision.OnHost(s.Host, v.Roster.Guard(), op)},
			Projection: &p,
			Command:    command,
		},
	}
}

// changeVoters makes sure that the intent lists the old and the new voters
// before the change is made (SAFETY.md, rule 11), then makes it.
func changeVoters(v *View, next []cluster.Voter, p cluster.Projection, op cluster.Op, except cluster.MemberID, command string, reason words.Text) *decision.Decision {
	if !v.Obs.Store.Read {
		return ChangeUnstored(v, next, p, op, except, command, reason)
	}
	replacing := replacingAfter(v, op, next)
	same := cluster.SameVoters(v.Intent.Next, next)
	if same && sameReplacing(v.Intent.Replacing, replacing) {
		return Membership(v, p, op, except, command, reason)
	}
	if d := TooManyPending(v, op, reason); d != nil && !same {
		return d
	}
	in := v.Intent.Clone()
	if !same {
		in.Supersede(next)
	}
	in.Replacing = replacing
	return &decision.Decision{
		Reason: words.F("record the new voters first: {for}", reason),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}, Projection: &p, Command: command},
	}
}

// ChangeUnstored is changeVoters while the store does not answer. A person has
// to allow it. The change is then written down by the hosts: every one in
// sight that carries a voter keeps the old and the new voters, durably and
// under this leader's fence, and these are a quorum of the voters, before it is
// made. It goes into the store as soon as that answers (mendIntent).
//
// Why that is enough (SAFETY.md, rules 11, 13 and 18): a later generation
// starts only after n−⌊n/2⌋ voters of each set that it finds recorded have
// promised to refuse the old one. Any so many include one of a quorum of that
// set, so one of them shows the newer record, and asks for the promises of the
// newer set as well; and so on along a chain of such changes, because each link
// is kept by a quorum of the set before it. What it cannot bear is a keeper
// whose disk is lost, or that a person calls lost, while the store is behind.
// That is what a person gives up with --no-store.
func ChangeUnstored(v *View, next []cluster.Voter, p cluster.Projection, op cluster.Op, except cluster.MemberID, command string, reason words.Text) *decision.Decision {
	in, now := v.Intent, v.VotersNow()
	switch {
	case !v.Goal.NoStore:
		return decision.Wait(false, "store-silent", unstoredCommand(v, command), "waiting for the backup store, in which a change of the voters is written down first: {reason}", reason)
	case !cluster.SameVoters(in.Voters, now) && !cluster.SameVoters(in.Next, now):
		// A quorum of these voters is no quorum of those that were written down.
		return decision.Refuse("store-silent", "", "the voters differ from the record, so the backup store has to answer first: {reason}", reason)
	case cluster.SameVoters(in.Voters, now) && cluster.SameVoters(in.Next, next) && sameReplacing(in.Replacing, replacingAfter(v, op, next)):
		if d := AwaitKeepers(v, reason); d != nil {
			return d
		}
		return Membership(v, p, op, except, command, reason)
	}
	if d := TooManyPending(v, op, reason); d != nil {
		return d
	}
	keep := in.Clone()
	if !cluster.SameVoters(keep.Voters, now) {
		keep.Settle(now)
	}
	keep.Voters = now
	if !cluster.SameVoters(in.Next, next) {
		keep.Supersede(next)
	}
	keep.Replacing = replacingAfter(v, op, next)
	return &decision.Decision{
		Reason: words.F("{store}; have the hosts record the new voters first: {for}", v.UnreadWords(), reason),
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Keep: keep}, Projection: &p, Command: unstoredCommand(v, command)},
	}
}

// AwaitKeepers waits until the hosts keep the newest intent; nil: they do.
func AwaitKeepers(v *View, reason words.Text) *decision.Decision {
	kept := 0
	var not []string
	for _, s := range v.Roster.Voters() {
		switch {
		case s.Host == nil || !s.Host.UnderFence:
		case v.Intent.Order(s.Host.Intent) == 0:
			kept++
		default:
			not = append(not, string(s.Host.Host))
		}
	}
	voters := len(v.Roster.Voters())
	if kept >= cluster.Quorum(voters) && len(not) == 0 {
		return nil
	}
	return decision.Wait(true, "store-silent", "", "{kept} of {voters} voters' hosts have written down the new voters{because}, and {quorum} and every one in sight must have: {reason}",
		kept, voters, words.Because(words.NotYet(not)), cluster.Quorum(voters), reason)
}

func unstoredCommand(v *View, command string) string {
	switch {
	case command == "":
		return ""
	case v.Goal.Hold:
		return command + " --hold --no-store"
	}
	return command + " --no-store"
}

// replacingAfter is what the record is to have of a replacement before a change of the
// voters is made.
func replacingAfter(v *View, op cluster.Op, next []cluster.Voter) *cluster.Replacing {
	was := v.Intent.Underway()
	switch asked := v.Goal.Replaced; {
	case v.Goal.Kind == decision.Replace && asked != nil:
		r := &cluster.Replacing{Member: asked.Member, Host: asked.Host, Voters: asked.Voters}
		if was != nil && (was.Member == r.Member || !v.ReplacingListed()) {
			r.Voters = max(r.Voters, was.Voters) // another one is being replaced beside it
		}
		return r
	case v.Goal.Kind == decision.Leave && (was == nil || v.ReplacingListed()): // a person has the last word
		return nil
	case v.Goal.Kind == decision.Leave && cluster.SameVoters(v.Intent.Next, next): // written down already
		return was
	case v.Goal.Kind == decision.Leave: // one less than there were to be
		return &cluster.Replacing{Member: was.Member, Host: was.Host, Voters: was.Voters - 1}
	case op.Kind != cluster.OpRemove && !v.ReplacingListed():
		return was
	case op.Kind != cluster.OpRemove: // the cluster grows meanwhile
		return nil
	case was != nil && was.Member == op.Member:
		return was
	case v.Standing != nil:
		return &cluster.Replacing{Member: op.Member, Host: op.Host, Voters: v.Wanted()}
	}
	return nil // the spec says how many there are to be
}

func sameReplacing(a, b *cluster.Replacing) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// TooManyPending waits when changes came in between of each other again and
// again: a later generation has to ask for the promises of every set that they
// can lead to.
//
// It does not keep a voter whose host is not under this leader's fence from being
// taken out: while that one is listed nothing is ever quiet, and so it would be
// waited for for ever. There are fewer of those than voters.
func TooManyPending(v *View, op cluster.Op, reason words.Text) *decision.Decision {
	if len(v.Intent.Pending) < cluster.MostPending || op.Kind == cluster.OpRemove && slices.Contains(unfenced(v), op.Member) {
		return nil
	}
	if d := StrikePending(v); d != nil { // a rule that waits here is before the one that tidies up
		return d
	}
	return decision.WaitLater("settling", "", "{pending} changes of voters began and their end is unknown; waiting for that{mayStillAct}: {reason}", len(v.Intent.Pending), mayStillAct(v), reason)
}

// mayStillAct names the voters because of which nothing is seen to end.
func mayStillAct(v *View) string {
	var names []string
	for _, id := range unfenced(v) {
		s, _ := v.Roster.Seat(id)
		names = append(names, words.SeatName(s))
	}
	if len(names) == 0 {
		return ""
	}
	return ", unknown while a voter's host has not accepted this leader's fence (" + strings.Join(names, ", ") + ")"
}

// StrikePending drops the changes that another one came in between of, once no call for
// them can be left; nil: it may be, or there are none.
func StrikePending(v *View) *decision.Decision {
	if len(v.Intent.Pending) == 0 || !v.Obs.Store.Read || !v.Seen || QuietFor(v) < CallsEnd {
		return nil
	}
	in := v.Intent.Clone()
	in.Pending = nil
	return &decision.Decision{
		Reason: words.F("recorded changes of voters were not made within {quietFor}: drop them", QuietFor(v).Round(time.Second)),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
	}
}

// QuietFor is how long nobody else can have begun a change of the voters.
func QuietFor(v *View) time.Duration {
	q := v.Obs.Memory.Quiet
	if q.Since.IsZero() || q.Fence != v.Obs.Fence || q.Generation != v.Intent.Generation || q.Write != v.Intent.Write {
		return 0
	}
	return v.Obs.At.Sub(q.Since)
}

// unfenced are the voters whose hosts may still carry out an op of another leader.
func unfenced(v *View) (out []cluster.MemberID) {
	for _, s := range v.Roster.Voters() {
		if s.Host == nil || !s.Host.UnderFence {
			out = append(out, s.ID)
		}
	}
	return out
}

// CallsEnd is how long after the last write of the intent a membership call
// that was decided on before it can still take effect, while every voter's host
// is under this leader's fence: the op may rely on an observation of five
// seconds, looks for two, calls for five, and etcd's raft may take as long again
// to tell the loss of a proposal.
const CallsEnd = 20 * time.Second
