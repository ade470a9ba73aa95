package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// A replacement is several changes of the voters, and whoever leads may end between
// two of them. How many voters there were, and which one goes, is in the record with
// the first change ([cluster.Replacing]): a spec that is refused says no count, and a
// person's step is not in the spec.

// repairs: what is dead may be replaced. A spec says how many members are wanted; one
// that is refused leaves it at those that are.
func (v *view) repairs() bool { return v.spec != nil || v.standing != nil }

// held: a person keeps the voters as they are.
func (v *view) held() bool {
	return v.spec != nil && v.spec.Hold || v.standing != nil && v.standing.Hold
}

// deadAfter is how long a voter has to be silent to count as dead.
func (v *view) deadAfter() time.Duration {
	switch {
	case v.spec != nil:
		return v.spec.DeadAfterOrDefault()
	case v.standing != nil:
		return v.standing.DeadAfterOrDefault()
	}
	return cluster.DefaultDeadAfter
}

// named: the host may carry a member, since it is named, or none is.
func (v *view) named(h *cluster.HostReport) bool {
	var hosts []cluster.HostID
	switch {
	case v.spec != nil:
		hosts = v.spec.Hosts
	case v.standing != nil:
		hosts = v.standing.Hosts
	}
	return len(hosts) == 0 || slices.Contains(hosts, h.Host)
}

// standingCount is how many voters there are to be where no spec says it: those that are
// listed; fewer only where a person's step has one too many on the way. While the spec is
// refused also one that a repair has removed and not replaced yet.
func (v *view) standingCount(listed int) int {
	switch r := v.intent.Underway(); {
	case r == nil:
		return listed
	case v.replacingListed():
		return min(listed, r.Voters)
	case v.standing == nil || v.goal.Hold:
		return listed
	default:
		return max(listed, r.Voters)
	}
}

// standingWords is what goes on while the spec is refused.
func (v *view) standingWords() string {
	if v.held() {
		return "the settings beside it put it on hold, so that no dead voter is replaced either"
	}
	return fmt.Sprintf("a dead voter is replaced after %s, and backups go on", v.deadAfter())
}

// replacingListed: the voter that is being replaced still is one.
func (v *view) replacingListed() bool {
	r := v.intent.Underway()
	return r != nil && slices.ContainsFunc(v.roster.Voters(), func(s cluster.Seat) bool { return s.ID == r.Member })
}

// replacingAfter is what the record is to have of a replacement before a change of the
// voters is made.
func (v *view) replacingAfter(op cluster.Op, next []cluster.Voter) *cluster.Replacing {
	was := v.intent.Underway()
	switch asked := v.goal.Replaced; {
	case v.goal.Kind == Replace && asked != nil:
		r := &cluster.Replacing{Member: asked.Member, Host: asked.Host, Voters: asked.Voters}
		if was != nil && (was.Member == r.Member || !v.replacingListed()) {
			r.Voters = max(r.Voters, was.Voters) // another one is being replaced beside it
		}
		return r
	case v.goal.Kind == Leave && (was == nil || v.replacingListed()): // a person has the last word
		return nil
	case v.goal.Kind == Leave && cluster.SameVoters(v.intent.Next, next): // written down already
		return was
	case v.goal.Kind == Leave: // one less than there were to be
		return &cluster.Replacing{Member: was.Member, Host: was.Host, Voters: was.Voters - 1}
	case op.Kind != cluster.OpRemove && !v.replacingListed():
		return was
	case op.Kind != cluster.OpRemove: // the cluster grows meanwhile
		return nil
	case was != nil && was.Member == op.Member:
		return was
	case v.standing != nil:
		return &cluster.Replacing{Member: op.Member, Host: op.Host, Voters: v.wanted()}
	}
	return nil // the spec says how many there are to be
}

func sameReplacing(a, b *cluster.Replacing) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// finishReplacing takes out the voter that a person had replaced, once its successor
// votes and nobody is left who would: the ordinary choice of who goes could take the
// successor.
func (v *view) finishReplacing() *Decision {
	if !v.repairs() || !v.replacingListed() {
		return nil
	}
	r := v.intent.Underway()
	want := r.Voters
	if v.spec != nil && !v.spec.Hold {
		want = max(want, v.spec.MemberCount)
	}
	s, _ := v.roster.Seat(r.Member)
	if len(v.roster.Voters()) <= want {
		return nil
	}
	reason := fmt.Sprintf("%s is being replaced, as a person asked, and its successor is a voter: remove %s", seatName(s), seatName(s))
	if d := v.backupFirst(true, reason); d != nil {
		return d
	}
	return v.takeOut(s, reason)
}
