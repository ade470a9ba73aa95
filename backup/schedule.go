package backup

import "time"

// DefaultInterval is the time from one periodic backup to the next, as the
// predecessor has it.
const DefaultInterval = 15 * time.Minute

// Pauses after a backup that failed: the first one, and what it doubles up to.
const (
	RetryAfter = time.Minute
	RetryMost  = 15 * time.Minute
)

// Schedule says how often backups are made.
type Schedule struct {
	// Interval is the time from the beginning of one to that of the next; zero
	// or less: never.
	Interval time.Duration
}

// Past is what has been done so far.
type Past struct {
	// Last is when the newest backup began (see Last); the zero time: there is
	// none.
	Last time.Time
	// Failed is when the last attempt since then failed, Failures how many have
	// in a row; the zero values: none.
	Failed   time.Time
	Failures int
}

// Last is the time of the newest backup that did not begin in the future, as
// one can whose host's clock was wrong: it must not hold up those that follow.
// The zero time says that there is none.
func Last(names []Name, now time.Time) time.Time {
	var last time.Time
	for _, n := range names {
		if at := n.Time(); at.After(last) && !at.After(now) {
			last = at
		}
	}
	return last
}

// Due tells when the next periodic backup is to begin, and whether there is one.
// It is due when that time is not after now; a time before now says since when.
//
// A last time in the future is taken for a clock that was wrong: the backup is
// due at once. A failed attempt is followed by another after RetryAfter,
// doubling to RetryMost, and never later than the interval asks.
func Due(s Schedule, past Past, now time.Time) (at time.Time, scheduled bool) {
	if s.Interval <= 0 {
		return time.Time{}, false
	}
	at = now
	if !past.Last.IsZero() && !past.Last.After(now) {
		at = past.Last.Add(s.Interval)
	}
	if past.Failures > 0 && !past.Failed.IsZero() && !past.Failed.After(now) {
		if retry := past.Failed.Add(pause(past.Failures, s.Interval)); retry.After(at) {
			at = retry
		}
	}
	return at, true
}

// pause is the time to wait after so many failures in a row.
func pause(failures int, interval time.Duration) time.Duration {
	most := min(RetryMost, interval)
	wait := RetryAfter
	for i := 1; i < failures && wait < most; i++ {
		wait *= 2
	}
	return min(wait, most)
}
