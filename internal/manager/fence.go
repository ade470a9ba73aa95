package manager

import (
	"time"

	"etcdadm.io/cluster"
)

const (
	// higherUnused is how long a higher fence must not have been used before
	// this leader raises its own (SAFETY.md, rule 6).
	higherUnused = 10 * time.Second
	// raiseWithin bounds the random wait after that.
	raiseWithin = 5 * time.Second
	// duelLook is how often a refused leader looks again.
	duelLook = time.Second
	// fenceSpread is out of how many numbers a fence is drawn.
	fenceSpread = 1 << 20
)

// fencing is the fence of one leadership.
type fencing struct {
	self  cluster.HostID
	mine  cluster.Fence
	seen  cluster.Fence // the highest of all
	raise time.Time     // when to pick a higher one; zero: not waiting for that
}

// newFencing picks a fence above every one that was heard of.
func newFencing(self cluster.HostID, seen cluster.Fence, random func(time.Duration) time.Duration) *fencing {
	f := &fencing{self: self, seen: seen}
	f.pick(random)
	return f
}

// pick leaves out a random number of numbers, so that a daemon which was killed
// before its own fence was durable, or a second one under the same host ID,
// does not come to the very fence that others have promised already.
func (f *fencing) pick(random func(time.Duration) time.Duration) {
	f.mine = cluster.Fence{Number: f.seen.Number + 1 + uint64(random(fenceSpread)), Host: f.self}
	f.seen, f.raise = f.mine, time.Time{}
}

// refused takes in what the hosts that refused this fence said, all of one
// observation. It returns when to look again; zero: nobody refused. The fence
// is raised only when none of them reports a use of the higher one within
// higherUnused, and then after a random wait, so that two leaders that lost
// sight of each other do not chase each other's fences upwards. Nobody is chased
// where all whose fences they are say that they follow this leader: then it is
// raised at once.
func (f *fencing) refused(by []cluster.Refused, follows func(cluster.HostID) bool, now time.Time, random func(time.Duration) time.Duration) time.Duration {
	rivals, unused, followed := 0, true, true
	for _, r := range by {
		if r.Promised.OutOfReach() {
			continue // no fence would do
		}
		rivals++
		f.seen = higher(f.seen, r.Promised)
		unused = unused && r.Age >= higherUnused
		followed = followed && r.Promised.Host != f.self && follows(r.Promised.Host)
	}
	if rivals == 0 {
		f.raise = time.Time{}
		return 0
	}
	switch {
	case followed:
		f.pick(random)
		return time.Nanosecond
	case !unused:
		f.raise = time.Time{}
		return duelLook
	case f.raise.IsZero():
		f.raise = now.Add(random(raiseWithin))
	}
	if wait := f.raise.Sub(now); wait > 0 {
		return min(wait, duelLook)
	}
	f.pick(random)
	return time.Nanosecond // at once, under the new fence
}
