package daemon

import (
	"log/slog"
	"sync"
)

// once says a thing when it is another than the last one on its topic, and not
// again every few seconds. It is safe for concurrent use.
type once struct {
	log *slog.Logger

	mu   sync.Mutex // guards said
	said map[string]string
}

// news reports whether the text is another than the last one on its topic.
func (o *once) news(topic, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.said[topic]
	if o.said == nil {
		o.said = map[string]string{}
	}
	o.said[topic] = text
	return was != text
}

// error logs an error that is news; nil: the trouble is over.
func (o *once) error(topic, what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if o.news(topic, text) && err != nil {
		o.log.Warn(what, "error", err)
	}
}
