package sim

import (
	"hash/fnv"
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

// links gives every link its own sequence of dice.
type links struct {
	seed uint64

	mu  sync.Mutex // guards seq
	seq map[string]*link
}

type link struct {
	hash uint64
	n    uint64
	at   time.Time // of the n-th event
}

func newLinks(seed uint64) *links { return &links{seed: seed, seq: map[string]*link{}} }

// next is the fate of the next event on a link. Events of one instant share
// theirs: which of them asks first is not the seed's to say.
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
	if now := time.Now(); !now.Equal(k.at) {
		k.n++
		k.at = now
	}
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
	mu  sync.RWMutex // guards the rest
	cut map[way]bool
}

func (c *cuts) open(p plane, from, to cluster.HostID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return !c.cut[way{p, from, to}]
}

func (c *cuts) set(cut bool, ways ...way) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	clear(c.cut)
}
