package fakeetcd

import (
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
)

// Data is what a member keeps on disk. The zero Data is an empty directory. It
// outlives processes; whoever holds it decides what becomes of it: given to the
// next process (a restart), replaced by a zero one (wiped), or by an older Clone
// (rolled back). While a process runs on it, it must not be touched.
type Data struct {
	member  cluster.MemberID
	cluster cluster.ClusterID
	entries []*raftpb.Entry // from index 1; never compacted
	hard    *raftpb.HardState
	owner   *Proc           // nil: free
	format  cluster.Version // the storage version; zero: none is written
	cut     uint64          // the index of the newest raft snapshot; zero: none
	// refused are the indices of changes of the membership that were refused when
	// they were applied; what the newest raft snapshot covers is not judged anew.
	refused map[uint64]bool
	file    int64  // size of the database file
	filed   uint64 // the index of the last entry that could make it grow
	rotten  bool   // what lies there is not what was written
}

// HasWAL reports whether a member was ever started on the data.
func (d *Data) HasWAL() bool { return d.member != 0 }

// Member is the identity in the data; zero when there is none.
func (d *Data) Member() (cluster.MemberID, cluster.ClusterID) { return d.member, d.cluster }

// Progress is the end of the log, as a survivor is chosen by it: the term and
// index of the last entry, committed or not, and the committed index.
func (d *Data) Progress() (term, index, commit uint64) {
	if len(d.entries) > 0 {
		last := d.entries[len(d.entries)-1]
		term, index = last.GetTerm(), last.GetIndex()
	}
	return term, index, d.hard.GetCommit()
}

// Clone copies the data as a file-system snapshot would. It must not be called
// concurrently with Net.Run on a running process's data; use [Net.CloneData].
func (d *Data) Clone() *Data {
	return &Data{member: d.member, cluster: d.cluster, entries: slices.Clone(d.entries), hard: d.hard, format: d.format, cut: d.cut, refused: maps.Clone(d.refused), file: d.file, filed: d.filed, rotten: d.rotten}
}

// CloneData is Data.Clone while a process may be running on it.
func (n *Net) CloneData(d *Data) *Data {
	n.mu.Lock()
	defer n.mu.Unlock()
	return d.Clone()
}

// storage gives raft the log from the data. Entries are never changed once they
// are in a log, so they are shared.
func (d *Data) storage() *raft.MemoryStorage {
	s := raft.NewMemoryStorage()
	if d.hard != nil {
		_ = s.SetHardState(d.hard) // never fails
	}
	_ = s.Append(d.entries) // never fails: the log begins at 1
	return s
}

// save makes entries and hard state durable, as one write.
func (d *Data) save(entries []*raftpb.Entry, hard *raftpb.HardState) {
	if len(entries) > 0 {
		keep := entries[0].GetIndex() - 1
		d.entries = append(d.entries[:keep:keep], entries...)
	}
	if !raft.IsEmptyHardState(hard) {
		d.hard = hard
	}
}
