package sim

import (
	"hash/fnv"
	"maps"
	"sync"
	"time"

	"etcdadm.io/cluster"
)

// dice is the chance of one event. It is a hash, not a stream: who asks first
// changes nothing (docs/adr/001).
type dice uint64

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// roll is a further, independent number of the same event.
func (d dice) roll(n uint64) dice { return dice(mix(uint64(d) ^ mix(n))) }

// below is uniform in [0, n); n must be positive.
func (d dice) below(n int) int { return int(uint64(d) % uint64(n)) }

// chance is true with probability p.
func (d dice) chance(p float64) bool { return float64(uint64(d)>>11)/(1<<53) < p }

// within is uniform in [lo, hi), with a nanosecond of its own.
func (d dice) within(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(uint64(d)%uint64(hi-lo))
}

// wait is a small wait that keeps what begins or ends at one instant apart.
func (d dice) wait() time.Duration {
	return d.within(time.Microsecond, 50*time.Microsecond)
}

// links gives every link its own sequence of dice.
type links struct {
	seed uint64

	mu  sync.Mutex // guards seq
	seq map[string]*link
}

type link struct {
	hash uint64
	n    uint64
}

func newLinks(seed uint64) *links { return &links{seed: seed, seq: map[string]*link{}} }

// next is the fate of the next event on a link.
func (l *links) next(name string) dice {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.seq[name]
	if k == nil {
		h := fnv.New64a()
		h.Write([]byte(name))
		k = &link{hash: mix(l.seed ^ h.Sum64())}
		l.seq[name] = k
	}
	k.n++
	return dice(mix(k.hash ^ mix(k.n)))
}

// plane is which of the networks a partition is about.
type plane string

const (
	daemons plane = "daemons" // between daemons
	members plane = "members" // between etcd members, their clients and probes of peer ports
	stores  plane = "store"   // from a host to the backup store; the store is the host ""
)

type way struct {
	plane    plane
	from, to cluster.HostID
}

// cuts are the ways that are cut, each in one direction.
type cuts struct {
	mu      sync.RWMutex // guards the rest
	cut     map[way]bool
	changed time.Time
}

// changedSince: something was cut or joined again since then.
func (c *cuts) changedSince(t time.Time) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changed.After(t)
}

// any: something is cut in this network.
func (c *cuts) any(p plane) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for w := range c.cut {
		if w.plane == p {
			return true
		}
	}
	return false
}

func (c *cuts) open(p plane, from, to cluster.HostID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return !c.cut[way{p, from, to}]
}

func (c *cuts) set(cut bool, ways ...way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = time.Now()
	for _, w := range ways {
		if cut {
			c.cut[w] = true
		} else {
			delete(c.cut, w)
		}
	}
}

func (c *cuts) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = time.Now()
	clear(c.cut)
}

// moments are the instants at which something of the simulator's is to happen.
// No two are the same, so that nothing is left to the runtime, which draws the
// order of timers that fire at one instant.
type moments struct {
	mu    sync.Mutex // guards taken
	taken map[int64]bool
}

// claim is the time until a free instant, d or little more from now. It is
// positive: whoever waits for it lets everything else of this instant happen.
func (m *moments) claim(d time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UnixNano()
	if len(m.taken) >= mostMoments {
		maps.DeleteFunc(m.taken, func(at int64, _ bool) bool { return at <= now })
	}
	if m.taken == nil {
		m.taken = map[int64]bool{}
	}
	at := now + max(1, int64(d))
	for m.taken[at] {
		at++
	}
	m.taken[at] = true
	return time.Duration(at - now)
}

// mostMoments is when instants that are over are forgotten.
const mostMoments = 4096
