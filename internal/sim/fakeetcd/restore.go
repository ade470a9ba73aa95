package fakeetcd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// Snapshot is what a member had applied at a moment: its database without its
// membership, as a backup carries it. It never changes.
type Snapshot struct {
	Cluster  cluster.ClusterID // that it was taken of
	Revision int64
	Term     uint64 // of the last entry that is in it
	Index    uint64 // likewise

	kv      map[string]keyValue
	leases  map[int64]lease
	alarms  []alarm
	size    int64
	history []past
	version cluster.Version
	down    cluster.Version
	number  int // in its Net; an entry of a log names it by that
}

// Keys lists the keys, sorted.
func (s *Snapshot) Keys() []string { return slices.Sorted(maps.Keys(s.kv)) }

// Has reports whether a key is in it.
func (s *Snapshot) Has(key string) bool {
	_, ok := s.kv[key]
	return ok
}

// take copies a state; n.mu is held.
func (n *Net) take(id cluster.ClusterID, term uint64, st *state) *Snapshot {
	s := &Snapshot{
		Cluster: id, Revision: st.rev, Term: term, Index: st.applied, kv: maps.Clone(st.kv), leases: maps.Clone(st.leases),
		alarms: slices.Clone(st.alarms), size: st.size, history: slices.Clone(st.history), version: st.version, down: st.down, number: len(n.snapshots),
	}
	n.snapshots = append(n.snapshots, s)
	return s
}

// load puts a snapshot into a state, with its revision raised to at least the
// target. What leases there were, there are.
func (s *state) load(from *Snapshot, target int64) {
	s.kv, s.leases, s.alarms = maps.Clone(from.kv), maps.Clone(from.leases), slices.Clone(from.alarms)
	s.history, s.compacted = slices.Clone(from.history), 0
	s.rev, s.size, s.version, s.down = max(from.Revision, target), from.size, from.version, from.down
	if s.rev > from.Revision {
		_ = s.compact(s.rev) // never fails: the revision is there, and nothing was compacted yet
	}
}

// Snapshot reads the member's database as the member has applied it.
func (m Member) Snapshot(ctx context.Context) (*Snapshot, error) {
	v, err := m.ask(ctx, "read the database", true, func(p *Proc, r *request) {
		r.finish(p.net.take(p.cluster, p.term, p.st), nil)
	})
	if err != nil {
		return nil, err
	}
	return v.(*Snapshot), nil
}

// Extract reads the database out of data on which no process runs, with the
// commit raised to the last entry: each of them may have been acknowledged.
func (n *Net) Extract(d *Data) *Snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := newState()
	var term uint64
	for _, e := range d.entries {
		st.applied, term = e.GetIndex(), e.GetTerm()
		if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
			continue
		}
		var o op
		if err := json.Unmarshal(e.Data, &o); err != nil {
			panic(fmt.Sprintf("fakeetcd: read an entry: %v", err))
		}
		if o.Kind == opRestore {
			st.load(n.snapshots[o.Snapshot], o.Revision)
			st.unmark(o.Version)
			continue
		}
		_, _ = st.apply(o) // a refusal was the caller's
	}
	return n.take(d.cluster, term, st)
}

// End is Data.Progress while a process may be running on it.
func (n *Net) End(d *Data) (term, index, commit uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return d.Progress()
}

// Restore builds the data of a new cluster of one voter from a snapshot, as
// etcd's tool does: new IDs from token and peer URLs, the membership alone in
// the log, everything committed. The revision is raised to the target.
//
// What the real tool puts into a raft snapshot is an entry here, so that
// learners get it with the log.
func (n *Net) Restore(s *Snapshot, token, name string, peerURLs []string, target int64, reader cluster.Version) *Data {
	own := cluster.Member{Name: name, PeerURLs: slices.Sorted(slices.Values(peerURLs))}
	ids, id := etcd.MemberIDs(token, []cluster.Member{own})
	own.ID = ids[0]
	context, err := json.Marshal(confContext{Member: own})
	if err != nil {
		panic(fmt.Sprintf("fakeetcd: marshal a founder: %v", err))
	}
	change, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(own.ID)), Context: context})
	if err != nil {
		panic(fmt.Sprintf("fakeetcd: marshal a configuration change: %v", err))
	}
	load := op{Kind: opRestore, Snapshot: s.number, Revision: target, Version: reader}
	return &Data{
		member: own.ID, cluster: id,
		entries: []*raftpb.Entry{
			{Type: raftpb.EntryConfChange.Enum(), Term: new(uint64(1)), Index: new(uint64(1)), Data: change},
			{Type: raftpb.EntryNormal.Enum(), Term: new(uint64(1)), Index: new(uint64(2)), Data: load.marshal()},
		},
		hard: &raftpb.HardState{Term: new(uint64(1)), Vote: new(uint64(own.ID)), Commit: new(uint64(2))},
	}
}

// unmark takes out of restored data what says that it is of a later line than the
// release that is to read it; zero: it is left as it is.
func (s *state) unmark(reader cluster.Version) {
	if !reader.IsZero() && older(reader, s.version) {
		s.version, s.down = cluster.Version{}, cluster.Version{}
	}
}
