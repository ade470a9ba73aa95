package manager

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"etcdadm.io/plan"
)

const (
	// A decision that differs from the last one in numbers only (a learner
	// that catches up) is said again after a while that grows.
	quietFirst = time.Second
	quietMost  = 10 * time.Minute
)

var (
	durations = regexp.MustCompile(`\d+(\.\d+)?(ns|µs|ms|s|m|h)(\d+(\.\d+)?(ns|µs|ms|s|m))*`)
	numbers   = regexp.MustCompile(`\d+`)
)

// speaker says a decision when it changes. Time that passes is no change.
type speaker struct {
	log   *slog.Logger
	text  string // what was said last, without durations
	shape string // and without numbers
	at    time.Time
	quiet time.Duration
	since time.Time // when the shape became this one
}

// say reports whether the decision was news.
func (s *speaker) say(d plan.Decision, now time.Time) bool {
	text := durations.ReplaceAllString(words(d), "")
	shape := numbers.ReplaceAllString(text, "")
	switch {
	case text == s.text:
		return false
	case shape != s.shape:
		s.quiet, s.since = quietFirst, now
	case now.Sub(s.at) < s.quiet:
		return false
	default:
		s.quiet = min(2*s.quiet, quietMost)
	}
	s.text, s.shape, s.at = text, shape, now
	s.line(d)
	return true
}

func words(d plan.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%t\n%s\n", d.Rule, d.Reason, d.Done, d.Action)
	for _, x := range d.Blockers {
		fmt.Fprintf(&b, "%s %s\n", x.Code, x.Sentence)
	}
	return b.String()
}

func (s *speaker) line(d plan.Decision) {
	args := []any{"rule", d.Rule, "reason", d.Reason}
	if a := d.Action; a != nil {
		args = append(args, "action", a.String())
		if a.Command != "" {
			args = append(args, "command", a.Command)
		}
		if a.Projection != nil {
			args = append(args, "projection", a.Projection.String())
		}
	}
	s.log.Info("decision", args...)
	for _, b := range d.Blockers {
		if b.Sentence == d.Reason && b.Command == "" {
			continue // said already
		}
		args := []any{"code", b.Code, "blocker", b.Sentence}
		if b.Command != "" {
			args = append(args, "command", b.Command)
		}
		s.log.Warn("blocked", args...)
	}
}

// sayOnce says that something does not work, when it begins, when the reason
// changes, and when it works again.
func (m *Manager) sayOnce(topic, what string, err error) {
	text := ""
	if err != nil {
		text = durations.ReplaceAllString(err.Error(), "")
	}
	m.mu.Lock()
	before := m.said[topic]
	m.said[topic] = text
	m.mu.Unlock()
	switch {
	case text == before:
	case err == nil:
		m.log.Info("solved: " + what)
	default:
		m.log.Warn(what, "err", err)
	}
}
