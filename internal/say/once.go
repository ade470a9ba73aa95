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
	last map[string]string // by topic; what was said last
}

// NewOnce has said nothing yet.
func NewOnce(log *slog.Logger) *Once { return &Once{log: log, last: map[string]string{}} }

// Say says what does not work, and why; an err of nil is that it works.
func (s *Once) Say(topic, what string, err error) {
	text := ""
	if err != nil {
		text = Steady(err.Error())
	}
	s.mu.Lock()
	before := s.last[topic]
	s.last[topic] = text
	s.mu.Unlock()
	switch {
	case text == before:
	case err == nil:
		s.log.Info("solved: " + what)
	default:
		s.log.Warn(what, "err", err)
	}
}

// News notes a text, and reports whether it is another than the last one on its topic.
func (s *Once) News(topic, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last[topic]
	s.last[topic] = text
	return before != text
}

// Forget has the topic said anew.
func (s *Once) Forget(topic string) {
	s.mu.Lock()
	delete(s.last, topic)
	s.mu.Unlock()
}
