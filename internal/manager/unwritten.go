package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"etcdadm.io/internal/control"
)

// unwritten is what the store did not take, though it may be read: credentials that only
// read, a file system that was mounted read-only, a bucket that is full or kept by a
// policy. Reads alone would call that store well, while nothing that is written down
// first gets done.
type unwritten struct {
	why   string // as it was first: the words of a store may differ from try to try
	since time.Time
}

// unwrittenAfter is how long the store may refuse one write after the other before that
// is told: what it refused once it takes at the next try, mostly.
const unwrittenAfter = 10 * time.Second

// wrote notes, and says once, whether the store took a write. That somebody else wrote
// in between, or that this daemon gave up, says nothing against it.
func (m *Manager) wrote(topic, what string, err error) {
	m.sayOnce(topic, what, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.unwritten[topic]
	switch {
	case errors.Is(err, context.Canceled):
	case err == nil, errors.Is(err, control.ErrConflict), errors.Is(err, control.ErrOtherCluster):
		delete(m.unwritten, topic)
	case !known:
		m.unwritten[topic] = unwritten{err.Error(), time.Now()}
	}
}

// unwanted forgets a write that failed and that nobody asks for any more.
func (m *Manager) unwanted(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unwritten, topic)
}

// notWritten is why the store takes no writes; empty: it does, or that is not told yet.
func (m *Manager) notWritten() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, topic := range slices.Sorted(maps.Keys(m.unwritten)) {
		if u := m.unwritten[topic]; time.Since(u.since) >= unwrittenAfter {
			return u.why
		}
	}
	return ""
}
