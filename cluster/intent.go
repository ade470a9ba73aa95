package cluster

import (
	"cmp"
	"slices"
	"time"
)

// IntentState tells whether a generation is still being made.
type IntentState string

const (
	// IntentFounding: founders may start; only this state is ever resumed.
	IntentFounding IntentState = "founding"
	// IntentFounded: the members served; a cluster whose members are all gone
	// waits for a person's command.
	IntentFounded IntentState = "founded"
)

// Founder is a host and disk that a founding intent names, with everything
// that shapes the bytes of its first start.
type Founder struct {
	Host   HostID   `json:"host"`
	Disk   DiskID   `json:"disk"`
	Member MemberID `json:"member"`
	URLs   URLs     `json:"urls"`
}

// Kinds of sources of a generation.
const (
	SourceNothing  = "nothing"
	SourceBackup   = "backup"
	SourceSurvivor = "survivor"  // the data of a stopped member
	SourceSetAside = "set-aside" // data that was moved away
	// SourceHalted is the data of a member that was stopped together with all
	// others of its generation.
	SourceHalted = "halted"
	// SourceAdopted: nothing was made. The members that another program founded
	// go on, under the IDs that they have.
	SourceAdopted = "adopted"
)

// RevisionMargin is how far a generation begins above the highest revision that
// is known of, which is only a lower bound of what clients saw (SAFETY.md, rule 16).
const RevisionMargin = 1_000_000_000

// Source says what a generation was made from.
type Source struct {
	Kind   string `json:"kind"`
	Backup string `json:"backup,omitempty"`
	// Dir is the name of the directory that was set aside.
	Dir    string  `json:"dir,omitempty"`
	SHA256 string  `json:"sha256,omitempty"` // of the plain snapshot that was restored
	Tool   string  `json:"tool,omitempty"`   // the release whose tool restored it
	Wrote  Version `json:"wrote,omitzero"`   // the release that wrote it
	// Revision is the one that the source ends with, and RevisionTarget the
	// one that the generation begins above (SAFETY.md, rule 16).
	Revision       int64 `json:"revision,omitempty"`
	RevisionTarget int64 `json:"revisionTarget,omitempty"`
	// Accept is the digest of the list of losses that a person accepted, where the
	// source is carried over key by key; empty: nothing may be lost. It is AcceptAny
	// of a backup that is made ready anew when its generation is written down already.
	Accept string `json:"accept,omitempty"`
}

// AcceptAny is no digest: a backup is restored whatever the list says. Daemons that do
// not know it take it for the digest of another list.
const AcceptAny = "any"

// FromData reports whether the generation was made from data, so that it has
// one founder, which must not be started from anything else.
func (s Source) FromData() bool {
	return s.Kind != "" && s.Kind != SourceNothing && s.Kind != SourceAdopted
}

// PastGeneration is an entry of an intent's history.
type PastGeneration struct {
	Generation uint64    `json:"generation"`
	Cluster    ClusterID `json:"cluster,omitempty"`
	Voters     [][]Voter `json:"voters,omitempty"` // each voter set that it had
	// Write is the last write of its intent that Voters take account of.
	Write  uint64 `json:"write,omitempty"`
	Closed bool   `json:"closed,omitempty"`
}

// Voted reports whether the member was a voter of the generation.
func (g PastGeneration) Voted(id MemberID) bool {
	return slices.ContainsFunc(g.Voters, func(set []Voter) bool {
		return slices.ContainsFunc(set, func(w Voter) bool { return w.Member == id })
	})
}

// Recovers reports whether a generation is being founded from a survivor's data.
func (in *Intent) Recovers() bool {
	return in != nil && in.State == IntentFounding && in.Source.Kind == SourceSurvivor
}

// Superseded is the cluster of the generation that this one was written over: the last of
// the history that had one; zero: none is on record.
func (in *Intent) Superseded() ClusterID {
	for _, g := range slices.Backward(in.History) {
		if g.Cluster != 0 {
			return g.Cluster
		}
	}
	return 0
}

// Intent is the one control object of a cluster: what a generation was made
// of, which never changes, and its running record, which changes only by
// compare-and-swap (SAFETY.md, C). It is kept in the object whose existence
// the predecessor takes as "this cluster was created".
type Intent struct {
	// Fixed by the founding of the generation.
	Timestamp  int64     `json:"timestamp"` // unix nanoseconds
	Name       string    `json:"name"`      // the cluster's name
	Generation uint64    `json:"generation"`
	Nonce      string    `json:"nonce"`
	Token      string    `json:"token"`
	Version    Version   `json:"version,omitzero"`
	Founders   []Founder `json:"founders,omitempty"`
	Source     Source    `json:"source,omitzero"`
	CommandID  string    `json:"commandID,omitempty"`
	// Joins: our hosts are to join this cluster, which runs elsewhere. Only generation 0 has it.
	Joins bool `json:"joins,omitempty"`
	// Reached is where the log ended of the survivor that the generation was recovered from.
	Reached Progress `json:"reached,omitzero"`

	// Changed by compare-and-swap only. Write counts the changes, so that no
	// two contents are equal, whatever a store makes its ETag from.
	Write uint64 `json:"write"`
	// Unstored is the fence of the leader that made this write while the store
	// did not answer: a person allowed that, and the hosts alone have it. Zero
	// in every write that went to the store.
	Unstored Fence `json:"unstored,omitzero"`
	// By is the fence of the leader that made this write in the store. Two leaders never
	// write the same, and one whose fence is lower writes nothing any more. Zero: a
	// release wrote it that noted no fence.
	By    Fence       `json:"by,omitzero"`
	State IntentState `json:"state,omitempty"`
	// Quarantined: members listen on their quarantine client URLs only, so
	// that ordinary clients cannot write yet (SAFETY.md, rule 14).
	Quarantined bool `json:"quarantined,omitempty"`
	// Count is the member count that the command asked for. It is replaced, never
	// changed in place.
	Count   *CountChange `json:"count,omitempty"`
	Cluster ClusterID    `json:"cluster,omitempty"`
	Voters  []Voter      `json:"voters,omitempty"`
	Next    []Voter      `json:"next,omitempty"`
	// Pending are the changes of the voters that were written down before Next,
	// that nobody wants any more or that another one came in between of, and
	// whose call may still be on its way.
	Pending []VoterChange `json:"pending,omitempty"`
	// Replacing is the voter whose place another one takes; nil: none, or nothing of the
	// voters was to be changed for it yet.
	Replacing *Replacing `json:"replacing,omitempty"`
	// Halt is a change of version that needs every member stopped. It is replaced,
	// never changed in place.
	Halt *Halt `json:"halt,omitempty"`
	// Rotation is the last replacement of the authorities, over or not. It goes on through
	// generations, and is replaced, never changed in place.
	Rotation    *Rotation `json:"rotation,omitempty"`
	Lost        []HostID  `json:"lost,omitempty"`
	CommandsRun []string  `json:"commandsRun,omitempty"`
	// Ended are commands for a generation that ended without one, the last one last.
	// They are never run, whatever the queue says (SAFETY.md, rule 17).
	Ended   []EndedCommand   `json:"ended,omitempty"`
	History []PastGeneration `json:"history,omitempty"`
}

// EndedCommand is a command of the queue that ended, and how: rejected, failed,
// cancelled or expired.
type EndedCommand struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// keptEnded is how many ended commands the record has. A command ages within minutes, so
// that a few would do; clocks of those who queue may be off.
const keptEnded = 50

// NoteEnd notes how a command ended.
func (in *Intent) NoteEnd(e EndedCommand) {
	ended := append(slices.Clone(in.Ended), e)
	in.Ended = ended[max(0, len(ended)-keptEnded):]
}

// Ran reports whether the command was run: a generation was written for it.
func (in *Intent) Ran(name string) bool {
	return in != nil && slices.Contains(in.CommandsRun, name)
}

// EndOf is how a command ended without a generation; false: it did not.
func (in *Intent) EndOf(name string) (EndedCommand, bool) {
	if in != nil {
		for _, e := range in.Ended {
			if e.Name == name {
				return e, true
			}
		}
	}
	return EndedCommand{}, false
}

// Order compares intents by generation, then by write, then by the fence of a
// write without the store, then by that of who wrote it into the store: the higher
// one is the newer record. Two leaders may count the same write without the store, or
// in a store that went back in between; the one that more hosts promised to has the
// higher fence, and it has seen whatever enough hosts kept of the other.
func (in *Intent) Order(o *Intent) int {
	switch {
	case in == o:
		return 0
	case in == nil:
		return -1
	case o == nil:
		return 1
	}
	return cmp.Or(cmp.Compare(in.Generation, o.Generation), cmp.Compare(in.Write, o.Write), in.Unstored.Compare(o.Unstored), in.By.Compare(o.By))
}

// Adopted reports whether the marker holds no intent of ours: it was written
// by the predecessor, or for a cluster that hosts of ours are to join, and counts
// as generation 0, founded.
func (in *Intent) Adopted() bool { return in != nil && in.Generation == 0 }

// Clone copies the intent so that the copy can be changed.
func (in *Intent) Clone() *Intent {
	if in == nil {
		return nil
	}
	c := *in
	c.Founders = slices.Clone(in.Founders)
	c.Voters = slices.Clone(in.Voters)
	c.Next = slices.Clone(in.Next)
	c.Pending = slices.Clone(in.Pending)
	c.Lost = slices.Clone(in.Lost)
	c.CommandsRun = slices.Clone(in.CommandsRun)
	c.Ended = slices.Clone(in.Ended)
	c.History = slices.Clone(in.History)
	return &c
}

// Founder returns the founder entry of a host and disk.
func (in *Intent) Founder(h HostID, d DiskID) (Founder, bool) {
	if in == nil {
		return Founder{}, false
	}
	for _, f := range in.Founders {
		if f.Host == h && f.Disk == d {
			return f, true
		}
	}
	return Founder{}, false
}

// ClosedCluster reports whether the history lists the cluster ID as closed:
// data of it may be set aside without asking (SAFETY.md, rule 21).
func (in *Intent) ClosedCluster(id ClusterID) bool {
	if in == nil || id == 0 {
		return false
	}
	for _, g := range in.History {
		if g.Closed && g.Cluster == id {
			return true
		}
	}
	return false
}

// Follows reports whether in belongs to the history that kept belongs to: it
// is of kept's founding, or lists kept's generation among those before its own.
// One that does not was founded beside it, under the same name, and says
// nothing about kept's members, however high its generation is.
func (in *Intent) Follows(kept *Intent) bool {
	switch {
	case in == nil || kept == nil || kept.Generation == 0 || kept.Generation > in.Generation:
		return true // nothing to compare, or kept is the one that has to follow
	case kept.Generation == in.Generation:
		return kept.Nonce == in.Nonce
	}
	return in.lists(kept.Generation, kept.Cluster)
}

// Covers reports whether the history asks for the promises of every voter set
// that kept tells of: an intent of an earlier generation that is still open may
// have been written further without the store, by a leader that did not see the
// later generation being written. A host keeps such an intent until the history
// has what it tells of (SAFETY.md, rule 13).
func (in *Intent) Covers(kept *Intent) bool {
	if in == nil || kept == nil {
		return true
	}
	for _, g := range in.History {
		if g.Generation == kept.Generation && !g.Closed {
			return len(g.lacks(kept)) == 0
		}
	}
	return true
}

// Cover adds to the history what it lacks of the voter sets that kept tells of,
// and reports whether that was anything.
func (in *Intent) Cover(kept *Intent) bool {
	if in.Covers(kept) {
		return false
	}
	in.History = slices.Clone(in.History)
	for i, g := range in.History {
		if g.Generation == kept.Generation {
			in.History[i].Voters = slices.Concat(g.Voters, g.lacks(kept))
		}
	}
	return true
}

// lacks are the voter sets of a later write than the one that was superseded,
// which the entry does not have.
func (g PastGeneration) lacks(kept *Intent) (out [][]Voter) {
	if kept.Write < g.Write || kept.Write == g.Write && kept.Unstored.IsZero() {
		return nil
	}
	for _, set := range kept.VoterSets() {
		if !slices.ContainsFunc(g.Voters, func(o []Voter) bool { return SameVoters(o, set) }) {
			out = append(out, set)
		}
	}
	return out
}

// lists reports whether the history has a generation, by its cluster ID where
// both are known.
func (in *Intent) lists(generation uint64, id ClusterID) bool {
	return slices.ContainsFunc(in.History, func(g PastGeneration) bool {
		return g.Generation == generation && (g.Cluster == id || g.Cluster == 0 || id == 0)
	})
}

// HasBeen reports whether a cluster ID is that of this generation, or of an earlier one. Data of another cluster has nothing of what
// this one wrote.
func (in *Intent) HasBeen(id ClusterID) bool {
	return in != nil && id != 0 && (in.Cluster == id || slices.ContainsFunc(in.History, func(g PastGeneration) bool { return g.Cluster == id }))
}

// FollowsMember is Follows for the member that a host carries. One that was taken
// over has no generation yet, and goes by its cluster alone.
func (in *Intent) FollowsMember(l LocalMember) bool {
	if in != nil && in.Generation > 0 && l.Generation == 0 && l.Cluster != 0 {
		return in.HasBeen(l.Cluster)
	}
	return in == nil || l.Generation == 0 || l.Generation >= in.Generation || in.lists(l.Generation, l.Cluster)
}

// Adopts reports whether the intent made the member of a host and disk, which was
// taken over, one of its generation.
func (in *Intent) Adopts(h HostID, d DiskID, l LocalMember) bool {
	if in == nil || in.Source.Kind != SourceAdopted || l.Generation != 0 || l.Cluster == 0 || l.Cluster != in.Cluster {
		return false
	}
	f, named := in.Founder(h, d)
	return named && f.Member == l.Member
}

// CountChange is a member count that a command asks for together with what the
// new generation is made from. It is in force from the write of that
// generation's intent on, and until the spec was written: so it does not matter
// who ends before the spec has it. Whoever writes another spec after the command
// was queued has the last word.
type CountChange struct {
	Members int `json:"members"`
	// Was and Version are what the spec asked for when the command was queued.
	Was     int     `json:"was"`
	Version Version `json:"version"`
	// Done: the spec was written so. It is kept to tell a spec that a command wrote
	// from one that a person wrote.
	Done bool `json:"done,omitempty"`
}

// Halt stops every member of a generation, so that the next one is made from
// all that they have, with another release of etcd (docs/adr/017-any-version.md).
// It is a record in the intent, put there and taken back by compare-and-swap
// only. A host that keeps an intent with a halt in force runs no member of that
// generation; once the halt is taken back it starts its member again, as it was.
// So a generation that was made while it was halted, and one that goes on, cannot
// both be written.
type Halt struct {
	// ID was never used before: what was made ready under it is of no use under
	// another one.
	ID string `json:"id"`
	// Generation is the one that is halted. A later intent keeps the record, to
	// tell where it came from.
	Generation uint64 `json:"generation"`
	// From is what the members ran, To what the next generation is to run, and
	// Wanted what the spec asked for, to which To may only be on the way.
	From   Version `json:"from"`
	To     Version `json:"to"`
	Wanted Version `json:"wanted"`
	// Consent is a person's approval for the outage, as the spec had it.
	Consent string `json:"consent,omitempty"`
	// Accept is the digest of the list of losses that a person accepted; empty:
	// nothing may be lost.
	Accept string `json:"accept,omitempty"`
	// At is when it was decided, by the clock of that leader.
	At time.Time `json:"at"`
	// Ended says why it was taken back, or what became of the generation that
	// was made; empty: it was not.
	Ended string `json:"ended,omitempty"`
}
