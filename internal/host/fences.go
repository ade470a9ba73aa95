package host

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Fences has the observations that an op may still quote, and when the promised fence was
// used last.
type Fences struct {
	keeper *record.Keeper

	mu     sync.Mutex
	used   time.Time
	stamps []stamp
}

// observed keeps an observation under a fence.
func (f *Fences) observed(st stamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stamps = append(f.stamps, st)
	f.stamps = slices.Clone(f.stamps[max(0, len(f.stamps)-keptStamps):])
}

// admitted is for an op that begins. One observation is good for one op: a second copy of
// the request, late on its way, would act on what the first one has changed.
func (f *Fences) admitted(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
	f.stamps = slices.DeleteFunc(slices.Clone(f.stamps), func(st stamp) bool { return st.id == id })
}

// drop has no op quote an observation from before.
func (f *Fences) drop() {
	f.mu.Lock()
	f.stamps = nil
	f.mu.Unlock()
}

// stale says why the observation that an op relies on is too old; "" when it is
// not.
func (f *Fences) stale(req cluster.ApplyRequest) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.stamps, func(st stamp) bool { return st.id == req.Stamp && st.fence == req.Fence })
	if i < 0 || req.Stamp == "" {
		return "the op quotes no observation that this host remembers; observe it again"
	}
	age := cluster.Age(f.stamps[i].at, time.Now())
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

// keptStamps is how many observations an op may still quote.
const keptStamps = 8

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
