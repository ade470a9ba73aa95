package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/plan"
)

const (
	// A step that is taken again and again without effect is taken ever more
	// seldom.
	paceFree  = 3 // times that the same step may follow on itself at once
	paceFirst = 200 * time.Millisecond
	// paceSteady is how often it is tried at an even pace before that: etcd
	// refuses an add until its voters have been connected for five seconds.
	paceSteady = 30
	paceMost   = 10 * time.Second
	// paceWoken is the longest that a wake-up waits for a step's pace.
	paceWoken = 500 * time.Millisecond
)

// pace slows down a loop that repeats one step.
type pace struct {
	step  string
	times int
	woken time.Time // when a wake-up counts again
}

// hold is how long a wake-up has to wait, because it may be an effect of the
// very step that is paced.
func (p *pace) hold(now time.Time) time.Duration { return p.woken.Sub(now) }

// after is how long to wait after a step before the next look.
func (p *pace) after(a *plan.Action, took bool) time.Duration {
	step := a.String()
	if step != p.step {
		p.step, p.times = step, 0
	}
	p.times++
	free := paceFree
	if !took {
		free = 0
	}
	if p.times <= free {
		return 0
	}
	wait := paceFirst
	if slow := p.times - free - paceSteady; slow > 0 {
		wait = min(paceFirst<<min(slow, 10), paceMost)
	}
	p.woken = time.Now().Add(min(wait, paceWoken))
	return wait
}

// act takes the step of a decision. took tells whether all of it was done, as
// far as is known; what really happened shows when the loop looks again.
func (t *term) act(ctx context.Context, a *plan.Action, l look) (took bool) {
	if ctx.Err() != nil || t.fence.mine != t.last.Fence { // nothing was promised to the fence that was picked since
		return false
	}
	ctx = blob.While(ctx, t.stillTrue(ctx))
	switch {
	case a.Kind == plan.ActIntent && a.Intent != nil && a.Intent.Keep != nil:
		t.keepUnstored(a.Intent.Keep)
		return true
	case a.Kind == plan.ActIntent && a.Intent != nil:
		return t.writeIntent(ctx, a.Intent, l)
	case a.Kind == plan.ActHosts:
		return t.applyAll(ctx, a.Ops)
	case a.Kind == plan.ActSpec && a.Count != nil:
		return t.putCount(ctx, a.Count)
	case a.Kind == plan.ActPause && a.Pauses != nil:
		return t.writePauses(ctx, a.Pauses, l)
	case a.Kind == plan.ActManual && a.Manual != nil:
		return t.writeManual(ctx, a.Manual, l)
	case a.Kind == plan.ActQueue && a.Queue != nil:
		return t.queueCommand(ctx, a.Queue)
	case a.Kind == plan.ActCommand && a.End != nil:
		return t.endCommand(ctx, a.End)
	}
	t.m.log.Error("the planner asked for a step that this release does not know", "kind", a.Kind)
	return false
}

// applyAll has the hosts carry out their ops side by side.
func (t *term) applyAll(ctx context.Context, ops []plan.HostOp) bool {
	m := t.m
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.ApplyTimeout)
	defer cancel()
	replies := make([]cluster.ApplyReply, len(ops))
	var all sync.WaitGroup
	for i, op := range ops {
		all.Go(func() { replies[i] = m.apply(ctx, op, t.fence.mine) })
	}
	all.Wait()
	took := true
	for i, r := range replies {
		took = took && r.Outcome == cluster.OutcomeDone
		m.tell(ops[i], r)
	}
	return took
}

// apply sends one op to its host. A call that failed on the way may have
// taken effect.
func (m *Manager) apply(ctx context.Context, op plan.HostOp, fence cluster.Fence) cluster.ApplyReply {
	r := cluster.ApplyRequest{Fence: fence, Disk: op.Disk, Stamp: op.Stamp, Guard: op.Guard, Op: op.Op}
	if op.Host == m.self {
		return m.o.Local.Apply(ctx, r)
	}
	to, ok := m.gossip.ContactOf(op.Host)
	if !ok {
		return cluster.ApplyReply{Outcome: cluster.OutcomeRefused, Reason: "nobody knows how to reach the host"}
	}
	reply, err := m.o.Network.Apply(ctx, to, r)
	if err != nil {
		return cluster.ApplyReply{Outcome: cluster.OutcomeUnknown, Reason: err.Error()}
	}
	return reply
}

// tell says how an op ended; the same ending of the same op is said once.
func (m *Manager) tell(op plan.HostOp, r cluster.ApplyReply) {
	topic := fmt.Sprintf("op %s", op.Host)
	if r.Outcome == cluster.OutcomeDone {
		m.said.Forget(topic)
		m.log.Debug("op done", "host", op.Host, "op", op.Op.String())
		return
	}
	text := r.Reason
	if r.Hint != "" {
		text += "; " + r.Hint
	}
	m.said.Say(topic, "op not done", fmt.Errorf("host %s: %s: %s: %s", op.Host, op.Op, r.Outcome, text))
}

// keepUnstored makes a write of the intent that goes to the hosts alone: they
// are handed it with the next observation, and make it durable together with
// their promise.
func (t *term) keepUnstored(keep *cluster.Intent) {
	in := keep.Clone()
	in.Write++
	in.Unstored = t.fence.mine
	if in.Order(t.intent) > 0 {
		t.intent = in
	}
	t.m.log.Warn("the backup store cannot be read, and a person allowed a change without it: the hosts keep the record of the voters", "generation", in.Generation, "write", in.Write)
}

// prepareIntent fills in what the planner leaves to the executor. A new
// generation gets a nonce and a token that never were before, and its
// founders the member IDs that follow from the token; any other change counts
// the write, so that no two contents are equal.
func (m *Manager) prepareIntent(c *plan.IntentChange, l look) (*cluster.Intent, error) {
	if m.o.Control == nil {
		return nil, errors.New("there is no backup store")
	}
	in := c.Replace.Clone()
	if c.Create != nil {
		in = c.Create.Clone()
	}
	if in == nil {
		return nil, errors.New("the change is empty")
	}
	base := l.ours()
	if c.Create == nil && base != nil { // what was noted in either is not forgotten, whichever is the newer one
		in.CommandsRun, in.Ended = union(base.CommandsRun, in.CommandsRun), union(base.Ended, in.Ended)
	}
	if in.Rotation != nil && in.Rotation.ID == "" {
		if err := m.mintRotation(in); err != nil {
			return nil, err
		}
	}
	if in.Nonce == "" {
		return in, m.mintGeneration(in)
	}
	unstored := !in.Unstored.IsZero()
	if c.Create == nil && base != nil && base.Generation == in.Generation {
		in.Write = max(in.Write, base.Write)
		if unstored {
			in.Lost = union(base.Lost, in.Lost)
		}
	}
	if c.Create == nil || unstored {
		in.Write++
	}
	in.Unstored = cluster.Fence{}
	return in, nil
}

// union is what the store and the hosts have each noted while they were apart.
func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// mintRotation makes what the planner leaves to the executor of a rotation that begins.
func (m *Manager) mintRotation(in *cluster.Intent) error {
	if m.o.NextAuthorities == nil {
		return errors.New("nobody here can make authorities")
	}
	r := *in.Rotation
	r.ID = m.o.Mint()
	next, err := m.o.NextAuthorities(r.ID, r.Authorities)
	if err != nil {
		return fmt.Errorf("make the next authorities: %w", err)
	}
	r.Authorities, in.Rotation = next, &r
	return nil
}

func (m *Manager) mintGeneration(in *cluster.Intent) error {
	if m.o.MemberIDs == nil {
		return errors.New("nobody here can work out member IDs")
	}
	in.Nonce, in.Timestamp, in.Write = m.o.Mint(), time.Now().UnixNano(), 1
	if in.Token == "" { // else a host has built data under it
		in.Token = m.o.Mint()
	}
	if in.Source.Kind == cluster.SourceAdopted {
		return nil // the members have their IDs
	}
	ids, id, err := m.o.MemberIDs(in.Token, in.Founders)
	if err != nil {
		return fmt.Errorf("work out the founders' member IDs: %w", err)
	}
	if len(ids) != len(in.Founders) {
		return fmt.Errorf("work out the founders' member IDs: %d IDs for %d founders", len(ids), len(in.Founders))
	}
	for i := range in.Founders {
		in.Founders[i].Member = ids[i]
	}
	in.Cluster = id
	return nil
}
