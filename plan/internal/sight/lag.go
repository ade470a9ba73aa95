package sight

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/words"
)

// Furthest is the highest raft index that a member in sight reports.
func (v *Sight) Furthest() uint64 {
	var top uint64
	for _, s := range v.Roster.Seats {
		if s.Host != nil && s.Host.Status != nil {
			top = max(top, s.Host.Status.Index)
		}
	}
	return top
}

// listIndex is a raft index at which the present member list was applied: the
// lowest that a voter has which is up.
func listIndex(v *Sight) uint64 {
	var low uint64
	for i, s := range v.Roster.Up() {
		if a := s.Host.Status.Applied; i == 0 || a < low {
			low = a
		}
	}
	return low
}

// KeepsUp reports whether a voter that is up served a quorum read, so that its list is
// current; of a learner, which serves no list, its index tells. Hosts are not
// looked at in the same instant, so a little is allowed for what was written
// in between.
func KeepsUp(v *Sight, s cluster.Seat) bool {
	if !s.Learner || !s.Up {
		return s.Up
	}
	top := listIndex(v)
	return s.Host.Status.Applied >= top-min(top/100, 1000)
}

// CaughtUp reports whether the learner's host stays, it answers, and what it has itself applied is as near to the
// furthest log in sight as mayLag says.
func (v *Sight) CaughtUp(s cluster.Seat) bool {
	top := v.Furthest()
	return s.Up && len(s.Host.Paused) == 0 && s.Host.Status.Learner && s.Host.Status.Applied >= top-min(top, mayLag(v))
}

// mayLag is how many entries a learner may be behind and become a voter: a tenth of the
// log, and [NearEntries], whichever is less. Source: etcd refuses a promotion below 90 %
// of the leader's index, and no other: of ten million entries one would do that lacks a
// million of them. Where one voter becomes two, nothing is written from then on until
// the new one has them all. We ask for what etcd asks for as well, because it would
// refuse otherwise.
//
// One entry of grace keeps the answer of a young cluster from flickering, where one
// entry is more than a tenth: hosts are not looked at in the same instant. Under a heavy
// load a learner that has everything seems to lag by what is written in between, and
// would wait for ever; so that much is allowed for, which takes no longer to send than
// it took to write.
func mayLag(v *Sight) uint64 {
	top := v.Furthest()
	return min(max(top/10, 1), NearEntries+writtenWithin(v, looksApart))
}

// looksApart is how far apart in time two hosts may be seen in one look.
const looksApart = 2 * time.Second

// writtenWithin is how many entries are written within a time, as far as the store's
// revision tells: every write has one of its own. A new generation begins far above the
// one before, which nobody wrote.
func writtenWithin(v *Sight, d time.Duration) uint64 {
	for _, past := range slices.Backward(v.Obs.Memory.Upkeep.Revisions) {
		passed, written := v.Obs.At.Sub(past.At), v.Revision()-past.Revision
		if passed < time.Second {
			continue // this very look
		}
		if written <= 0 || written >= cluster.RevisionMargin || passed > cluster.MaxUnwatched {
			return 0
		}
		return uint64(float64(written) * d.Seconds() / passed.Seconds())
	}
	return 0
}

// Revision is the newest that a voter has.
func (v *Sight) Revision() (top int64) {
	for _, s := range v.Roster.Up() {
		top = max(top, s.Host.Status.Revision)
	}
	return top
}

func Lag(v *Sight, s cluster.Seat) string {
	if len(s.Host.Paused) > 0 {
		return "its host is paused, and it becomes a voter after that"
	}
	if s.Host.Status == nil {
		return "its process is " + words.ProcessWords(s.Host.Process)
	}
	return fmt.Sprintf("it is at index %d of %d, and may become a voter within %d of that", s.Host.Status.Applied, v.Furthest(), mayLag(v))
}

const (
	// NearEntries is how many entries a member may be behind the furthest log and be
	// counted on. Source: 5000 is DefaultSnapshotCatchUpEntries, which raft's leader keeps
	// behind each snapshot, so that the rest of a member within them comes as entries and
	// never as a whole database; and maxGapBetweenApplyAndCommitIndex, by which etcd itself
	// calls a member too slow to take more (etcdserver of 3.5.35, 3.6.16 and 3.7.3).
	NearEntries = 5000
)
