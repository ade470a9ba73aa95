// Package say is what programs say of trouble that lasts: once, and not at every try.
package say

import (
	"log/slog"
	"sync"
)

// Once says that something does not work, when it begins, when the reason changes, and when
// it works again. Its methods may be called from several goroutines at once.
type Once struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]trouble // by topic; what was said last
}

type trouble struct{ what, text string }

// NewOnce has said nothing yet.
func NewOnce(log *slog.Logger) *Once { return &Once{log: log, last: map[string]trouble{}} }

// Say says what does not work, and why; an err of nil is that it works. Two errors that
// differ in a duration or a count of objects are the same.
func (s *Once) Say(topic, what string, err error) {
	now := trouble{what: what}
	if err != nil {
		now.text = Steady(err.Error())
	}
	s.mu.Lock()
	before := s.last[topic]
	s.last[topic] = now
	s.mu.Unlock()
	switch {
	case now.text == before.text:
	case err == nil:
		s.log.Info("solved", "trouble", before.what)
	default:
		s.log.Warn(what, "err", err)
	}
}

// News notes a text, and reports whether it is another than the last one on its topic.
func (s *Once) News(topic, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last[topic]
	s.last[topic] = trouble{text: text}
	return before.text != text
}

// Forget has the topic said anew.
func (s *Once) Forget(topic string) {
	s.mu.Lock()
	delete(s.last, topic)
	s.mu.Unlock()
}
