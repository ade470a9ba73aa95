package cluster

import (
	"testing"
	"time"
	"unsafe"
)

// wallAhead is a time whose wall clock is so much later, and whose monotonic clock is the
// same, as after a machine was suspended, or its clock was set. Source: time.Time keeps
// the seconds above 30 bits of nanoseconds in its first word; no call of package time
// takes one of the two clocks along without the other.
func wallAhead(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	then := at
	*(*uint64)(unsafe.Pointer(&then)) += uint64(d/time.Second) << 30
	if then.Sub(at) != 0 || then.Round(0).Sub(at.Round(0)) != d.Truncate(time.Second) {
		t.Fatalf("package time keeps its clocks in another way by now: %v and %v", then.Sub(at), then.Round(0).Sub(at.Round(0)))
	}
	return then
}

// TestAgeByBothClocks: a leader that acts on what was seen before its machine slept,
// or before this host's did, acts on something old, whichever clock shows it.
func TestAgeByBothClocks(t *testing.T) {
	at := time.Now()
	for what, c := range map[string]struct {
		now   time.Time
		stale bool
	}{
		"at once":                            {at, false},
		"just in time":                       {at.Add(MaxStampAge), false},
		"too late by both":                   {at.Add(MaxStampAge + time.Second), true},
		"the machine was suspended":          {wallAhead(t, at, time.Hour), true},
		"its clock was set back meanwhile":   {wallAhead(t, at.Add(MaxStampAge+time.Second), -time.Hour), true},
		"its clock was set back a little":    {wallAhead(t, at.Add(time.Second), -2*time.Second), false},
		"suspended for longer than it lasts": {wallAhead(t, at.Add(time.Second), MaxStampAge), true},
	} {
		if age := Age(at, c.now); age > MaxStampAge != c.stale {
			t.Errorf("%s: an age of %s", what, age)
		}
	}
}
