package plan

import (
	"fmt"
	"strings"

	"etcdadm.io/cluster"
)

// changeUnstored is changeVoters while the store does not answer. A person has
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
func (v *view) changeUnstored(next []cluster.Voter, p cluster.Projection, op cluster.Op, except cluster.MemberID, command, reason string) *Decision {
	in, now := v.intent, v.votersNow()
	switch {
	case !v.goal.NoStore:
		return wait(false, "store-silent", v.unstoredCommand(command), "waiting for the backup store, in which a change of the voters is written down first: %s", reason)
	case !cluster.SameVoters(in.Voters, now) && !cluster.SameVoters(in.Next, now):
		// A quorum of these voters is no quorum of those that were written down.
		return refuse("store-silent", "", "the voters are not those that were written down, so that the backup store has to come first: %s", reason)
	case cluster.SameVoters(in.Voters, now) && cluster.SameVoters(in.Next, next) && sameReplacing(in.Replacing, v.replacingAfter(op, next)):
		if d := v.awaitKeepers(reason); d != nil {
			return d
		}
		return v.membership(p, op, except, command, reason)
	}
	if d := v.tooManyPending(op, reason); d != nil {
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
	keep.Replacing = v.replacingAfter(op, next)
	return &Decision{
		Reason: v.unreadWords() + "; have the hosts write down the new voters first: " + reason,
		Again:  soon,
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Keep: keep}, Projection: &p, Command: v.unstoredCommand(command)},
	}
}

// awaitKeepers waits until the hosts keep the newest intent; nil: they do.
func (v *view) awaitKeepers(reason string) *Decision {
	kept := 0
	var not []string
	for _, s := range v.roster.Voters() {
		switch {
		case s.Host == nil || !s.Host.UnderFence:
		case v.intent.Order(s.Host.Intent) == 0:
			kept++
		default:
			not = append(not, string(s.Host.Host))
		}
	}
	voters := len(v.roster.Voters())
	if kept >= cluster.Quorum(voters) && len(not) == 0 {
		return nil
	}
	return wait(true, "store-silent", "", "%d of %d voters' hosts have written down the new voters%s, and %d and every one in sight must have: %s",
		kept, voters, because(notYet(not)), cluster.Quorum(voters), reason)
}

func notYet(hosts []string) []string {
	if len(hosts) == 0 {
		return nil
	}
	return []string{"not yet: " + strings.Join(hosts, ", ")}
}

func (v *view) unstoredCommand(command string) string {
	switch {
	case command == "":
		return ""
	case v.goal.Hold:
		return command + " --hold --no-store"
	}
	return command + " --no-store"
}

// unreadWords is why nothing in the store is gone by. One that refuses to be read has
// answered, and what it said is told beside this.
func (v *view) unreadWords() string {
	if v.obs.Store.Untried {
		return "the backup store cannot be relied on"
	}
	return "the backup store cannot be read"
}

// unstoredWords says that the store is behind what the hosts keep.
func (v *view) unstoredWords() string {
	if v.intent == nil || v.intent.Unstored.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the hosts alone keep the newest record of the voters (write %d), so lose none of their disks and call none of them lost before it answers", v.intent.Write)
}
