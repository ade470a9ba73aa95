package plan

import "etcdadm.io/cluster"

// halted: the intent that the host keeps stops its member for the time being.
func (h *worldHost) halted() bool {
	halt := h.Intent.Halted()
	return halt != nil && halt.Generation == h.Local.Generation
}

// drill tries a backup out at once.
func (w *world) drill(h *worldHost, op cluster.Op) error {
	now := w.now.Add(h.skew)
	h.Drill = &cluster.Taken{Began: now, Ended: now, Reason: "drill", Command: op.Command, Backup: &cluster.Backup{Name: op.Backup}}
	if why := w.queue.unserved; why != "" && !op.Version.IsZero() {
		h.Drill.Error, h.Drill.Backup = why, nil
	}
	return nil
}
