package runtime

import "time"

// Backoff says when a process that ended is started again. It is data, so that
// it can be shown and tested.
type Backoff struct {
	// Delays is the time before the first, second, … restart after failures
	// in a row; the last one repeats.
	Delays []time.Duration
	// Healthy is the uptime after which failures are forgotten.
	Healthy time.Duration
}

// DefaultBackoff restarts at once the first time, since most ends are one-time
// events and a cluster misses its member, and later spares the machine.
var DefaultBackoff = Backoff{
	Delays: []time.Duration{
		0, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 16 * time.Second, 30 * time.Second,
	},
	Healthy: time.Minute,
}

// Delay is the time to wait after the given number of failures in a row.
func (b Backoff) Delay(failures int) time.Duration {
	if failures < 1 || len(b.Delays) == 0 {
		return 0
	}
	return b.Delays[min(failures, len(b.Delays))-1]
}

// fold is the number of failures in a row after one more, of a process that was
// up for that long.
func (b Backoff) fold(failures int, uptime time.Duration) int {
	if uptime >= b.Healthy {
		return 1
	}
	return failures + 1
}
