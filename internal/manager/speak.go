package manager

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/plan"
)

const (
	// A decision that differs from the last one in numbers only (a learner
	// that catches up) is said again after a while that grows.
	quietFirst = time.Second
	quietMost  = 10 * time.Minute
	// A blocker whose words go back to those of a moment ago, as of a store that refuses
	// now one object and now another, is not said again while it is there.
	toldFor = time.Minute
)

// speaker says a decision when it changes, and of its blockers those that are
// new and those that are gone. Time that passes is no change.
type speaker struct {
	log   *slog.Logger
	main  string             // the decision that was said last, without durations
	told  map[string]blocked // what was said of blockers, by the words
	text  string             // both, as of the last time that something was said
	shape string             // and without numbers
	at    time.Time
	quiet time.Duration
	since time.Time // when the shape became this one
}

// blocked is a blocker that was said.
type blocked struct {
	code string
	ends time.Time // when its words were others by then; zero: they are these
}

// say reports whether the decision was news.
func (s *speaker) say(d plan.Decision, now time.Time) bool {
	text, shape := shapeOf(d, true), shapeOf(d, false)
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
	if main := mainShape(d, true); main != s.main {
		s.main = main
		s.decision(d)
	}
	s.blockers(d, now)
	return true
}

// shapeOf is what of a decision makes news when it changes: all but times and durations,
// or all but numbers too.
func shapeOf(d plan.Decision, withNumbers bool) string {
	var b strings.Builder
	b.WriteString(mainShape(d, withNumbers))
	for _, x := range d.Blockers {
		b.WriteString(blockerShape(x, withNumbers) + "\n")
	}
	return b.String()
}

func mainShape(d plan.Decision, withNumbers bool) string {
	return fmt.Sprintf("%s\n%s\n%t\n%s\n", d.Rule, d.Reason.Shape(withNumbers), d.Done, d.Action)
}

func blockerShape(b plan.Blocker, withNumbers bool) string {
	return b.Code + " " + b.Sentence.Shape(withNumbers)
}

func (s *speaker) decision(d plan.Decision) {
	args := []any{"rule", d.Rule, "reason", d.Reason.String()}
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
}

func (s *speaker) blockers(d plan.Decision, now time.Time) {
	before := s.told
	s.told = map[string]blocked{}
	was := map[string]bool{}
	for _, b := range before {
		was[b.code] = was[b.code] || b.ends.IsZero()
	}
	still := map[string]bool{}
	var others, began []string
	for _, b := range d.Blockers {
		key := blockerShape(b, true)
		if !still[b.Code] {
			others = append(others, b.Code)
			if !was[b.Code] {
				began = append(began, b.Code)
			}
		}
		still[b.Code] = true
		told, said := before[key]
		said = said && (told.ends.IsZero() || now.Sub(told.ends) < toldFor)
		s.told[key] = blocked{code: b.Code}
		if said {
			continue
		}
		args := []any{"code", b.Code, "blocker", b.Sentence.String()}
		if b.Command != "" {
			args = append(args, "command", b.Command)
		}
		if b.Advice != "" {
			args = append(args, "advice", b.Advice)
		}
		say := s.log.Warn
		if b.Sentence.Equal(d.Reason) { // what is waited for may be no trouble, as for a member to come up
			say = s.log.Info
		}
		say("blocked", args...)
	}
	gone := map[string]bool{}
	for key, was := range before {
		switch _, is := s.told[key]; {
		case d.Action != nil && !still[was.code]: // a step that is taken says nothing of what comes after it
			s.told[key] = was
		case !still[was.code]:
			gone[was.code] = true
		case !is && was.ends.IsZero():
			s.told[key] = blocked{was.code, now}
		case !is && now.Sub(was.ends) < toldFor:
			s.told[key] = was
		}
	}
	for _, code := range slices.Sorted(maps.Keys(gone)) {
		switch { // what is wrong may be called otherwise by now, and is no less wrong
		case len(began) > 0:
			s.log.Info("blocked by something else now", "code", code, "now", strings.Join(began, ","))
		case len(others) > 0:
			s.log.Info("no longer blocked", "code", code, "still", strings.Join(others, ","))
		default:
			s.log.Info("no longer blocked", "code", code)
		}
	}
}
