package cluster

import (
	"time"
)

// Hash is a hash over a member's keys and all that it keeps of their past, as its
// host asked for it.
type Hash struct {
	Running bool      `json:"running,omitempty"`
	Began   time.Time `json:"began,omitzero"` // by the host's clock
	Ended   time.Time `json:"ended,omitzero"`
	Member  MemberID  `json:"member,omitempty"`
	Cluster ClusterID `json:"cluster,omitempty"`
	// Asked is the revision up to which it was asked for.
	Asked int64  `json:"asked,omitempty"`
	Hash  uint32 `json:"hash,omitempty"`
	// Compacted is the compaction that the member had seen. Hashes of different
	// compactions say nothing about each other.
	Compacted int64  `json:"compacted,omitempty"`
	Error     string `json:"error,omitempty"`
}

// DatabaseWork is what a host did to its member's database since its daemon started.
type DatabaseWork struct {
	Member MemberID `json:"member,omitempty"`
	// Compacted is the highest revision up to which the members' past was compacted
	// through this host, and CompactedAt when that was, by its clock.
	Compacted   int64     `json:"compacted,omitempty"`
	CompactedAt time.Time `json:"compactedAt,omitzero"`
	// Defragmented is when the last defragmentation of the member ended, how it
	// did, and how long it took; Before and After are the file's size in bytes.
	Defragmented time.Time     `json:"defragmented,omitzero"`
	Before       int64         `json:"before,omitempty"`
	After        int64         `json:"after,omitempty"`
	Took         time.Duration `json:"took,omitempty"`
	Error        string        `json:"error,omitempty"`
}

// Upkeep is what the leading daemon was told about what etcd does not cure by
// itself (docs/adr/018-upkeep.md).
type Upkeep struct {
	// DefragThreshold is how many percent of a member's database file may be free
	// before it is defragmented; zero: only when a person asks for it.
	DefragThreshold int `json:"defragThreshold,omitempty"`
	// HashInterval is how often the members' keys are compared; zero: never by itself.
	HashInterval time.Duration `json:"hashInterval,omitempty"`
	// KeepHistory: what etcd keeps of the past is not compacted for the sake of room.
	KeepHistory bool `json:"keepHistory,omitempty"`
}
