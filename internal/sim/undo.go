package sim

import "etcdadm.io/cluster"

// saw is what a person sees before an undo, and the command carries (internal/cli):
// how far the data in the directory go, whether a host whose daemon answers set aside
// more of the same cluster, which the person gives up, and what runs now.
func (w *World) saw(o order) *cluster.Seen {
	s := &cluster.Seen{}
	var from cluster.SetAside
	var others []cluster.SetAside
	for _, m := range w.hosts() {
		if m.gone.Load() || m.daemon.Load() == nil {
			continue
		}
		for _, a := range m.setAside() {
			if others = append(others, a); m.ID() == o.host && a.Name() == o.dir {
				from = a
			}
		}
	}
	s.Log, s.Furthest = from.Log, from.Log
	for _, a := range others {
		if s.Log != (cluster.Progress{}) && a.Cluster == from.Cluster && s.Furthest.Before(a.Log) {
			s.Furthest, s.AcceptOlder = a.Log, true
		}
	}
	in := w.recorded()
	if in == nil {
		return s
	}
	s.Generation = in.Generation
	for _, x := range w.etcd.Look() {
		if x.Cluster == in.Cluster && x.Serving && !x.Learner {
			s.Revision = max(s.Revision, x.Revision)
		}
	}
	return s
}

// setAside is what the machine's disk has out of its place. Its daemon reads how far a
// log goes when a person asks; leaders are told only where that is on record.
func (m *machine) setAside() (out []cluster.SetAside) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.disk.aside {
		a := x.note
		if a.Log == (cluster.Progress{}) && a.Cluster != 0 {
			a.Log.Term, a.Log.Index, _ = m.w.etcd.End(x.data)
		}
		out = append(out, a)
	}
	return out
}

// furthestAside is what a machine set aside that goes the furthest; empty: nothing.
func (w *World) furthestAside(m *machine) (dir string) {
	if m == nil {
		return ""
	}
	var furthest cluster.Progress
	for _, a := range m.setAside() {
		if furthest.Before(a.Log) {
			dir, furthest = a.Name(), a.Log
		}
	}
	return dir
}
