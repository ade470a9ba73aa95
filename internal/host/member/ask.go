package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

var errNoMember = errors.New("it runs no member")

// now is the member as it was launched last, or why there is nothing to ask.
func (c *Client) now() (Member, error) {
	for {
		c.mu.Lock()
		l, have, of := c.keeper.Now().Launch, c.have, c.of
		c.mu.Unlock()
		if l == nil {
			return nil, errNoMember
		}
		want := c.reaches(l)
		if have != nil && of == want {
			return have, nil
		}
		fresh, err := c.dial(*l)
		if err != nil {
			return nil, fmt.Errorf("reach the own member: %w", err)
		}
		c.mu.Lock()
		now := c.keeper.Now().Launch
		switch {
		case now == nil || now.Nonce != l.Nonce: // it was launched anew meanwhile
			c.mu.Unlock()
			closeMember(fresh)
			continue
		case c.have != nil && c.of == want: // somebody else was faster
			have = c.have
			c.mu.Unlock()
			closeMember(fresh)
			return have, nil
		}
		old := c.have
		c.have, c.of = fresh, want
		c.mu.Unlock()
		closeMember(old)
		return fresh, nil
	}
}

// Own is the member as it was launched last, and whether it is in quarantine. It is reached anew where nobody has asked it yet, so that
// who looks at it alone waits for nobody else's look.
func (c *Client) Own() (m Member, quarantined bool, err error) {
	if m, err = c.now(); err != nil {
		return nil, false, err
	}
	l := c.keeper.Now().Launch
	return m, l != nil && l.Quarantined, nil
}

func closeMember(m Member) {
	if c, ok := m.(io.Closer); ok {
		c.Close()
	}
}

// Ask is the status and the member list of the member that this process is, with what the
// members have agreed on, if that is wanted too; nil is what there is no answer to.
//
// A process is waited for a third of the time that it has run: a founder listens before it
// serves, a member that restarts serves before it hears a leader, and a look holds up what
// would be done meanwhile. An answer that is late for one look is there for the next.
func (c *Client) Ask(ctx context.Context, of cluster.Process, agreement bool) (status *cluster.MemberStatus, view *cluster.MemberView) {
	m, err := c.now()
	if err != nil {
		return nil, nil
	}
	ctx, done := c.whileRuns(ctx, of.PID)
	defer done()
	if of.Uptime > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, max(of.Uptime/3, youngTimeout))
		defer cancel()
	}
	var agreed cluster.Agreement
	var all sync.WaitGroup
	all.Go(func() { status = askStatus(ctx, m) })
	if agreement {
		all.Go(func() { agreed = askAgreed(ctx, m) })
	}
	all.Go(func() { view = askView(ctx, m) })
	all.Wait()
	if status != nil {
		status.ClusterVersion, status.Downgrade, status.AuthOn = agreed.Version, agreed.Downgrade, agreed.Auth
	}
	return status, view
}

func askStatus(ctx context.Context, m Asker) *cluster.MemberStatus {
	ctx, cancel := context.WithTimeout(ctx, StatusTimeout)
	defer cancel()
	st, err := m.Status(ctx)
	if err != nil {
		return nil
	}
	st.Alarms, st.Errors = slices.Clone(st.Alarms), slices.Clone(st.Errors)
	return &st
}

// Alarms are those that the own member tells of, by itself, sorted: etcd keeps them in
// no order (Source: AlarmStore.Get goes through a map). false: it does not answer, or
// has none ever, as etcd 2.
func (c *Client) Alarms(ctx context.Context) ([]string, bool) {
	if l := c.keeper.Now().Launch; l == nil || !l.Version.Has(cluster.V3API) {
		return nil, false
	}
	m, err := c.now()
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, StatusTimeout)
	defer cancel()
	st, err := m.LocalStatus(ctx)
	if err != nil {
		return nil, false
	}
	return slices.Sorted(slices.Values(st.Alarms)), true
}

// Listed is the members that raft's own list has, by the own member. false: it is not
// known, or it is a cluster that is not all ours yet (generation 0): a daemon that this
// one does not hear may add a member to it at any time.
func (c *Client) Listed(ctx context.Context) ([]cluster.Member, bool) {
	s := c.keeper.Now()
	m, err := c.now()
	if err != nil || s.Local.Generation == 0 || s.Local.Cluster == 0 {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	v := viewOf(ctx, m, true)
	if v == nil || v.Cluster != s.Local.Cluster || len(v.Members) == 0 {
		return nil, false
	}
	return v.Members, true
}

// askAgreed returns the zero agreement when there is no answer.
func askAgreed(ctx context.Context, m Asker) cluster.Agreement {
	ctx, cancel := context.WithTimeout(ctx, StatusTimeout)
	defer cancel()
	a, err := m.Agreed(ctx)
	if err != nil {
		return cluster.Agreement{}
	}
	return a
}

// askView prefers a list that went through raft; without a quorum it is what
// the member itself knows. Both are asked for at once, to be done in one bound.
func askView(ctx context.Context, m Asker) *cluster.MemberView {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	var own *cluster.MemberView
	var asking sync.WaitGroup
	asking.Go(func() { own = viewOf(ctx, m, false) })
	agreed := viewOf(ctx, m, true)
	asking.Wait()
	if agreed != nil {
		return agreed
	}
	return own
}

// viewOf returns nil when there is no answer.
func viewOf(ctx context.Context, m Asker, linearizable bool) *cluster.MemberView {
	v, err := m.View(ctx, linearizable)
	if err != nil {
		return nil
	}
	v.Linearizable = linearizable
	v.Members = record.CopyMembers(v.Members)
	slices.SortFunc(v.Members, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	return &v
}
