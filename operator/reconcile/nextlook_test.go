package reconcile

import (
	"testing"
	"time"

	"etcdadm.io/operator/decide"
)

// TestLooksWhenAHostIsLost looks again at the time from which on another host takes the place of one that is silent, and not up
// to a whole pause later.
func TestLooksWhenAHostIsLost(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		silent []time.Duration
		waits  []decide.Wait
		want   time.Duration
	}{
		{nil, nil, lookAgain},
		{[]time.Duration{0}, nil, lookSoon},
		{[]time.Duration{24 * time.Second}, nil, 6 * time.Second},
		{[]time.Duration{5 * time.Second, 27 * time.Second, time.Hour}, nil, 3 * time.Second},
		{[]time.Duration{30*time.Second - time.Millisecond}, nil, time.Second},
		{[]time.Duration{30 * time.Second}, nil, lookSoon}, // it is lost, and what is decided may wait for others
		{[]time.Duration{24 * time.Second}, []decide.Wait{{Code: decide.Pending}}, 6 * time.Second},
		{[]time.Duration{24 * time.Second}, []decide.Wait{{Code: decide.Rolling}}, lookRolling},
	} {
		w := decide.World{Now: now, Want: decide.Want{ReplaceAfter: 30 * time.Second}, Hosts: []decide.Host{{N: 9}}}
		for i, s := range c.silent {
			w.Hosts = append(w.Hosts, decide.Host{N: i + 1, SilentSince: now.Add(-s)})
		}
		if is := nextLook(&w, decide.Decision{Waits: c.waits}); is != c.want {
			t.Errorf("silent for %s, waits %v: looks after %s, want %s", c.silent, c.waits, is, c.want)
		}
	}
}
