package host

import (
	"context"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
)

// Deadlines of what an op does. The op has them, whatever its caller has.
const (
	startDeadline = 30 * time.Second // a fork, and the looks before it, on a slow disk
	stopDeadline  = 60 * time.Second // graceful, then not
)

// Apply carries out one op, under the fence that this host promised last, for
// the disk that it has, on the strength of a recent observation. The op is
// finished by the host even when ctx ends, in which case the outcome is
// unknown to the caller.
//
// An op whose effect is there already is done. One that is refused has changed
// nothing.
func (h *Host) Apply(ctx context.Context, req cluster.ApplyRequest) cluster.ApplyReply {
	if !h.work.AwaitBoot(ctx) {
		return answer.Refused("host %s is starting", h.o.ID)
	}
	req.Op = record.CopyOp(req.Op)
	req.Guard.Members, req.Guard.Voters = slices.Clone(req.Guard.Members), slices.Clone(req.Guard.Voters)
	t, reply := h.admit(ctx, req)
	if t == nil {
		return reply
	}
	result := make(chan cluster.ApplyReply, 2) // one of them may come before the end
	go func() {
		opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), work.OpDeadline)
		defer cancel()
		early := func(r cluster.ApplyReply) { result <- r }
		r := h.carryOut(opCtx, req, early)
		if r.Outcome == cluster.OutcomeDone {
			h.o.Log.Info("carried out", "op", req.Op.String(), "for", req.Fence.Host)
		} else { // who asked for it says so once, and asks again
			h.o.Log.Debug("not carried out", "op", req.Op.String(), "for", req.Fence.Host, "outcome", r.Outcome, "reason", r.Reason)
		}
		h.work.End(t)
		result <- r
	}()
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
		return answer.Unknown("the caller did not wait; host %s goes on with it", h.o.ID)
	}
}

// admit checks everything that does not need the member, and registers the op.
func (h *Host) admit(ctx context.Context, req cluster.ApplyRequest) (*work.Task, cluster.ApplyReply) {
	if h.work.TakeTurn(ctx) != nil {
		return nil, answer.Refused("host %s is busy", h.o.ID)
	}
	defer h.work.EndTurn()
	s, broken := h.keeper.Now(), h.keeper.Broken()
	switch {
	case h.work.Resting():
		return nil, answer.Refused("host %s is shutting down", h.o.ID)
	case broken != nil:
		return nil, answer.RefusedWithHint(broken.Hint, "%s", broken.Sentence)
	case inUse(h).why != "":
		return nil, answer.RefusedWithHint(inUse(h).hint, "%s", inUse(h).why)
	case req.Fence.IsZero():
		return nil, answer.Refused("an op without a fence")
	case req.Fence.Less(s.Promised):
		r := answer.Refused("host %s promised the higher fence %s", s.Host, s.Promised)
		r.Refused = h.fences.Refusal()
		return nil, r
	case s.Promised.Less(req.Fence):
		return nil, answer.Refused("host %s has not promised fence %s yet: observe it first", s.Host, req.Fence)
	case req.Disk != s.Disk:
		return nil, answer.Refused("the op is for disk %q, and host %s has disk %q", req.Disk, s.Host, s.Disk)
	}
	if reason := h.fences.stale(req); reason != "" {
		return nil, answer.Refused("%s", reason)
	}
	if b := h.work.Busy(); b != nil {
		return nil, answer.Refused("host %s is busy with another op: %s", s.Host, b.Op)
	}
	t := h.work.Begin(req.Op, req.Fence)
	if t == nil {
		return nil, answer.Refused("host %s is shutting down", s.Host)
	}
	h.fences.admitted(req.Stamp)
	return t, cluster.ApplyReply{}
}

// carryOut calls begun before its end where the caller is not to wait for that.
func (h *Host) carryOut(ctx context.Context, req cluster.ApplyRequest, begun func(cluster.ApplyReply)) cluster.ApplyReply {
	op := req.Op
	if op.Host != "" && op.Host != h.o.ID && !op.Kind.Membership() {
		return answer.Refused("the op is for host %s, this is host %s", op.Host, h.o.ID)
	}
	if op.Kind.Membership() {
		r := h.member.ChangeMembership(ctx, op, req.Guard)
		if op.Kind == cluster.OpCompact && r.Outcome == cluster.OutcomeDone {
			h.upkeep.NoteCompacted(op.Revision)
		}
		return r
	}
	switch op.Kind {
	case cluster.OpRestart, cluster.OpStop, cluster.OpDefragment, cluster.OpHash, cluster.OpPause:
		if r := h.member.CheckOwnGuard(ctx, req.Guard); r != nil {
			h.pauses.Refuse(op, r.Reason)
			return *r
		}
	}
	switch op.Kind {
	case cluster.OpPrepare:
		return h.prepare(ctx, op)
	case cluster.OpStart:
		return h.startMember(ctx, op)
	case cluster.OpRestart:
		return h.restart(ctx, op)
	case cluster.OpStop:
		return h.stop(ctx, op)
	case cluster.OpRefuse:
		return h.refuse(ctx, op)
	case cluster.OpSetAside:
		return h.setAside(ctx, op, req.Fence)
	case cluster.OpPrune:
		return h.inventory.PruneRemoved(ctx, req)
	case cluster.OpForget:
		return h.forget(ctx)
	case cluster.OpPause:
		if err := h.pauses.Take(op, h.keeper.Now().Newest()); err != nil {
			return answer.Failed("%v", err)
		}
		return answer.Done("host %s is paused", h.o.ID)
	case cluster.OpStage:
		return h.staging.Stage(ctx, op)
	case cluster.OpBackup:
		return h.backups.Take(ctx, op)
	case cluster.OpDrill:
		return h.backups.Drill(op)
	case cluster.OpHash:
		return h.upkeep.TakeHash(ctx, op)
	case cluster.OpDefragment:
		return h.upkeep.Defragment(ctx, req, begun)
	}
	return answer.Refused("host %s does not know the op %q", h.o.ID, op.Kind)
}
