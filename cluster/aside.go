package cluster

import (
	"path"
	"time"
)

// Reasons for which data is set aside. Any other says in words how a disk
// forgot its member.
const (
	// AsideRemoved: a quorum of the member's own cluster removed it.
	AsideRemoved = "removed"
	// AsideSuperseded: the history lists the member's cluster as closed.
	AsideSuperseded = "superseded"
	// AsideUnknown: nothing is recorded beside the directory.
	AsideUnknown = "unknown"
)

// Doubt is what a host has on durable record about its member's keys: whether a leader
// ever had reason to think that they are not those of the other voters. A leader tells
// it with each hash that it asks for, before a comparison can convict the member, so
// that whoever has it removed, and whoever has its data set aside later, the host knows.
type Doubt string

const (
	// DoubtUnknown: the member began under a release of etcdadm that kept no such
	// record, or under another program. It stays so.
	DoubtUnknown Doubt = ""
	// DoubtNone: no leader has told of any since the member's first start.
	DoubtNone Doubt = "none"
	// DoubtFound: a leader told of one, or asked for a hash and told nothing, as
	// earlier releases do. It stays so.
	DoubtFound Doubt = "found"
)

// SetAside is a data directory that was moved away under a name of its own,
// with what the host wrote down beside it just then. What an earlier release
// did not write down is zero, and nothing is concluded from it.
type SetAside struct {
	Dir        string    `json:"dir"`
	Cluster    ClusterID `json:"cluster,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Member     MemberID  `json:"member,omitempty"`
	Reason     string    `json:"reason"`
	Bytes      int64     `json:"bytes,omitempty"`
	// Version is the release that ran the member last.
	Version Version `json:"version,omitzero"`
	// At is when it was set aside, by the host's clock.
	At time.Time `json:"at,omitzero"`
	// Log is the end of the member's log, as it was read from the disk when
	// the member was stopped for good; zero: it could not be read.
	Log Progress `json:"log,omitzero"`
	// Doubt is about the member's keys. What the others were found to differ from may
	// be the right data.
	Doubt Doubt `json:"doubt,omitempty"`
	// Foreign: the host's own record does not know of having given that member
	// up, so that what lies beside the directory is not its word.
	Foreign bool `json:"foreign,omitempty"`
}

// Name is the directory's own, by which people and commands call it.
func (a SetAside) Name() string { return path.Base(a.Dir) }

// Prunable reports whether the record is one that data may be pruned by itself
// on (SAFETY.md, rule 22): a quorum removed the member, nobody ever doubted its keys,
// and everything that has to be compared with what serves now is known.
func (a SetAside) Prunable() bool {
	return a.Reason == AsideRemoved && a.Doubt == DoubtNone && !a.Foreign && a.Cluster != 0 && a.Generation != 0 && a.Member != 0 && !a.At.IsZero() && a.Log.Index != 0
}
