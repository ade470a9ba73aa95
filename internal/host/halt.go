package host

import (
	"context"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// obeyHalt ends the member's process at once, as by a power failure: all members
// end at the same time, so there is nobody to hand raft's leadership to, and etcd
// would wait for that. What was acknowledged is in the logs.
func (h *Host) obeyHalt(s record.State) {
	halt := s.Halt()
	t := h.work.Begin(cluster.Op{Kind: cluster.OpStop, Generation: s.Local.Generation, Reason: "halted"}, s.Promised)
	if t == nil {
		return
	}
	h.o.Log.Warn("the generation is halted, to be taken to another release: the member is stopped", "generation", halt.Generation, "from", halt.From, "to", halt.To)
	go func() {
		defer h.work.End(t)
		h.converge(context.Background(), false)
	}()
}

// goOn starts the member again after its halt was taken back. What was being
// made of its data is given up first, since etcd waits for its database.
func (h *Host) goOn(before, s record.State) {
	h.staging.LeaveHalted()
	t := h.work.Begin(cluster.Op{Kind: cluster.OpRestart, Generation: s.Local.Generation, Reason: "no longer halted"}, s.Promised)
	if t == nil {
		return // the tick does it
	}
	h.o.Log.Warn("the halt was taken back: the member goes on as it was", "generation", s.Local.Generation, "why", s.Intent.Halt.Ended)
	go func() {
		defer h.work.End(t)
		h.staging.DropUnstaged(before)
		h.converge(context.Background(), false)
	}()
}
