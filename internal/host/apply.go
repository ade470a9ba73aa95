package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
)

// Deadlines of what an op does. The op has them, whatever its caller has.
const (
	callDeadline  = 5 * time.Second  // a membership call (SAFETY.md, rule 3)
	checkDeadline = 2 * time.Second  // a look at the own member before it
	readDeadline  = 5 * time.Second  // the intent, from the store
	startDeadline = 30 * time.Second // a fork, and the looks before it, on a slow disk
	stopDeadline  = 60 * time.Second // graceful, then not
	opDeadline    = 2 * time.Minute  // everything together
)

// Apply carries out one op, under the fence that this host promised last, for
// the disk that it has, on the strength of a recent observation. The op is
// finished by the host even when ctx ends, in which case the outcome is
// unknown to the caller.
//
// An op whose effect is there already is done. One that is refused has changed
// nothing.
func (h *Host) Apply(ctx context.Context, req cluster.ApplyRequest) cluster.ApplyReply {
	if !h.awaitBoot(ctx) {
		return refused("host %s is starting", h.o.ID)
	}
	req.Op = record.CopyOp(req.Op)
	req.Guard.Members, req.Guard.Voters = slices.Clone(req.Guard.Members), slices.Clone(req.Guard.Voters)
	t, reply := h.admit(ctx, req)
	if t == nil {
		return reply
	}
	result := make(chan cluster.ApplyReply, 2) // one of them may come before the end
	go func() {
		opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opDeadline)
		defer cancel()
		early := func(r cluster.ApplyReply) { result <- r }
		r := h.carryOut(opCtx, req, early)
		if r.Outcome == cluster.OutcomeDone {
			h.o.Log.Info("carried out", "op", req.Op.String(), "for", req.Fence.Host)
		} else { // who asked for it says so once, and asks again
			h.o.Log.Debug("not carried out", "op", req.Op.String(), "for", req.Fence.Host, "outcome", r.Outcome, "reason", r.Reason)
		}
		h.end(t)
		result <- r
	}()
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
		return unknown("the caller did not wait; host %s goes on with it", h.o.ID)
	}
}

// admit checks everything that does not need the member, and registers the op.
func (h *Host) admit(ctx context.Context, req cluster.ApplyRequest) (*task, cluster.ApplyReply) {
	if h.takeTurn(ctx) != nil {
		return nil, refused("host %s is busy", h.o.ID)
	}
	defer h.endTurn()
	h.mu.Lock()
	s, broken, resting := h.state, h.broken, h.resting
	h.mu.Unlock()
	switch {
	case resting:
		return nil, refused("host %s is shutting down", h.o.ID)
	case broken != nil:
		return nil, refusedWithHint(broken.Hint, "%s", broken.Sentence)
	case req.Fence.IsZero():
		return nil, refused("an op without a fence")
	case req.Fence.Less(s.Promised):
		r := refused("host %s promised the higher fence %s", s.Host, s.Promised)
		r.Refused = h.refusal()
		return nil, r
	case s.Promised.Less(req.Fence):
		return nil, refused("host %s has not promised fence %s yet: observe it first", s.Host, req.Fence)
	case req.Disk != s.Disk:
		return nil, refused("the op is for disk %q, and host %s has disk %q", req.Disk, s.Host, s.Disk)
	}
	if reason := h.stale(req); reason != "" {
		return nil, refused("%s", reason)
	}
	if b := h.busy(); b != nil {
		return nil, refused("host %s is busy with another op: %s", s.Host, b.Op)
	}
	t := h.begin(req.Op, req.Fence)
	if t == nil {
		return nil, refused("host %s is shutting down", s.Host)
	}
	h.mu.Lock()
	h.fenceUsed = time.Now()
	// One observation is good for one op: a second copy of the request, late on
	// its way, would act on what the first one has changed.
	h.stamps = slices.DeleteFunc(slices.Clone(h.stamps), func(st stamp) bool { return st.id == req.Stamp })
	h.mu.Unlock()
	return t, cluster.ApplyReply{}
}

// stale says why the observation that an op relies on is too old; "" when it is
// not.
func (h *Host) stale(req cluster.ApplyRequest) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.stamps, func(st stamp) bool { return st.id == req.Stamp && st.fence == req.Fence })
	if i < 0 || req.Stamp == "" {
		return "the op quotes no observation that this host remembers; observe it again"
	}
	age := cluster.Age(h.stamps[i].at, time.Now())
	if age > cluster.MaxStampAge {
		return fmt.Sprintf("the op relies on an observation that is %s old, more than %s; observe again", age.Round(time.Millisecond), cluster.MaxStampAge)
	}
	return ""
}

// carryOut calls begun before its end where the caller is not to wait for that.
func (h *Host) carryOut(ctx context.Context, req cluster.ApplyRequest, begun func(cluster.ApplyReply)) cluster.ApplyReply {
	op := req.Op
	if op.Host != "" && op.Host != h.o.ID && !op.Kind.Membership() {
		return refused("the op is for host %s, this is host %s", op.Host, h.o.ID)
	}
	if op.Kind.Membership() {
		return h.changeMembership(ctx, op, req.Guard)
	}
	switch op.Kind {
	case cluster.OpRestart, cluster.OpStop, cluster.OpDefragment, cluster.OpHash:
		if r := h.checkOwnGuard(ctx, req.Guard); r != nil {
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
		return h.pruneRemoved(ctx, req)
	case cluster.OpForget:
		return h.forget(ctx)
	case cluster.OpStage:
		return h.stage(ctx, op)
	case cluster.OpBackup:
		return h.takeBackup(ctx, op)
	case cluster.OpDrill:
		return h.takeDrill(op)
	case cluster.OpHash:
		return h.takeHash(ctx, op)
	case cluster.OpDefragment:
		return h.defragment(ctx, req, begun)
	}
	return refused("host %s does not know the op %q", h.o.ID, op.Kind)
}

// checkOwnGuard checks a guard of an op that stops the own member's process.
// A guard that is given has to hold. Where nothing runs, nothing is taken down
// by the op, and there is nobody to ask.
func (h *Host) checkOwnGuard(ctx context.Context, g cluster.Guard) *cluster.ApplyReply {
	if g.Cluster == 0 && len(g.Members) == 0 && !g.NotLeader && !g.Leaderless {
		return nil
	}
	p := h.o.Process.Status()
	if p.State == cluster.ProcessStopped || p.State == cluster.ProcessBackoff {
		return nil
	}
	if g.Cluster != 0 || len(g.Members) > 0 {
		if _, r := h.checkView(ctx, g, nil); r != nil {
			return r
		}
	}
	if g.Leaderless {
		return h.checkLeaderless(ctx)
	}
	if g.NotLeader {
		return h.checkNotLeader(ctx)
	}
	return nil
}

// checkLeaderless refuses a restart that relies on the member seeing no raft leader,
// once it sees one: a quorum may have come back since the look, and hang on it. That
// it does not answer is what such a restart is for.
func (h *Host) checkLeaderless(ctx context.Context) *cluster.ApplyReply {
	st, r := h.ownStatus(ctx)
	if r != nil || st.Leader == 0 {
		return nil
	}
	x := refused("member %s sees raft leader %s by now: it is not restarted", st.Member, st.Leader)
	return &x
}

func (h *Host) checkNotLeader(ctx context.Context) *cluster.ApplyReply {
	st, r := h.ownStatus(ctx)
	if r == nil && st.Leader == st.Member {
		x := refused("member %s is the raft leader", st.Member)
		r = &x
	}
	return r
}

// ownStatus asks the own member, and makes sure that it is the recorded one.
func (h *Host) ownStatus(ctx context.Context) (cluster.MemberStatus, *cluster.ApplyReply) {
	m, local := h.member(), h.snapshot().Local
	if m == nil || local.Member == 0 {
		r := refused("host %s runs no member", h.o.ID)
		return cluster.MemberStatus{}, &r
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	st, err := m.Status(ctx)
	if err != nil {
		r := refused("the status of the member of host %s cannot be had: %v", h.o.ID, err)
		return st, &r
	}
	if st.Member != local.Member {
		r := refused("member %s answers on host %s, which carries member %s", st.Member, h.o.ID, local.Member)
		return st, &r
	}
	return st, nil
}

// checkView takes a member list through raft and compares it with the guard. It
// is the last look before an op acts. When the list shows the op's effect
// already, the reply says done.
func (h *Host) checkView(ctx context.Context, g cluster.Guard, effect func(cluster.MemberView) (cluster.ApplyReply, bool)) (cluster.MemberView, *cluster.ApplyReply) {
	if _, r := h.ownStatus(ctx); r != nil {
		return cluster.MemberView{}, r
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	v, err := h.member().View(ctx, true)
	if err != nil {
		r := refused("no member list could be had through raft: %v", err)
		return v, &r
	}
	if v.Cluster != g.Cluster {
		r := refused("the member is of cluster %s, the op is for cluster %s", v.Cluster, g.Cluster)
		return v, &r
	}
	if effect != nil {
		if r, there := effect(v); there {
			return v, &r
		}
	}
	if reason := differs(v, g); reason != "" {
		r := refused("%s", reason)
		return v, &r
	}
	return v, nil
}

// differs says how a member list is not what the guard expects.
func differs(v cluster.MemberView, g cluster.Guard) string {
	var members, voters []cluster.MemberID
	for _, m := range v.Members {
		members = append(members, m.ID)
		if !m.Learner {
			voters = append(voters, m.ID)
		}
	}
	for _, c := range []struct {
		what       string
		have, want []cluster.MemberID
	}{{"members", members, g.Members}, {"voters", voters, g.Voters}} {
		have, want := slices.Sorted(slices.Values(c.have)), slices.Sorted(slices.Values(c.want))
		if !slices.Equal(have, want) {
			return fmt.Sprintf("the %s are %v now, the op relies on %v", c.what, have, want)
		}
	}
	return ""
}

func reply(o cluster.Outcome, format string, args ...any) cluster.ApplyReply {
	return cluster.ApplyReply{Outcome: o, Reason: fmt.Sprintf(format, args...)}
}

func done(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeDone, format, args...)
}

func refused(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeRefused, format, args...)
}

func refusedWithHint(hint, format string, args ...any) cluster.ApplyReply {
	r := refused(format, args...)
	r.Hint = hint
	return r
}

// hintOf is what an error says can be done about it, or else what is given.
func hintOf(err error, other string) string {
	if hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok && hinted.Hint() != "" {
		return hinted.Hint()
	}
	return other
}

func failed(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeFailed, format, args...)
}

func unknown(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeUnknown, format, args...)
}

// outcomeUnknown reports whether a membership call may have taken effect.
func outcomeUnknown(err error) bool {
	if errors.Is(err, etcd.ErrUnreachable) { // nothing was sent
		return false
	}
	return errors.Is(err, etcd.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
