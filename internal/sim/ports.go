package sim

import (
	"context"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/member"
)

// seeds is discovery: every machine that was ever put up.
type seeds struct{ w *World }

var _ discovery.Seeds = seeds{}

// Seeds implements discovery.Seeds.
func (s seeds) Seeds(context.Context) ([]discovery.Seed, error) {
	var out []discovery.Seed
	for _, m := range s.w.hosts() {
		if !m.gone.Load() && !m.elsewhere {
			out = append(out, discovery.Seed{Endpoint: m.endpoint()})
		}
	}
	return out, nil
}

// simReacher is a daemon's host.Reacher.
type simReacher struct{ d *daemon }

// Reach implements host.Reacher.
func (r simReacher) Reach(ctx context.Context, urls []string) (open, answers bool) {
	dice := r.d.w.links.next("reach " + r.d.link + ">" + strings.Join(urls, ","))
	r.d.w.pause(ctx, dice.wait(), dice)
	err := r.d.do(kindReach, "", func() error {
		open, answers = r.d.w.etcd.Reach(r.d.id, urls)
		return nil
	})
	return open && err == nil, answers && err == nil
}

// simMember is the driver of a daemon's own member.
type simMember struct{ d *daemon }

var _ member.Member = simMember{}

func (m simMember) change(ctx context.Context, what string, f func(member.Member) error) error {
	return m.call(ctx, kindMember, what, func(h member.Member) error {
		err := f(h)
		if err != nil {
			m.d.tracef("%s: %v", what, err)
		}
		return err
	})
}

func (m simMember) call(ctx context.Context, k kind, what string, f func(member.Member) error) error {
	w := m.d.w
	dice := w.links.next(what + " " + m.d.link)
	// What a host asks at once, arrives one after the other.
	w.pause(ctx, dice.wait(), dice)
	return m.d.do(k, what, func() error {
		err := f(w.etcd.Member(m.d.id))
		if ctx.Err() != nil {
			w.interrupted(dice)
		}
		return err
	})
}

func (m simMember) Status(ctx context.Context) (s cluster.MemberStatus, err error) {
	err = m.call(ctx, kindMemberRead, "status", func(h member.Member) error {
		s, err = h.Status(ctx)
		return err
	})
	return s, err
}

func (m simMember) LocalStatus(ctx context.Context) (s cluster.MemberStatus, err error) {
	err = m.call(ctx, kindMemberRead, "local status", func(h member.Member) error {
		s, err = h.LocalStatus(ctx)
		return err
	})
	return s, err
}

func (m simMember) View(ctx context.Context, linearizable bool) (v cluster.MemberView, err error) {
	what := "view"
	if linearizable {
		what = "agreed view"
	}
	err = m.call(ctx, kindMemberRead, what, func(h member.Member) error {
		v, err = h.View(ctx, linearizable)
		return err
	})
	return v, err
}

func (m simMember) AddMember(ctx context.Context, urls []string, learner bool) (added cluster.Member, err error) {
	err = m.change(ctx, "add "+strings.Join(urls, ","), func(h member.Member) error {
		added, err = h.AddMember(ctx, urls, learner)
		return err
	})
	return added, err
}

func (m simMember) Promote(ctx context.Context, id cluster.MemberID) error {
	return m.change(ctx, "promote "+id.String(), func(h member.Member) error { return h.Promote(ctx, id) })
}

func (m simMember) Remove(ctx context.Context, id cluster.MemberID) error {
	return m.change(ctx, "remove "+id.String(), func(h member.Member) error { return h.Remove(ctx, id) })
}

func (m simMember) UpdatePeerURLs(ctx context.Context, id cluster.MemberID, urls []string) error {
	return m.change(ctx, "update "+id.String(), func(h member.Member) error { return h.UpdatePeerURLs(ctx, id, urls) })
}

func (m simMember) MoveLeader(ctx context.Context, to cluster.MemberID) error {
	return m.change(ctx, "move leader to "+to.String(), func(h member.Member) error { return h.MoveLeader(ctx, to) })
}

func (m simMember) Agreed(ctx context.Context) (v cluster.Agreement, err error) {
	err = m.call(ctx, kindMemberRead, "version", func(h member.Member) error {
		v, err = h.Agreed(ctx)
		return err
	})
	return v, err
}

func (m simMember) Downgrade(ctx context.Context, to cluster.Version) error {
	return m.change(ctx, "downgrade to "+to.String(), func(h member.Member) error { return h.Downgrade(ctx, to) })
}

func (m simMember) HashKV(ctx context.Context, revision int64) (k etcd.KVHash, err error) {
	err = m.call(ctx, kindMemberRead, "hash", func(h member.Member) error {
		k, err = h.HashKV(ctx, revision)
		return err
	})
	return k, err
}

func (m simMember) Defragment(ctx context.Context, limit time.Duration) error {
	return m.change(ctx, "defragment", func(h member.Member) error {
		m.d.w.checkDefragment(m.d)
		return h.Defragment(ctx, limit)
	})
}

func (m simMember) Compact(ctx context.Context, revision int64) error {
	return m.change(ctx, "compact", func(h member.Member) error { return h.Compact(ctx, revision) })
}

func (m simMember) Disarm(ctx context.Context, alarm string, id cluster.MemberID) error {
	return m.change(ctx, "disarm "+alarm+" "+id.String(), func(h member.Member) error { return h.Disarm(ctx, alarm, id) })
}

func (m simMember) CancelDowngrade(ctx context.Context) error {
	return m.change(ctx, "cancel downgrade", func(h member.Member) error { return h.CancelDowngrade(ctx) })
}
