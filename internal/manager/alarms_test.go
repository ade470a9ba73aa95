package manager

import (
	"testing"
	"time"
)

// An alarm that the leader's own member tells of is looked at within a second or so,
// and not at the next look by the clock; while it stays nothing wakes the leader.
func TestAlarmWakesTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, _ := w.three()
		w.untilLeads(time.Second, "a")
		looks := func() int { return get(b.host, func() int { return b.host.observed }) }
		raise := func(alarms ...string) {
			a.host.mu.Lock()
			defer a.host.mu.Unlock()
			a.host.alarms = alarms
		}
		time.Sleep(30 * time.Second)
		for range 5 {
			for _, alarms := range [][]string{{"NOSPACE 1"}, nil} {
				before := looks()
				raise(alarms...)
				time.Sleep(1200 * time.Millisecond)
				now := looks()
				if now == before {
					t.Errorf("nobody looked within 1.2 s after the alarms were %q", alarms)
				}
				time.Sleep(6 * time.Second)
				if n := looks() - now; n > 1 {
					t.Errorf("%d looks in 6 s in which nothing happened", n)
				}
			}
		}
	})
}
