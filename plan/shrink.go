package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// shrink removes one healthy voter too many. All others have to be up,
// because etcd lets a removal through when the victim happens to be inactive,
// and the quorum could be gone for good (SAFETY.md, rule 3).
func shrink(v *view) *Decision {
	if d := v.finishReplacing(); d != nil {
		return d
	}
	voters := v.roster.Voters()
	if v.spec == nil || len(voters) <= v.wanted() {
		return nil
	}
	s := v.leastWanted(voters)
	reason := fmt.Sprintf("%s wanted and %d are there: remove %s", are(v.wanted(), "voter"), len(voters), seatName(s))
	if d := v.backupFirst(true, reason); d != nil {
		return d
	}
	return v.takeOut(s, reason)
}

// leastWanted picks who goes.
func (v *view) leastWanted(voters []cluster.Seat) cluster.Seat { return LeastWanted(*v.spec, voters) }

// LeastWanted picks of one voter at least who goes when fewer are wanted: a member that is down and does not lead raft, then hosts that the spec
// does not name, then members that do not lead raft, then the last by name.
func LeastWanted(spec cluster.Spec, voters []cluster.Seat) cluster.Seat {
	rank := func(s cluster.Seat) int {
		r := 0
		if !s.Up && !s.RaftLeader {
			r += 4 // one that leads raft cannot be asked to hand over
		}
		if len(spec.Hosts) > 0 && !slices.Contains(spec.Hosts, s.HostID) {
			r += 2
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

// takeOut removes a voter that is up, or of which nothing is known; raft's
// leadership is moved away first.
func (v *view) takeOut(s cluster.Seat, reason string) *Decision {
	up := 0
	if s.Up {
		up = -1
	}
	p := v.projection(-1, up)
	if d := v.awaitAway(s, reason); d != nil {
		return d
	}
	if !p.Keeps(v.wanted()) {
		return waitLater("waiting-for-voters", "", "%s; it would leave too little: %s", reason, p)
	}
	switch {
	case s.RaftLeader && !s.Up:
		return waitLater("waiting-for-voters", "", "%s; it leads raft and cannot be asked to hand over: %s", reason, s.Why)
	case s.RaftLeader && handsOver(s):
		return v.handOver(s, reason, nil)
	}
	return v.removeVoter(s, p, reason)
}
