package cluster

import (
	"time"
)

// Memory is what has to be remembered between observations. It is folded by
// [Fold] from one observation to the next and is plain data.
type Memory struct {
	At      time.Time      `json:"at,omitzero"`       // of the observation that was folded last
	Hosts   []HostMemory   `json:"hosts,omitempty"`   // sorted by host
	Members []MemberMemory `json:"members,omitempty"` // sorted by member
	// EnoughSince: since when enough hosts for a founding by majority have
	// been in sight together.
	EnoughSince time.Time `json:"enoughSince,omitzero"`
	// QuorumlessSince: since when a cluster that is founded has no quorum: none is
	// up, no read goes through raft, and no voter is being defragmented.
	QuorumlessSince time.Time `json:"quorumlessSince,omitzero"`
	// Founding: since when a founding has been watched that does not serve.
	Founding Founding `json:"founding,omitzero"`
	// Upkeep is what has to be remembered of etcd's own ills.
	Upkeep UpkeepMemory `json:"upkeep,omitzero"`
	// Halting is what has to be remembered of a halt that is in force.
	Halting Halting `json:"halting,omitzero"`
	// Asked: since when commands in the queue have been waiting.
	Asked []Asked `json:"asked,omitempty"`
	// Excused: whose silence does not count, or did not until lately. Sorted by host.
	Excused []Excused `json:"excused,omitempty"`
	// Quiet: since when every voter's host has been under this fence while the
	// intent stayed as it was.
	Quiet Quiet `json:"quiet,omitzero"`
}

// Asked is what has to be remembered of a command in the queue that asks for a generation.
type Asked struct {
	Command string `json:"command"`
	// Since is when the leader saw it first, or the last time that something was seen
	// to be done for it. Whoever queued it may have another clock, so the command's own
	// time tells nothing of that (SAFETY.md, rule 17).
	Since time.Time `json:"since"`
}

// Halting is what has to be remembered of a halt that is in force: since when it
// is watched, and since when which of its voters has not been seen to keep it.
type Halting struct {
	ID      string    `json:"id,omitempty"`      // of the halt; empty: none is in force
	Since   time.Time `json:"since,omitzero"`    // by the clock of who watches; the halt's own time is by that of who began it
	Missing []Missing `json:"missing,omitempty"` // in the order of the intent's voters
}

// Excused is what has to be remembered of a host whose silence did not count.
type Excused struct {
	Host HostID `json:"host,omitempty"` // empty: any, since nobody knew who was paused
	// From is the first look from which on silence counts again; while the pause is in
	// force, the last look.
	From    time.Time `json:"from"`
	InForce bool      `json:"inForce,omitempty"`
}

// UpkeepMemory is what has to be remembered of etcd's own ills.
type UpkeepMemory struct {
	// FullSince: since when there is a NOSPACE alarm; FullEnded is when the last
	// one was seen to be over, and FullTimes how often one began, with less than
	// [FullAgain] in between.
	FullSince time.Time `json:"fullSince,omitzero"`
	FullEnded time.Time `json:"fullEnded,omitzero"`
	FullTimes int       `json:"fullTimes,omitempty"`
	// CorruptSince: since when there is a CORRUPT alarm.
	CorruptSince time.Time `json:"corruptSince,omitzero"`
	// Revisions are samples of the store's revision, oldest first.
	Revisions []RevisionAt `json:"revisions,omitempty"`
	// Compared is the revision of the last comparison that was counted, At when
	// that was, From when the first of its hashes was begun, and Undecided how many
	// of them in a row found a difference and no majority.
	Compared     int64     `json:"compared,omitempty"`
	ComparedAt   time.Time `json:"comparedAt,omitzero"`
	ComparedFrom time.Time `json:"comparedFrom,omitzero"`
	Compacted    int64     `json:"compacted,omitempty"`
	Undecided    int       `json:"undecided,omitempty"`
}

// Missing is a voter of a halt of which a look did not show that it has stopped
// with the end of its log in sight.
type Missing struct {
	Member MemberID `json:"member"`
	// Since is when that was so first, without a look in between that showed it,
	// or the last time that reading its log was seen to go on.
	Since time.Time `json:"since"`
	// Read is how much of its log had been read by then.
	Read int64 `json:"read,omitempty"`
}

// RevisionAt is the store's revision at a time.
type RevisionAt struct {
	At       time.Time `json:"at"`
	Revision int64     `json:"revision"`
}

func since(before time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case before.IsZero():
		return now
	}
	return before
}

// Member returns what is remembered of a member.
func (m Memory) Member(id MemberID) MemberMemory {
	for i := range m.Members {
		if m.Members[i].Member == id {
			return m.Members[i]
		}
	}
	return MemberMemory{Member: id}
}

// Host returns what is remembered of a host.
func (m Memory) Host(id HostID) (HostMemory, bool) {
	for _, x := range m.Hosts {
		if x.Host == id {
			return x, true
		}
	}
	return HostMemory{}, false
}
