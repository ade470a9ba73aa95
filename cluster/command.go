package cluster

import (
	"errors"
	"slices"
	"time"
)

// CommandKind says what a command in the store's queue asks for.
type CommandKind string

const (
	// CommandRestore asks for a new generation made from a backup.
	CommandRestore CommandKind = "restore"
	// CommandRecover asks for one made from the data of a survivor.
	CommandRecover CommandKind = "recover"
	// CommandUndo asks for one made from data that was set aside.
	CommandUndo CommandKind = "undo"
	// CommandChange is no entry of the queue: it is how a change of version that
	// halts a generation is carried out, by the same steps as the commands that ask
	// for a new one.
	CommandChange CommandKind = "change"
	// CommandBackup asks for a backup of the running cluster.
	CommandBackup CommandKind = "backup"
)

// Command is an entry of the store's queue, with what the store says of the
// backup that it names. Commands are run once each, in the order of their
// time (SAFETY.md, rule 17).
type Command struct {
	Name   string      `json:"name"` // of its folder in the queue; its ID
	At     time.Time   `json:"at"`
	Kind   CommandKind `json:"kind"`
	Backup string      `json:"backup,omitempty"` // restore: its name in the store
	Host   HostID      `json:"host,omitempty"`   // recover, undo: whose data
	Dir    string      `json:"dir,omitempty"`    // undo: which set-aside directory, by its name
	// Version, when given, is the release that the new generation runs.
	Version Version `json:"version,omitzero"`
	// Lost are hosts that a person has given up: nothing of them is waited for.
	Lost []HostID `json:"lost,omitempty"`
	// NoBackup: do not wait for a backup of the running cluster.
	NoBackup bool `json:"noBackup,omitempty"`
	// AcceptLoss is the digest of the list of what is lost, that a person has read,
	// where the backup is carried over key by key; empty: nothing may be.
	AcceptLoss string `json:"acceptLoss,omitempty"`
	// KeepFor is how long a backup is kept at least; zero: as the policy has it.
	KeepFor time.Duration `json:"keepFor,omitempty"`
	// Count, when given, is the member count that is wanted from then on.
	Count *CountChange `json:"count,omitempty"`
	// Seen is what a person saw who asked for an undo; nil: nobody looked.
	Seen *Seen `json:"seen,omitempty"`
	// Found is what the store says of the backup; nil with Missing: it was
	// looked for and is not there; nil without: it could not be looked for.
	Found   *Backup `json:"found,omitempty"`
	Missing bool    `json:"missing,omitempty"`
	// Malformed says why the command cannot be understood.
	Malformed string `json:"malformed,omitempty"`
	// Unread says why the store did not give it: nothing is known of it but its name.
	Unread string `json:"unread,omitempty"`
	// Ended is how the command ended, where that is on record already: it has
	// only to be taken out of the queue.
	Ended string `json:"ended,omitempty"`
}

// SaysAsMuch reports whether a person asked for the same in both: the name, the time and
// every choice are equal. What the store says of the backup is not compared.
func (c Command) SaysAsMuch(o Command) bool {
	same := c.Name == o.Name && c.At.Equal(o.At) && c.Kind == o.Kind && c.Backup == o.Backup && c.Host == o.Host && c.Dir == o.Dir &&
		c.Version == o.Version && c.NoBackup == o.NoBackup && c.KeepFor == o.KeepFor && c.AcceptLoss == o.AcceptLoss && c.Malformed == o.Malformed && c.Unread == o.Unread
	return same && slices.Equal(c.Lost, o.Lost) && equal(c.Count, o.Count) && equal(c.Seen, o.Seen)
}

func equal[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// Seen is how far things had come when a person asked for an undo, so that what has
// come since is not given up unseen. What is zero was not known.
type Seen struct {
	// Generation is the newest one, and Revision the newest that it served.
	Generation uint64 `json:"generation,omitempty"`
	Revision   int64  `json:"revision,omitempty"`
	// Log is the end of the log in the directory, and Furthest that of the furthest
	// data that any host in sight had set aside of the same cluster.
	Log      Progress `json:"log,omitzero"`
	Furthest Progress `json:"furthest,omitzero"`
	// AcceptOlder: what goes beyond the directory, up to Furthest, is given up.
	AcceptOlder bool `json:"acceptOlder,omitempty"`
}

// Backup is what is known of a backup in the store without reading it.
type Backup struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at,omitzero"`
	Version  Version   `json:"version,omitzero"`   // of the etcd that wrote it
	Revision int64     `json:"revision,omitempty"` // that it holds at least; zero: not recorded
	SHA256   string    `json:"sha256,omitempty"`   // of the plain snapshot; empty: not recorded
	Bytes    int64     `json:"bytes,omitempty"`    // of the plain snapshot; zero: not recorded
	Reason   string    `json:"reason,omitempty"`
	Proven   bool      `json:"proven,omitempty"` // verified in the store, or restored in a drill
	// Doubt is what speaks against relying on it, in a line: what is wrong with the
	// files beside the snapshot, or what the last look at it found. Empty: nothing
	// that is known. It says nothing of the snapshot itself.
	Doubt string `json:"doubt,omitempty"`
	// Encrypted: a host needs the secret key to make anything of it.
	Encrypted bool `json:"encrypted,omitempty"`
	// Cluster, Term and Index say how far the member had come that it was taken
	// from, in raft's order; zero: not recorded.
	Cluster ClusterID `json:"cluster,omitempty"`
	Term    uint64    `json:"term,omitempty"`
	Index   uint64    `json:"index,omitempty"`
	// Drilled is when it was last restored into an etcd that was thrown away,
	// and was good; zero: never.
	Drilled time.Time `json:"drilled,omitzero"`
}

// BackupsView is what the leader knows of the backups in the store.
type BackupsView struct {
	// At is when the store was last listed; zero: never by this leader.
	At time.Time `json:"at,omitzero"`
	// Newest are the newest backups, the newest first; at most a few.
	Newest []Backup `json:"newest,omitempty"`
	// Proven is the newest that is known to be proven, which may be older than
	// those; nil: none is known.
	Proven *Backup `json:"proven,omitempty"`
	// Encrypted is the newest that is encrypted, which may be older than those; nil:
	// none is known.
	Encrypted *Backup `json:"encrypted,omitempty"`
	// Drilled is when one was last restored into an etcd that was thrown away and
	// was good, as far as this leader has seen; it may be older than those. Zero:
	// none is known.
	Drilled time.Time `json:"drilled,omitzero"`
	// Unlisted is why the store did not list them when it was asked last; empty: it did, or was not asked.
	Unlisted string `json:"unlisted,omitempty"`
	// Interval is how often one is wanted; zero: never by itself.
	Interval time.Duration `json:"interval,omitempty"`
	// DrillInterval is how often one is to be restored into an etcd that is
	// thrown away; zero: never by itself.
	DrillInterval time.Duration `json:"drillInterval,omitempty"`
}

// StageState is how far a host has come with staging a source.
type StageState string

const (
	StageFetching StageState = "fetching" // or extracting, for data of this host
	StageBuilding StageState = "building"
	StageReady    StageState = "ready"
	// StageCut: the daemon ended while it was at it; it is to be begun anew.
	StageCut StageState = "cut"
	// StageFailed: it was given up; Reason says why.
	StageFailed StageState = "failed"
)

// Staged is a host's record of a source that it made ready for a new
// generation: a data directory of one voter, built beside everything else,
// that has never run (docs/adr/009-generations.md).
type Staged struct {
	Command string     `json:"command"`
	Source  Source     `json:"source"` // with the digest and revision target of what was built
	State   StageState `json:"state"`
	Since   time.Time  `json:"since"` // by this host's clock: when it was begun, or became ready
	Token   string     `json:"token"`
	Version Version    `json:"version"` // the release that it was built for
	Cluster ClusterID  `json:"cluster,omitempty"`
	Member  MemberID   `json:"member,omitempty"`
	// PeerURLs are those that the data directory was built for.
	PeerURLs []string `json:"peerURLs,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"` // done so far, of what is being done
	Reason   string   `json:"reason,omitempty"`
	// Cuts is how often the daemon ended while it was at it.
	Cuts int `json:"cuts,omitempty"`
	// Hopeless: the source itself is bad; no other host would succeed.
	Hopeless bool `json:"hopeless,omitempty"`
	// Needs is how many bytes have to be free before it is begun anew, where it failed for
	// want of them; zero: it failed for another reason.
	Needs int64 `json:"needs,omitempty"`
}

// Taken is a host's record of the last backup that it was asked to take, or to
// drill.
type Taken struct {
	Running bool      `json:"running,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Reason  string    `json:"reason"`
	Command string    `json:"command,omitempty"` // for which it was taken
	Backup  *Backup   `json:"backup,omitempty"`  // when it succeeded
	Error   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"` // what to do about the error, where that is known
	// Former is how the last try failed, where this one runs still: nothing has succeeded since.
	Former *Failure `json:"former,omitempty"`
	// Survey is what a rehearsal key by key found.
	Survey *Survey `json:"survey,omitempty"`
}

// Failure is how a try ended without a backup.
type Failure struct {
	Ended time.Time `json:"ended"`
	Error string    `json:"error"`
	Hint  string    `json:"hint,omitempty"`
}

// Next is a try that begins then, after this one; nil: it is the first.
func (t *Taken) Next(began time.Time, reason, command string) Taken {
	return Taken{Running: true, Began: began, Reason: reason, Command: command, Former: t.LastFailed()}
}

// LastFailed is how this try failed, or the one before it where this one runs still; nil: neither did.
func (t *Taken) LastFailed() *Failure {
	switch {
	case t == nil:
	case t.Error != "":
		return &Failure{Ended: t.Ended, Error: t.Error, Hint: t.Hint}
	case t.Running:
		return t.Former
	}
	return nil
}

// Why is the error with what to do about it; empty: there is none.
func (t *Taken) Why() string {
	if t.Error == "" || t.Hint == "" {
		return t.Error
	}
	return t.Error + "; " + t.Hint
}

// Failed notes why it failed, and the hint of an error that has one.
func (t *Taken) Failed(err error) {
	t.Error = err.Error()
	if hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		t.Hint = hinted.Hint()
	}
}
