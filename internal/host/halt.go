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
	t := h.begin(cluster.Op{Kind: cluster.OpStop, Generation: s.Local.Generation, Reason: "halted"}, s.Promised)
	if t == nil {
		return
	}
	h.o.Log.Warn("the generation is halted, to be taken to another release: the member is stopped", "generation", halt.Generation, "from", halt.From, "to", halt.To)
	go func() {
		defer h.end(t)
		h.converge(context.Background(), false)
	}()
}

// goOn starts the member again after its halt was taken back. What was being
// made of its data is given up first, since etcd waits for its database.
func (h *Host) goOn(before, s record.State) {
	h.mu.Lock()
	if now := h.stageNow; now != nil && now.Source.Kind == cluster.SourceHalted && h.stageGiveUp != nil {
		h.stageGiveUp(errUnwanted)
	}
	h.mu.Unlock()
	t := h.begin(cluster.Op{Kind: cluster.OpRestart, Generation: s.Local.Generation, Reason: "no longer halted"}, s.Promised)
	if t == nil {
		return // the tick does it
	}
	h.o.Log.Warn("the halt was taken back: the member goes on as it was", "generation", s.Local.Generation, "why", s.Intent.Halt.Ended)
	go func() {
		defer h.end(t)
		h.dropUnstaged(before)
		h.converge(context.Background(), false)
	}()
}

// notHalted says why the data of the own member cannot be taken for a change of
// version; empty: it can, or something else is asked for.
func (h *Host) notHalted(op cluster.Op, s record.State) string {
	halt := s.Halt()
	switch {
	case op.Source.Kind != cluster.SourceHalted:
		return ""
	case halt == nil || halt.ID != op.Command:
		return "the generation is not halted for this change"
	case s.Local.State != cluster.MemberStarted || h.o.Process.Status().State != cluster.ProcessStopped:
		return "host " + string(s.Host) + " does not hold a stopped member whose data could be read"
	}
	return ""
}
