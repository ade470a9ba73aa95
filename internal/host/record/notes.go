package record

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"etcdadm.io/cluster"
)

// Notes are the problems of a host that were found and not cleared since.
type Notes struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[string]cluster.Problem // by code
}

// NewNotes has none.
func NewNotes(log *slog.Logger) *Notes { return &Notes{log: log, all: map[string]cluster.Problem{}} }

// Note keeps a problem until it is cleared.
func (n *Notes) Note(p cluster.Problem) {
	n.mu.Lock()
	_, known := n.all[p.Code]
	n.all[p.Code] = p
	n.mu.Unlock()
	if !known {
		n.log.Warn(p.Sentence, "problem", p.Code, "hint", p.Hint)
	}
}

// Clear drops the problem of a code, if there is one.
func (n *Notes) Clear(code string) {
	n.mu.Lock()
	delete(n.all, code)
	n.mu.Unlock()
}

// All is every problem that was noted, by code.
func (n *Notes) All() (out []cluster.Problem) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, code := range slices.Sorted(maps.Keys(n.all)) {
		out = append(out, n.all[code])
	}
	return out
}
