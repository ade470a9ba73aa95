package peer

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// onceLog says the same thing again only after ten minutes: a caller that is
// refused tries on for ever. One that is refused each time for another reason,
// or under another name, does not fill the log either: in all a line is written
// every ten seconds, after a few dozen.
type onceLog struct {
	log *slog.Logger

	mu    sync.Mutex
	said  map[string]time.Time // guarded by mu
	lines float64              // guarded by mu; that may be written now
	at    time.Time            // guarded by mu; of lines
	mute  int                  // guarded by mu; lines that were not written
}

const (
	sayAgainAfter = 10 * time.Minute
	remembered    = 256
	linesAtOnce   = 60
	lineEvery     = 10 * time.Second
	// maxWords is how much is written of what a caller said of itself.
	maxWords = 512 // bytes
)

// times are in what is said of a certificate that is not valid now, which is the same
// thing a second later.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

func newOnceLog(log *slog.Logger) *onceLog {
	return &onceLog{log: log, said: make(map[string]time.Time), lines: linesAtOnce}
}

// warn takes pairs of a key and a string.
func (o *onceLog) warn(message string, pairs ...string) {
	args := make([]any, 0, len(pairs)+2)
	for i, p := range pairs {
		if len(p) > maxWords {
			p = strings.ToValidUTF8(p[:maxWords], "") + "…"
			pairs[i] = p
		}
		args = append(args, p)
	}
	mute, speak := o.may(times.ReplaceAllString(message+"\x00"+strings.Join(pairs, "\x00"), ""))
	if !speak {
		return
	}
	if mute > 0 {
		args = append(args, "notSaid", mute)
	}
	o.log.Warn(message, args...)
}

// may says whether a line is to be written, and how many were not before it.
func (o *onceLog) may(key string) (mute int, speak bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if last, known := o.said[key]; known && now.Sub(last) < sayAgainAfter {
		return 0, false
	}
	if !o.at.IsZero() {
		o.lines = min(linesAtOnce, o.lines+now.Sub(o.at).Seconds()/lineEvery.Seconds())
	}
	if o.at = now; o.lines < 1 {
		o.mute++
		return 0, false
	}
	o.lines--
	if len(o.said) >= remembered {
		clear(o.said)
	}
	o.said[key] = now
	mute, o.mute = o.mute, 0
	return mute, true
}
