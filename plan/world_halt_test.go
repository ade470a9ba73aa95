package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// halted: the intent that the host keeps stops its member for the time being.
func (h *worldHost) halted() bool {
	halt := h.Intent.Halted()
	return halt != nil && halt.Generation == h.Local.Generation
}

// drill tries a backup out at once.
func (w *world) drill(h *worldHost, op cluster.Op) error {
	now := w.now.Add(h.skew)
	h.Drill = &cluster.Taken{Began: now.Add(-w.queue.drills), Ended: now, Reason: "drill", Command: op.Command, Backup: &cluster.Backup{Name: op.Backup}}
	if op.Keys && (h.Local.State != cluster.MemberStarted || op.Version.IsZero()) {
		return fmt.Errorf("host %s has no running member whose keys can be tested with another release", h.Host)
	}
	if op.Keys && !w.queue.unlisted {
		h.Drill.Survey = &cluster.Survey{From: h.Local.Version, To: op.Version, Keys: 9, Carried: 8, Digest: w.queue.loses}
		if w.queue.loses != "" {
			h.Drill.Survey.Losses = []cluster.Loss{{Kind: "not-a-path", Count: 1, Text: "keys", Examples: []string{"key-of-" + w.queue.loses}}}
		}
	}
	if why := w.queue.unserved; why != "" && !op.Version.IsZero() {
		h.Drill.Error, h.Drill.Backup, h.Drill.Survey = why, nil, nil
	}
	return nil
}
