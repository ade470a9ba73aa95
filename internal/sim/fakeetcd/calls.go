package fakeetcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// What a client meets besides the refusals of package etcd.
var (
	ErrLeaseExists   = errors.New("lease exists")
	ErrLeaseNotFound = errors.New("lease not found")

	errNotSent       = errors.New("connection refused or broken")
	errLost          = errors.New("connection lost")
	errTimeout       = errors.New("request timed out")
	errLeaderChanged = errors.New("leader changed")
)

// request is one client's call at one process.
type request struct {
	net      *Net
	call     Call
	learner  bool // served by a learner too
	from     cluster.HostID
	run      func(p *Proc, r *request)
	done     chan outcome
	at       *Proc // where it was accepted
	accepted bool
	over     bool
	result   func(n int64) any // makes the reply of a proposal; nil: the number itself
}

type outcome struct {
	value any
	err   error
}

// finish ends the call at the member's side; the reply travels back.
func (r *request) finish(value any, err error) {
	if r.over {
		return
	}
	r.over = true
	if err == nil && r.at != nil && r.at.exit != "" {
		err = errLost // done by the leader, for a process that has died
	}
	if n, ok := value.(int64); ok && err == nil && r.result != nil {
		value = r.result(n)
	}
	if !errors.Is(err, errNotSent) && r.net.opt.LoseReply != nil && r.net.opt.LoseReply(r.call) {
		err = errLost
	}
	delay, ok := r.net.link(r.call.Host, r.from)
	if !ok {
		return // the caller waits until its context ends
	}
	r.net.after(delay, func() { r.done <- outcome{value, err} })
}

// do carries a call to the process on a host and waits for the reply, five
// seconds at most, as the driver does.
func (n *Net) do(ctx context.Context, r *request) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, etcd.CallTimeout)
	defer cancel()
	r.net, r.done = n, make(chan outcome, 1)
	n.mu.Lock()
	if delay, ok := n.link(r.from, r.call.Host); ok {
		n.after(delay, func() { n.arrive(r) })
	}
	n.mu.Unlock()
	var out outcome
	select {
	case out = <-r.done:
	case <-ctx.Done():
		out = r.abandon(ctx)
	}
	return out.value, r.explain(out.err)
}

// abandon gives a call up, unless its reply has just come.
func (r *request) abandon(ctx context.Context) outcome {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	r.over = true
	select {
	case out := <-r.done:
		return out
	default:
	}
	if !r.accepted {
		return outcome{err: fmt.Errorf("%w: %w", errNotSent, ctx.Err())}
	}
	return outcome{err: fmt.Errorf("%w: %w", errLost, ctx.Err())}
}

// explain says what package etcd would.
func (r *request) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotSent):
		return fmt.Errorf("%s: %w: %w", r.call.Op, etcd.ErrUnreachable, err)
	case errors.Is(err, errLost), errors.Is(err, errTimeout), errors.Is(err, errLeaderChanged):
		if r.call.Mutating {
			return fmt.Errorf("%s: %w: %w", r.call.Op, etcd.ErrUnknownOutcome, err)
		}
		return fmt.Errorf("%s: %w: %w", r.call.Op, etcd.ErrNoAnswer, err)
	}
	return fmt.Errorf("%s: %w", r.call.Op, err)
}

// arrive is the call's arrival at its host.
func (n *Net) arrive(r *request) {
	p := n.running(r.call.Host)
	if r.over {
		return
	}
	if p == nil || !p.clientsReach(r) {
		r.finish(nil, errNotSent)
		return
	}
	r.accepted = p.serving // what is sent to a paused process has been sent
	p.run(func() { p.accept(r) })
}

// clientsReach: under quarantine only the host itself finds the client URL.
func (p *Proc) clientsReach(r *request) bool {
	return !p.launch.Quarantined || r.from == p.host
}

// accept serves the call, or keeps it until the member serves.
func (p *Proc) accept(r *request) {
	if r.over {
		return
	}
	if !p.serving {
		p.waiting = append(p.waiting, r)
		return
	}
	r.accepted, r.at = true, p
	if m := p.st.members[p.member]; m != nil && m.Learner && !r.learner {
		r.finish(nil, etcd.ErrLearner)
		return
	}
	r.run(p, r)
}

func (p *Proc) admit() {
	waiting := p.waiting
	p.waiting = nil
	for _, r := range waiting {
		if p.exit == "" {
			p.accept(r)
		}
	}
}

// submit proposes an entry and ends the request when it is applied here.
func (p *Proc) submit(r *request, o op) {
	o.Request = p.id()
	p.requests[o.Request] = r
	p.guard(func() { p.propose(proposal{request: r, data: o.marshal()}) })
	p.expire(r, o.Request, reqTimeout)
}

// expire bounds a proposal. Membership changes are bounded by their caller only.
func (p *Proc) expire(r *request, id uint64, d time.Duration) {
	p.later(d, func() {
		if p.requests[id] == r {
			delete(p.requests, id)
			r.finish(nil, errTimeout)
		}
	})
}

// status is the member's own word.
func (p *Proc) status() cluster.MemberStatus {
	b := p.rn.BasicStatus()
	s := cluster.MemberStatus{
		Member: p.member, Cluster: p.cluster, Version: p.launch.Version,
		Leader: p.lead, Term: p.term, Index: b.GetCommit(), Applied: p.st.applied,
		Revision: p.st.rev, DBSize: p.data.file, DBInUse: p.st.size, Quota: p.quota,
	}
	if m := p.st.members[p.member]; m != nil {
		s.Learner = m.Learner
	}
	if p.launch.Version.Has(cluster.StorageVersion) {
		s.StorageVersion, s.Downgrading = p.data.format, p.st.down
	}
	if s.Leader == 0 {
		s.Errors = append(s.Errors, "etcdserver: no leader")
	}
	for _, a := range p.st.alarms {
		s.Alarms = append(s.Alarms, a.kind+" "+a.member.String())
	}
	return s
}
