package host

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// member is the client of the member as it was launched last; nil when there
// is no launch.
func (h *Host) member() Member {
	h.mu.Lock()
	l, have, of := h.state.Launch, h.client, h.clientOf
	h.mu.Unlock()
	if l == nil {
		return nil
	}
	if have != nil && of == l.Nonce {
		return have
	}
	fresh := h.o.Member(*l)
	h.mu.Lock()
	if h.client != nil && h.clientOf == l.Nonce { // somebody else was faster
		have, of := h.client, fresh
		h.mu.Unlock()
		closeMember(of)
		return have
	}
	old := h.client
	h.client, h.clientOf = fresh, l.Nonce
	h.mu.Unlock()
	closeMember(old)
	return fresh
}

func closeMember(m Member) {
	if c, ok := m.(io.Closer); ok {
		c.Close()
	}
}

func askStatus(ctx context.Context, m Member) *cluster.MemberStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
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
func (h *Host) Alarms(ctx context.Context) ([]string, bool) {
	if l := h.snapshot().Launch; l == nil || !l.Version.Has(cluster.V3API) {
		return nil, false
	}
	m := h.member()
	if m == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
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
func (h *Host) Listed(ctx context.Context) ([]cluster.Member, bool) {
	s := h.snapshot()
	m := h.member()
	if m == nil || s.Local.Generation == 0 || s.Local.Cluster == 0 {
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
func askAgreed(ctx context.Context, m Member) cluster.Agreement {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	a, err := m.Agreed(ctx)
	if err != nil {
		return cluster.Agreement{}
	}
	return a
}

// askView prefers a list that went through raft; without a quorum it is what
// the member itself knows. Both are asked for at once, to be done in one bound.
func askView(ctx context.Context, m Member) *cluster.MemberView {
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
func viewOf(ctx context.Context, m Member, linearizable bool) *cluster.MemberView {
	v, err := m.View(ctx, linearizable)
	if err != nil {
		return nil
	}
	v.Linearizable = linearizable
	v.Members = record.CopyMembers(v.Members)
	slices.SortFunc(v.Members, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	return &v
}
