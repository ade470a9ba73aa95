package sim

import (
	"context"
	"path"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// What daemons write into the control folder beside the intent: a count that a
// command asked for, over the spec that a person wrote, and a recovery that was
// asked for in advance.

// Spec writes a spec into the store, as a person does.
func (w *World) Spec(s cluster.Spec) {
	w.tracef("", "spec: %d members of etcd %s", s.MemberCount, s.EtcdVersion)
	w.mu.Lock()
	w.persons++
	if s.MemberCount != w.asked { // the same once more is no change
		w.asked, w.askedBy = s.MemberCount, ""
	}
	w.mu.Unlock()
	w.atDesk("write the spec", func(ctx context.Context, f *control.Folder) error { return f.WriteSpec(ctx, s) })
}

// personWroteSpec notes what a command of a person wrote into the spec.
func (w *World) personWroteSpec() {
	n := w.wanted().MemberCount
	w.mu.Lock()
	defer w.mu.Unlock()
	w.persons++
	w.asked, w.askedBy = n, ""
}

// wanted is the spec as the store has it, or every daemon.
func (w *World) wanted() *cluster.Spec {
	if w.static != nil {
		return w.static
	}
	read, err := control.New(w.store, clusterName).ReadSpec(w.ctx)
	if err != nil || read.Spec == nil {
		w.violate("read the spec: %v", err)
		return &cluster.Spec{}
	}
	return read.Spec
}

// wroteSpec: a daemon writes the spec only for a command of a generation that is
// written down, and never over what a person wrote after the command was queued,
// unless that is what the spec was then, or what a command before asked for: who of
// the two wrote that nobody can tell.
func (w *World) wroteSpec(d *daemon) {
	in, n := w.recorded(), w.wanted().MemberCount
	d.tracef("spec in the store: %d members", n)
	if in == nil {
		w.violate("%s writes the spec without a generation", d.id)
		return
	}
	w.mu.Lock()
	theirs := w.askedBy != "" || slices.ContainsFunc(in.CommandsRun, func(name string) bool { return w.orders[name].members == w.asked })
	asked := slices.ContainsFunc(in.CommandsRun, func(name string) bool {
		o, ok := w.orders[name]
		return ok && o.members == n && (o.over == w.asked || theirs)
	})
	before := w.asked
	w.asked, w.askedBy = n, d.id
	w.mu.Unlock()
	if !asked {
		w.violate("%s writes a spec of %d members over one of %d, and no command that was run asked for that", d.id, n, before)
	}
}

// uncounted says that the count of the last command that was run is lost.
func (w *World) uncounted() string {
	in := w.recorded()
	if in == nil {
		return ""
	}
	w.mu.Lock()
	persons, asked := w.persons, order{}
	for _, name := range in.CommandsRun {
		if o := w.orders[name]; o.members != 0 {
			asked = o
		}
	}
	w.mu.Unlock()
	if n := w.wanted().MemberCount; asked.members != 0 && asked.specs == persons && asked.members != n {
		return "the spec asks for " + itoa(n) + " members, and " + asked.String() + " was run"
	}
	return ""
}

// ackSlack is how far a daemon's knowledge that the quorum is gone may be behind:
// it looks every seven seconds.
const ackSlack = 20 * time.Second

// queuedByItself: a daemon queues a recovery only where that was asked for in
// advance, when nobody was served for as long as was said, and from a survivor
// that has everything which is on record (rule 15).
func (w *World) queuedByItself(d *daemon, key string) {
	name := path.Base(path.Dir(key))
	cs, err := control.New(w.store, clusterName).Commands(w.ctx)
	i := slices.IndexFunc(cs, func(c control.Command) bool { return c.Name == name })
	if err != nil || i < 0 || cs[i].Wish == nil {
		w.violate("%s queues what cannot be read: %s (%v)", d.id, name, err)
		return
	}
	wish := cs[i].Wish
	o := order{kind: wish.Kind, host: wish.Host, dir: wish.Dir, lost: wish.Lost, byItself: true, at: time.Now()}
	w.mu.Lock()
	w.orders[name] = o
	w.mu.Unlock()
	d.tracef("queued %s by itself: %s", name, o)
	after := w.wanted().AutoRecoverAfter
	w.check.mu.Lock()
	w.check.recovered++
	last := w.check.lastAck
	w.check.mu.Unlock()
	switch {
	case o.kind != cluster.CommandRecover || after <= 0:
		w.violate("%s queues %s, and nobody asked for that", d.id, o)
	case time.Since(last) < after-ackSlack:
		w.violate("%s queues %s %s after a client was served, and that was to be after %s", d.id, o, time.Since(last).Round(time.Second), after)
	}
	w.checkFurthest(d, o.host)
}

// checkFurthest: the survivor reaches the record in the store.
func (w *World) checkFurthest(d *daemon, from cluster.HostID) {
	m, in := w.hostNow(from), w.recorded()
	if m == nil || in == nil {
		return // it went this moment
	}
	s, ok := m.state()
	have := m.dir(s.Local.Token)
	if !ok || have == nil {
		return
	}
	var end cluster.Progress
	end.Term, end.Index, _ = w.etcd.End(have.data)
	r, err := control.New(w.store, clusterName).ReadRecord(w.ctx)
	if err != nil {
		return
	}
	for _, c := range r.Clusters {
		if top := (cluster.Progress{Term: c.Term, Index: c.Index}); c.Cluster == in.Cluster && end.Before(top) {
			w.violate("%s recovers from %s, which is at term %d and index %d, and term %d and index %d are on record", d.id, from, end.Term, end.Index, top.Term, top.Index)
		}
	}
}

// checkRegular: what is to be done at an interval is done, once all is well.
func (w *World) checkRegular() {
	if w.every <= 0 {
		return
	}
	began := time.Now()
	most := max(w.every, w.drills)
	if slices.ContainsFunc(w.hosts(), func(m *machine) bool { return m.clock.wasOff() }) {
		// What a host wrote down while its clock was ahead, and what was named by it,
		// becomes a moment ago when the clocks have caught up: one interval, once.
		most *= 2
	}
	most += 2 * time.Minute
	newest := func() (at time.Time) {
		for _, name := range w.backupsTaken() {
			if t, err := time.Parse(time.RFC3339, name[:len("2006-01-02T15:04:05Z")]); err == nil && t.After(at) {
				at = t
			}
		}
		return at
	}
	done := func() bool {
		w.mu.Lock()
		drilled := w.drilled
		w.mu.Unlock()
		return newest().After(began) && (w.drills <= 0 || drilled.After(began))
	}
	w.Until("backed up and drilled at the intervals that were asked for", most, done)
}
