package members

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Shrink removes one healthy voter too many. All others have to be up,
// because etcd lets a removal through when the victim happens to be inactive,
// and the quorum could be gone for good (SAFETY.md, rule 3).
func Shrink(v *step.View) *decision.Decision {
	if d := FinishReplacing(v); d != nil {
		return d
	}
	voters := v.Roster.Voters()
	if v.Spec == nil || len(voters) <= v.Wanted() {
		return nil
	}
	s := LeastWanted(*v.Spec, voters)
	reason := words.F("{voters} voters present, {wanted} wanted: remove {member}", len(voters), v.Wanted(), words.SeatName(s))
	if d := step.BackupFirst(v, true, reason); d != nil {
		return d
	}
	return step.TakeOut(v, s, reason)
}

// LeastWanted picks who goes when fewer voters are wanted: a member on a host that the spec does
// not name, then one that is down and does not lead raft, then one that does not lead raft, then
// the last by name. There is one voter at least. One on a named host that is down for a moment
// is no reason to keep one that is to make way.
func LeastWanted(spec cluster.Spec, voters []cluster.Seat) cluster.Seat {
	rank := func(s cluster.Seat) int {
		r := 0
		if !s.Up && !s.RaftLeader {
			r += 2 // one that leads raft cannot be asked to hand over
		}
		if len(spec.Hosts) > 0 && !slices.Contains(spec.Hosts, s.HostID) {
			r += 4
		}
		if !s.RaftLeader {
			r++
		}
		return r
	}
	best := voters[0]
	for _, s := range voters[1:] {
		if rank(s) > rank(best) || rank(s) == rank(best) && s.HostID > best.HostID {
			best = s
		}
	}
	return best
}

// FinishReplacing takes out the voter that a person had replaced, once its successor
// votes and nobody is left who would: the ordinary choice of who goes could take the
// successor.
func FinishReplacing(v *step.View) *decision.Decision {
	if !v.Repairs() || !v.ReplacingListed() {
		return nil
	}
	r := v.Intent.Underway()
	want := r.Voters
	if v.Spec != nil && !v.Spec.Hold {
		want = max(want, v.Spec.MemberCount)
	}
	s, _ := v.Roster.Seat(r.Member)
	if len(v.Roster.Voters()) <= want {
		return nil
	}
	reason := words.F("{member} is being replaced, as asked, and its successor is a voter: remove {member2}", words.SeatName(s), words.SeatName(s))
	if d := step.BackupFirst(v, true, reason); d != nil {
		return d
	}
	return step.TakeOut(v, s, reason)
}
