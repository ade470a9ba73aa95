package sight

import (
	"time"

	"etcdadm.io/cluster"
)

// MaxSkew is the clock skew beyond which a person is told.
const MaxSkew = 10 * time.Second

// LeadersTime is a time of a host's clock by the leader's. A backup that was
// taken just now by a host whose clock is behind would be too old at once, and
// so be taken again and again, before anything else that is to be done.
func (v *Sight) LeadersTime(h *cluster.HostReport, t time.Time) time.Time {
	if h.Clock.IsZero() {
		return t
	}
	return t.Add(v.Obs.At.Sub(h.Clock))
}

// Ago is how long ago something ended on a host, by its clock. What lies ahead of
// that clock ended before it went back, and is taken for long ago: who waits for a
// time to pass after it would wait until the clock has caught up.
func (v *Sight) Ago(h *cluster.HostReport, t time.Time) time.Duration {
	if h.WentBack(t) {
		return LongAgo
	}
	return v.Obs.At.Sub(v.LeadersTime(h, t))
}

// LongAgo is longer than anything is waited for.
const LongAgo = 100 * 365 * 24 * time.Hour

// Newer leaves out what lies in the future, which says nothing of any age: a
// clock went back since.
func (v *Sight) Newer(a, b time.Time) time.Time { return NewerBy(v.Obs.At, a, b) }

// NewerBy is newer by another clock.
func NewerBy(now, a, b time.Time) time.Time {
	if b.After(a) && b.Sub(now) <= MaxSkew {
		return b
	}
	return a
}
