package host

import (
	"fmt"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Fences has the observation that an op may still quote, the newest one, and when the promised
// fence was used last. An op of an earlier one, late on its way, would act beside what a
// later one has shown, and what was done for that.
type Fences struct {
	keeper *record.Keeper

	mu     sync.Mutex
	used   time.Time
	newest stamp
}

// observed keeps an observation under a fence.
func (f *Fences) observed(st stamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = st
}

// admitted is for an op that begins. One observation is good for one op: a second copy of
// the request, late on its way, would act on what the first one has changed.
func (f *Fences) admitted(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
	if f.newest.id == id {
		f.newest = stamp{}
	}
}

// drop has no op quote an observation from before.
func (f *Fences) drop() {
	f.mu.Lock()
	f.newest = stamp{}
	f.mu.Unlock()
}

// stale says why the observation that an op relies on is too old; "" when it is
// not.
func (f *Fences) stale(req cluster.ApplyRequest) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.Stamp == "" || f.newest.id != req.Stamp || f.newest.fence != req.Fence {
		return "the op does not quote the newest observation of this host; observe it again"
	}
	age := cluster.Age(f.newest.at, time.Now())
	if age > cluster.MaxStampAge {
		return fmt.Sprintf("the op relies on an observation that is %s old, more than %s; observe again", age.Round(time.Millisecond), cluster.MaxStampAge)
	}
	return ""
}

// stamp remembers one observation under a fence.
type stamp struct {
	id    string
	fence cluster.Fence
	at    time.Time // with the monotonic clock; taken before anything was looked at
}

func (f *Fences) Use() {
	f.mu.Lock()
	f.used = time.Now()
	f.mu.Unlock()
}

func (f *Fences) Refusal() *cluster.Refused {
	promised := f.keeper.Now().Promised
	f.mu.Lock()
	defer f.mu.Unlock()
	return &cluster.Refused{Promised: promised, Age: time.Since(f.used)}
}
