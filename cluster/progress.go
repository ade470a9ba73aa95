package cluster

// Progress is how far a store's history went, in raft's order and in etcd's
// revisions. It is a lower bound wherever it is kept.
type Progress struct {
	Revision int64  `json:"revision,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	Index    uint64 `json:"index,omitempty"`
}

// LogReading is how far a reading of a member's log has come, in bytes.
type LogReading struct {
	Bytes int64 `json:"bytes"`
	Of    int64 `json:"of"` // the sizes of its files, which end before they are full
}
