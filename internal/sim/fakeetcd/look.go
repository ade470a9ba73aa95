package fakeetcd

import (
	"slices"

	"etcdadm.io/cluster"
)

// Seen is what an onlooker sees of a running process, without a call to it.
type Seen struct {
	Host    cluster.HostID
	Member  cluster.MemberID
	Cluster cluster.ClusterID
	Leader  cluster.MemberID // zero: it knows of none
	Applied uint64
	// Revision is the store's.
	Revision int64
	Serving  bool
	Paused   bool
	Version  cluster.Version
	Agreed   cluster.Version // the cluster version; zero: none yet
	Down     cluster.Version // the target of a downgrade that is under way; zero: none
	Learner  bool
	// Quarantined: ordinary clients do not reach it.
	Quarantined bool
	// Defragmenting: its database is being written anew.
	Defragmenting bool
	Members       []cluster.Member // as it has applied them, sorted by ID
	WithData      *Data
}

// Look lists the running processes, in the order of their start. One that has
// not found out what it is yet has no member ID.
func (n *Net) Look() []Seen {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]Seen, 0, len(n.procs))
	for _, p := range n.procs {
		s := Seen{
			Host: p.host, Member: p.member, Cluster: p.cluster, Leader: p.lead, Applied: p.st.applied, Revision: p.st.rev,
			Serving: p.serving, Paused: p.paused, Members: p.st.list(), WithData: p.data,
			Quarantined: p.launch.Quarantined, Defragmenting: p.writesAnew, Version: p.launch.Version, Agreed: p.st.version, Down: p.st.down,
		}
		if m := p.st.members[p.member]; m != nil {
			s.Learner = m.Learner
		}
		out = append(out, s)
	}
	return out
}

// HasWAL is Data.HasWAL while a process may be running on it.
func (n *Net) HasWAL(d *Data) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return d.HasWAL()
}

// Alarms are those that running members know of, each once, sorted.
func (n *Net) Alarms() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, p := range n.procs {
		for _, a := range p.st.alarms {
			out = append(out, a.kind+" "+a.member.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
