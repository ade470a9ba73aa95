package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// The command `etcdadm adopt --join`, as it ships, on a machine of the world.

// command is a process that a person runs on a machine. It is struck like a daemon:
// at its calls, by a power cut, by what is cut and slow.
func (w *World) command(m *machine) *daemon {
	m.mu.Lock()
	m.daemons++
	n := m.daemons
	m.mu.Unlock()
	d := &daemon{w: w, m: m, id: m.ID(), n: n, link: fmt.Sprintf("%s#%d", m.name, n), person: true, done: make(chan struct{})}
	d.ctx, d.end = context.WithCancel(w.ctx)
	m.typing.Store(d)
	return d
}

// adopts runs `etcdadm adopt --join` on a machine until it ends.
func (w *World) adopts(m *machine, members int, within time.Duration) error {
	d := w.command(m)
	defer func() {
		m.typing.CompareAndSwap(d, nil)
		d.end()
	}()
	d.tracef("a person runs adopt --join (members %d)", members)
	j := &adoption.Join{
		URLs: m.urls(), Count: members, Within: within, Members: &simForeign{d: d}, Place: simPlace{d},
		Folder: control.New(storeView{d}, clusterName),
		Has:    func(v cluster.Version) bool { return slices.Contains(m.installed(), v) },
		Say:    func(format string, args ...any) { d.tracef("adopt: "+format, args...) },
	}
	err := j.Run(d.ctx)
	d.tracef("adopt --join ends: %v", err)
	if !d.lives() {
		return errDead
	}
	return err
}

// simPlace is a machine's disk as the command sees it.
type simPlace struct{ d *daemon }

// ReadAdmission implements adoption.Place.
func (p simPlace) ReadAdmission() (*record.Admission, error) { return simDisk(p).Admission() }

// WriteAdmission implements adoption.Place.
func (p simPlace) WriteAdmission(a *record.Admission) error {
	return p.d.do(kindSave, "admission", func() error {
		p.d.m.mu.Lock()
		defer p.d.m.mu.Unlock()
		b := *a
		p.d.m.disk.admission = &b
		p.d.tracef("admission of member %s, known are %v", a.Member, a.Known)
		return nil
	})
}

// simForeign is the members as the command reaches them.
type simForeign struct {
	d    *daemon
	last cluster.HostID // who answered last
}

var _ adoption.Members = (*simForeign)(nil)

var errNoWay = errors.New("no answer")

// call carries a call to the member of a machine and back.
func (f *simForeign) call(ctx context.Context, k kind, what string, at *machine, do func(context.Context, fakeetcd.Member) error) error {
	d, w := f.d, f.d.w
	turn := w.links.next("join " + what + " " + d.link + ">" + at.name)
	w.pause(ctx, turn.wait(), turn)
	return d.do(k, what+" at "+at.name, func() error {
		own := at.ID() == d.id
		if !own && (!w.cuts.open(members, d.id, at.ID()) || !w.cuts.open(members, at.ID(), d.id)) {
			w.pause(ctx, 5*time.Second, turn)
			return errNoWay
		}
		err := do(ctx, w.etcd.Member(at.ID()))
		if ctx.Err() != nil {
			w.interrupted(turn)
		}
		return err
	})
}

// all are the machines, the one that answered last first.
func (f *simForeign) all() []*machine {
	ms := slices.DeleteFunc(f.d.w.hosts(), func(m *machine) bool { return m.gone.Load() })
	slices.SortStableFunc(ms, func(a, b *machine) int {
		switch {
		case a.ID() == f.last && b.ID() != f.last:
			return -1
		case b.ID() == f.last && a.ID() != f.last:
			return 1
		}
		return 0
	})
	return ms
}

// List implements adoption.Members.
func (f *simForeign) List(ctx context.Context) (view cluster.MemberView, err error) {
	var failed []error
	for _, m := range f.all() {
		err := f.call(ctx, kindMemberRead, "list", m, func(ctx context.Context, e fakeetcd.Member) error {
			view, err = e.View(ctx, true)
			return err
		})
		if err == nil {
			f.last = m.ID()
			return view, nil
		}
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	return view, errors.Join(failed...)
}

// at is the machine where a member is listed for its peers; nil: there is none.
func (f *simForeign) at(m cluster.Member) *machine {
	for _, x := range f.d.w.hosts() {
		if slices.ContainsFunc(m.PeerURLs, func(u string) bool { return strings.Contains(u, "//"+x.address+":") }) {
			return x
		}
	}
	return nil
}

// Status implements adoption.Members.
func (f *simForeign) Status(ctx context.Context, m cluster.Member) (s cluster.MemberStatus, err error) {
	at := f.at(m)
	if len(m.ClientURLs) == 0 || at == nil {
		return s, errors.New("it has told nobody where it serves clients")
	}
	err = f.call(ctx, kindMemberRead, "status", at, func(ctx context.Context, e fakeetcd.Member) error {
		s, err = e.Status(ctx)
		return err
	})
	return s, err
}

// change has one member make a change, after it said that it is of this cluster.
func (f *simForeign) change(ctx context.Context, of cluster.ClusterID, what string, at *machine, do func(context.Context, fakeetcd.Member) error) error {
	var view cluster.MemberView
	err := f.call(ctx, kindMemberRead, "agreed list", at, func(ctx context.Context, e fakeetcd.Member) (err error) {
		view, err = e.View(ctx, true)
		return err
	})
	if err == nil && view.Cluster != of {
		err = fmt.Errorf("a member of cluster %s answers, and not of %s", view.Cluster, of)
	}
	if err == nil {
		err = f.call(ctx, kindMember, what, at, do)
	}
	if err != nil {
		f.last = ""
	}
	return err
}

// by is a machine that is asked for a change; not the one at which a member is.
func (f *simForeign) by(but cluster.MemberID) *machine {
	seen := f.d.w.etcd.Look()
	for _, m := range f.all() {
		if slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Host == m.ID() && s.Member != but && !s.Learner && s.Serving }) {
			return m
		}
	}
	return f.d.m
}

// AddLearner implements adoption.Members.
func (f *simForeign) AddLearner(ctx context.Context, of cluster.ClusterID, urls []string) error {
	return f.change(ctx, of, "add learner", f.by(0), func(ctx context.Context, e fakeetcd.Member) error {
		_, err := e.AddMember(ctx, urls, true)
		return err
	})
}

// Promote implements adoption.Members.
func (f *simForeign) Promote(ctx context.Context, of cluster.ClusterID, id cluster.MemberID) error {
	return f.change(ctx, of, "promote", f.by(0), func(ctx context.Context, e fakeetcd.Member) error { return e.Promote(ctx, id) })
}

// Remove implements adoption.Members.
func (f *simForeign) Remove(ctx context.Context, of cluster.ClusterID, id cluster.MemberID) error {
	return f.change(ctx, of, "remove", f.by(id), func(ctx context.Context, e fakeetcd.Member) error { return e.Remove(ctx, id) })
}

// MoveLeader implements adoption.Members.
func (f *simForeign) MoveLeader(ctx context.Context, of cluster.ClusterID, leader cluster.Member, to cluster.MemberID) error {
	at := f.at(leader)
	if at == nil {
		return errors.New("the leader is nowhere")
	}
	return f.change(ctx, of, "move leader", at, func(ctx context.Context, e fakeetcd.Member) error { return e.MoveLeader(ctx, to) })
}

// Backup implements adoption.Members.
func (f *simForeign) Backup(ctx context.Context, of cluster.ClusterID) (string, error) {
	at := f.by(0)
	b, err := f.d.backUp(ctx, at.ID(), f.d.w.foreign.version, "before it is taken over")
	if err == nil && b.Cluster != of {
		err = fmt.Errorf("a member of cluster %s answers", b.Cluster)
	}
	return b.Name, err
}

// MayChange implements adoption.Members.
func (f *simForeign) MayChange(context.Context) error { return nil }

// Quota implements adoption.Members: etcd's own, or less.
func (f *simForeign) Quota(context.Context, cluster.Member) (int64, error) { return 0, nil }

// Certified implements adoption.Members.
func (f *simForeign) Certified() error { return nil }

// Reach implements adoption.Members.
func (f *simForeign) Reach(_ context.Context, m cluster.Member) error {
	if open, _ := f.d.w.etcd.Reach(f.d.id, m.PeerURLs); !open {
		return errNoWay
	}
	return nil
}
