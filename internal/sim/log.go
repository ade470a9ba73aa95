package sim

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// probeName is random in each run.
var probeName = regexp.MustCompile(`\.etcdadm-probe-[0-9a-z]+`)

// loopSays are the lines that only a leader's loop logs. Others are logged by
// whoever has something to say, also with a lock held; held up there, the whole
// bubble would stand still, since a bubble's clock does not move for a mutex.
var loopSays = map[string]bool{"decision": true, "blocked": true, "no longer blocked": true, "blocked by something else now": true}

// logHandler puts a daemon's log lines into the timeline.
type logHandler struct {
	d     *daemon
	attrs string
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	h.d.mu.Lock()
	dead := h.d.dead
	h.d.mu.Unlock()
	if dead {
		return nil
	}
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	text := probeName.ReplaceAllString(b.String(), "probe") + h.attrs
	if loopSays[r.Message] {
		h.d.heldUp(Held{Host: h.d.id, Line: text})
	}
	h.d.tracef("%s", text)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &c
}

func (h *logHandler) WithGroup(string) slog.Handler { return h }
