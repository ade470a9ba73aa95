package fakeetcd

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/member"
)

// Member is the driver of whatever process runs on a host, as that host itself
// reaches it.
type Member struct {
	net  *Net
	host cluster.HostID
}

var _ member.Member = Member{}

// Member returns the driver of a host's member. It outlives processes.
func (n *Net) Member(h cluster.HostID) Member { return Member{n, h} }

// Member is the driver of the member on the process's host.
func (p *Proc) Member() member.Member { return p.net.Member(p.host) }

func (m Member) ask(ctx context.Context, op string, learner bool, run func(p *Proc, r *request)) (any, error) {
	return m.net.do(ctx, &request{call: Call{Host: m.host, Op: op}, from: m.host, learner: learner, run: run})
}

func (m Member) change(ctx context.Context, op string, run func(p *Proc, r *request)) (any, error) {
	return m.net.do(ctx, &request{call: Call{Host: m.host, Op: op, Mutating: true}, from: m.host, run: run})
}

// WaitReady returns once the member serves.
func (m Member) WaitReady(ctx context.Context) error {
	for {
		_, err := m.ask(ctx, "wait for member", true, func(_ *Proc, r *request) { r.finish(nil, nil) })
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

// reconnect is the pause after a refused connection.
const reconnect = 50 * time.Millisecond

// LocalStatus implements host.Member.
func (m Member) LocalStatus(ctx context.Context) (cluster.MemberStatus, error) {
	v, err := m.ask(ctx, "get status", true, func(p *Proc, r *request) { r.finish(p.status(), nil) })
	if err != nil {
		return cluster.MemberStatus{}, err
	}
	return v.(cluster.MemberStatus), nil
}

// Status implements host.Member.
func (m Member) Status(ctx context.Context) (cluster.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, etcd.CallTimeout)
	defer cancel()
	s, err := m.LocalStatus(ctx)
	if err != nil {
		return s, err
	}
	if s.Learner {
		s.Healthy = s.Leader != 0
		return s, nil
	}
	if s.Leader == 0 {
		return s, nil
	}
	rev, err := m.quorumRead(ctx)
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
		return s, nil
	}
	s.Healthy, s.Revision = true, rev
	return s, nil
}

func (m Member) quorumRead(ctx context.Context) (int64, error) {
	v, err := m.ask(ctx, "read through a quorum", false, func(p *Proc, r *request) {
		p.linearizable(func() { r.finish(p.st.rev, nil) }, func(err error) { r.finish(nil, err) })
	})
	if err != nil {
		return 0, err
	}
	return v.(int64), nil
}

// View implements host.Member.
func (m Member) View(ctx context.Context, linearizable bool) (cluster.MemberView, error) {
	v, err := m.ask(ctx, "list members", false, func(p *Proc, r *request) {
		list := func() {
			r.finish(cluster.MemberView{Cluster: p.cluster, Members: p.st.list(), Linearizable: linearizable}, nil)
		}
		if !linearizable {
			list()
			return
		}
		p.linearizable(list, func(err error) { r.finish(nil, err) })
	})
	if err != nil {
		return cluster.MemberView{}, err
	}
	return v.(cluster.MemberView), nil
}

// AddMember implements host.Member.
func (m Member) AddMember(ctx context.Context, peerURLs []string, learner bool) (cluster.Member, error) {
	op := "add member"
	if learner {
		op = "add learner"
	}
	v, err := m.change(ctx, op, func(p *Proc, r *request) { p.addMember(r, peerURLs, learner) })
	if err != nil {
		return cluster.Member{}, err
	}
	added, ok := v.(cluster.Member)
	if !ok {
		return cluster.Member{}, errors.New(op + ": no member in the reply")
	}
	return added, nil
}

// Promote implements host.Member.
func (m Member) Promote(ctx context.Context, id cluster.MemberID) error {
	_, err := m.change(ctx, "promote member", func(p *Proc, r *request) {
		p.promoteMember(r, id, time.Now().Add(reqTimeout))
	})
	return err
}

// Remove implements host.Member.
func (m Member) Remove(ctx context.Context, id cluster.MemberID) error {
	_, err := m.change(ctx, "remove member", func(p *Proc, r *request) { p.removeMember(r, id) })
	return err
}

// UpdatePeerURLs implements host.Member.
func (m Member) UpdatePeerURLs(ctx context.Context, id cluster.MemberID, peerURLs []string) error {
	_, err := m.change(ctx, "update peer URLs", func(p *Proc, r *request) { p.updateMember(r, id, peerURLs) })
	return err
}

// MoveLeader implements host.Member.
func (m Member) MoveLeader(ctx context.Context, to cluster.MemberID) error {
	_, err := m.change(ctx, "move leader", func(p *Proc, r *request) { p.moveLeader(r, to) })
	return err
}
