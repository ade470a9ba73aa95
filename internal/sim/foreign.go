package sim

import (
	"errors"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// A cluster that something else founded and runs (docs/adr/016-adoption.md,
// 021-adoption-by-joining.md). Of what runs it there is only that it keeps its etcds
// running: it starts them, starts one again that ended, and knows nothing of us.

// foreign is the cluster with which a world begins that something else runs.
type foreign struct {
	token   string
	id      cluster.ClusterID // zero: the world begins without one
	version cluster.Version
	at      []*machine
}

// theirs is what runs etcd on a machine in the place of a daemon of ours.
type theirs struct {
	on     bool // it starts etcd
	launch record.Launch
}

var errTheirs = errors.New("an etcd that this daemon did not start holds the data")

// Found puts up a cluster of another program on the machines, and keeps it running.
func (w *World) Found(version cluster.Version, ms ...*machine) {
	f := &w.foreign
	f.token, f.version, f.at = "theirs", version, ms
	var all []cluster.Member
	var named []record.PredecessorNode
	for _, m := range ms {
		all = append(all, cluster.Member{Name: m.name, PeerURLs: m.urls().Peer})
		named = append(named, record.PredecessorNode{Name: m.name, URLs: m.urls()})
	}
	_, f.id = etcd.MemberIDs(f.token, all)
	w.tracef("", "something else runs cluster %s of etcd %s on %v", f.id, version, machineNames(ms))
	for _, m := range ms {
		d := &dir{token: f.token, data: &fakeetcd.Data{}}
		w.keepTrack(d)
		m.mu.Lock()
		m.disk.dirs[f.token] = d
		m.disk.left = &record.PredecessorState{Token: f.token, Version: version.String(), Nodes: named}
		m.theirs = theirs{on: true, launch: record.Launch{
			Version: version, Name: m.ID(), Token: f.token, URLs: m.urls(), InitialCluster: all, Founding: true, Adopted: true,
		}}
		m.mu.Unlock()
		w.loops.Go(func() { w.supervise(m) })
	}
}

// Mark leaves the store as etcd-manager does: with a spec, and a marker that has
// nothing but a time in it.
func (w *World) Mark(s cluster.Spec) {
	w.Spec(s)
	if err := control.New(w.store, clusterName).MarkForeign(w.ctx, s, time.Now()); err != nil {
		w.violate("mark the store: %v", err)
	}
}

// supervise starts etcd whenever none runs, as long as that is somebody else's.
func (w *World) supervise(m *machine) {
	for n := uint64(1); ; n++ {
		w.startTheirs(m)
		if !w.sleep(w.ctx, w.links.next("supervise "+m.name).within(200*time.Millisecond, 2*time.Second)) {
			return
		}
	}
}

func (w *World) startTheirs(m *machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disk.dirs[w.foreign.token]
	if !m.theirs.on || m.off.Load() || m.gone.Load() || d == nil || m.proc != nil && m.proc.Exit() == "" {
		return
	}
	l := m.theirs.launch
	l.Founding = l.Founding && !w.etcd.HasWAL(d.data)
	proc, err := w.etcd.Start(m.ID(), l, d.data)
	if err != nil {
		w.tracef(m.ID(), "what else runs etcd here does not start it: %v", err)
		return
	}
	if m.trusts = !m.plain.Load(); m.trusts {
		proc.Trust()
	}
	m.proc, m.procDir, m.procTheirs, m.asked = proc, d, true, false
	m.theirs.launch.Founding = false // it began: on an emptied disk it would not found again
}

// StopTheirs ends what else runs etcd on a machine, with its etcd: by SIGKILL, as
// etcd-manager does, or gracefully.
func (w *World) StopTheirs(m *machine, kill bool) {
	m.mu.Lock()
	m.theirs.on = false
	proc := m.proc
	runs := m.procTheirs && proc != nil && proc.Exit() == ""
	m.mu.Unlock()
	w.tracef(m.ID(), "what else ran etcd here is ended (kill: %t)", kill)
	switch {
	case !runs:
	case kill:
		w.harm(m)
		proc.Kill()
	default:
		w.harm(m)
		proc.Stop()
	}
}

// StartTheirs has it run again.
func (w *World) StartTheirs(m *machine) {
	w.tracef(m.ID(), "what else runs etcd here is started again")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.theirs.on = true
}

// theirMember is whose data lies on a machine that something else runs; zero: none.
func (m *machine) theirMember() cluster.MemberID {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disk.dirs[m.w.foreign.token]
	if d == nil || m.theirs.launch.Token == "" {
		return 0
	}
	id, _ := m.w.etcd.CloneData(d.data).Member()
	return id
}

// holds reports whether a machine has the data of a member where it belongs.
func (w *World) holder(id cluster.MemberID) *machine {
	for _, m := range w.hosts() {
		if m.gone.Load() {
			continue
		}
		m.mu.Lock()
		for _, d := range m.disk.dirs {
			if have, _ := w.etcd.CloneData(d.data).Member(); have == id {
				m.mu.Unlock()
				return m
			}
		}
		m.mu.Unlock()
	}
	return nil
}

// adopted: the store has the record of the cluster that something else founded.
func (w *World) adopted() bool { return w.recorded() != nil }

// predecessor is what the disk of a machine shows of it.
func (m *machine) predecessor(h cluster.HostID, disk cluster.DiskID) *record.Predecessor {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.disk.left
	if left == nil {
		return nil
	}
	d := m.disk.dirs[left.Token]
	if d == nil || !m.w.etcd.HasWAL(d.data) {
		return nil
	}
	p := &record.Predecessor{Token: left.Token, State: left}
	p.Member, p.Cluster = m.w.etcd.CloneData(d.data).Member()
	if m.proc != nil && m.proc.Exit() == "" && m.procDir == d {
		p.Held = errTheirs
	}
	if _, named := left.Node(h); !named {
		p.Refused, p.Hint = "its state file does not name host "+string(h)+" among the members", "give the daemon the data directory and the ID of one and the same host"
	} else if d.mark != "" && d.mark != disk {
		p.Refused, p.Hint = "its data was carried by a daemon of ours whose record is not here any more", "let the host rejoin with an empty data directory"
	}
	return p
}

// foreignLeft says what of the other program is not gone; empty: nothing.
func (w *World) foreignLeft(seen []fakeetcd.Seen) string {
	for _, m := range w.foreign.at {
		m.mu.Lock()
		on := m.theirs.on && !m.gone.Load()
		runs := m.procTheirs && m.proc.Exit() == ""
		m.mu.Unlock()
		switch {
		case on:
			return "something else runs etcd on " + m.name
		case runs, m.elsewhere && slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Host == m.ID() }):
			return "an etcd that is not ours runs on " + m.name
		}
	}
	return ""
}

// checkAdopted looks at the record that is written over the marker of another program:
// it is of that very cluster, and all of its voters lie on disks of ours.
func (w *World) checkAdopted(d *daemon, in *cluster.Intent) {
	w.step()
	w.check.mu.Lock()
	l := w.check.lines[in.Cluster]
	var members []cluster.Member
	if l != nil {
		l.number, members = in.Generation, l.list
	}
	w.check.mu.Unlock()
	if in.Generation != 1 || in.Cluster != w.foreign.id || in.Source.Kind != cluster.SourceAdopted || l == nil {
		w.violate("%s writes generation %d of cluster %s from %q over the marker of cluster %s", d.id, in.Generation, in.Cluster, in.Source.Kind, w.foreign.id)
		return
	}
	var listed []cluster.Voter
	for _, m := range members {
		if m.Learner {
			w.violate("%s writes that the cluster is ours, and member %s is a learner", d.id, m.ID)
			continue
		}
		listed = append(listed, cluster.Voter{Member: m.ID})
	}
	if !cluster.SameVoters(listed, in.Voters) {
		w.violate("%s writes that the voters are %s, and they are %s", d.id, names(in.Voters), names(listed))
	}
	for _, v := range in.Voters {
		if m := w.carrier(v.Member); m == nil || m.ID() != v.Host || m.elsewhere {
			w.violate("%s writes that the cluster is ours, and no host of ours carries voter %s of %s", d.id, v.Member, v.Host)
		}
	}
}

// checkJoining: while there is no record of ours, voters change only as was written
// down before: ours are promoted, and theirs removed once as many of ours vote as are
// wanted, or by a person who gives one up; c.mu is held.
func (w *World) checkJoining(l *lineage) {
	j, _, err := control.New(w.store, clusterName).ReadJoining(w.ctx)
	if err != nil {
		w.violate("read who joins: %v", err)
		return
	}
	if j == nil {
		j = &control.Joining{} // nobody has begun
	}
	votes := func(ms []cluster.Member, id cluster.MemberID) bool {
		return slices.ContainsFunc(ms, func(m cluster.Member) bool { return m.ID == id && !m.Learner })
	}
	ours := 0
	for _, m := range l.list {
		if !m.Learner && slices.Contains(j.Promoted, m.ID) {
			ours++
		}
		if !m.Learner && !votes(l.before, m.ID) && !slices.Contains(j.Promoted, m.ID) {
			w.violate("member %s votes, and it is not written down that it was promoted", m.ID)
		}
	}
	for _, m := range l.before {
		if m.Learner || votes(l.list, m.ID) || w.givenUp(m.ID) {
			continue
		}
		if !j.IsForeign(m) || ours < j.Members {
			w.violate("voter %s is removed (foreign: %t) while %d of %d of ours vote", m.ID, j.IsForeign(m), ours, j.Members)
		}
	}
}

// givenUp: a person removed the member.
func (w *World) givenUp(id cluster.MemberID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.gaveUp, id)
}
