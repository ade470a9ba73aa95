package plan

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
)

const (
	// settled is how long every other voter's process has to have run before a member is
	// taken away: what began a moment ago, with another release, other options or other
	// certificates, may end again. Source: etcd's HealthInterval, after which it counts a
	// member as connected and accepts removals.
	settled = 5 * time.Second
	// nearEntries is how many entries a member may be behind the furthest log and be
	// counted on. Source: 5000 is DefaultSnapshotCatchUpEntries, which raft's leader keeps
	// behind each snapshot, so that the rest of a member within them comes as entries and
	// never as a whole database; and maxGapBetweenApplyAndCommitIndex, by which etcd itself
	// calls a member too slow to take more (etcdserver of 3.5.35, 3.6.16 and 3.7.3).
	nearEntries = 5000
)

// hindrance is what keeps a member from being taken away now.
type hindrance struct {
	why    string
	again  time.Duration // when to look again
	blocks bool          // it may last, and whoever is on call has to know
	settle bool          // a process has run for less than [settled], which is over soon
}

// mayBeAway says what keeps a member from being taken away, for a moment or for good:
// restarted, defragmented, listed at another address, removed (SAFETY.md, rules 1 and 3).
// Nil: nothing does. It is the one gate for all of these. What a step needs beside it,
// such as room on the disk, it asks itself.
//
// Without a member, it says whether every voter can be counted on.
func (v *view) mayBeAway(s cluster.Seat) *hindrance {
	for _, o := range v.roster.Voters() {
		if o.ID != s.ID && !o.Up {
			return &hindrance{why: fmt.Sprintf("every other voter has to be up (%s: %s)", seatName(o), o.Why), again: later, blocks: true}
		}
	}
	top := v.furthest()
	for _, o := range v.roster.Voters() {
		if o.ID == s.ID {
			continue
		}
		if left := v.unsettled(o); left > 0 && !servesNobody(s) {
			return &hindrance{why: fmt.Sprintf("%s has to be up for %s first", seatName(o), settled), again: max(soon, left), settle: true}
		}
		if at := o.Host.Status.Applied; at+nearEntries < top {
			return &hindrance{why: fmt.Sprintf("%s has to catch up first: it has applied %d of %d entries", seatName(o), at, top), again: later, blocks: true}
		}
	}
	return v.readThrough(s)
}

// unsettled is how long the voter's process still has to run before the voter is counted
// on; zero: it is. Where nobody knows when it began, the time counts from when the voter
// was seen to be up.
func (v *view) unsettled(o cluster.Seat) time.Duration {
	lasted := o.Host.Process.Uptime
	if since := v.obs.Memory.Member(o.ID).HealthySince; lasted == 0 && !since.IsZero() {
		lasted = v.obs.At.Sub(since)
	}
	return max(min(settled-lasted, settled), 0)
}

// servesNobody: the member listens on the quarantine's URLs only, so that no client
// notices when it is away.
func servesNobody(s cluster.Seat) bool { return s.Host != nil && s.Host.Local.Quarantined }

// readThrough says what is being read through the member and would break off.
func (v *view) readThrough(s cluster.Seat) *hindrance {
	if s.Host == nil || !s.Up {
		return nil
	}
	switch h := s.Host; {
	case h.Taken != nil && h.Taken.Running:
		return &hindrance{why: fmt.Sprintf("the backup that host %s takes has to end first", seatName(s)), again: soon}
	case h.Hash != nil && h.Hash.Running:
		return &hindrance{why: fmt.Sprintf("the hash that host %s makes has to end first", seatName(s)), again: soon}
	}
	return nil
}

// awaitAway is the decision to wait for what keeps a member from being taken away; nil:
// nothing does.
func (v *view) awaitAway(s cluster.Seat, reason string) *Decision {
	switch h := v.mayBeAway(s); {
	case h == nil:
		return nil
	case !h.blocks:
		return &Decision{Reason: reason + "; " + h.why, Again: h.again}
	default:
		d := wait(false, "waiting-for-voters", "", "%s; %s", reason, h.why)
		d.Again = h.again
		return d
	}
}
