package cluster

import (
	"fmt"
	"time"
)

// URLs are where a host's member listens, as it advertises them.
type URLs struct {
	Peer       []string `json:"peer,omitempty"`
	Client     []string `json:"client,omitempty"`
	Quarantine []string `json:"quarantine,omitempty"`
}

// MemberState is how far a host has come with carrying a member. It is
// durable on the host and decides what the host may start (SAFETY.md, rule 8).
type MemberState string

const (
	// MemberNone: the host carries no member and holds no data of one.
	MemberNone MemberState = ""
	// MemberPrepared: the host has written which member IDs existed before
	// its own was added, or that the intent names its disk as a founder.
	MemberPrepared MemberState = "prepared"
	// MemberStarting: the start is journaled, but the write-ahead log of the
	// member was not seen yet.
	MemberStarting MemberState = "starting"
	// MemberStarted: the member ran, and its write-ahead log was seen.
	MemberStarted MemberState = "started"
	// MemberRemoved: the member was stopped for good; its data is to be set
	// aside before the host can be used again.
	MemberRemoved MemberState = "removed"
)

// LocalMember is a host's durable record of the member that it carries.
type LocalMember struct {
	State      MemberState `json:"state,omitempty"`
	Generation uint64      `json:"generation,omitempty"`
	Nonce      string      `json:"nonce,omitempty"`
	Token      string      `json:"token,omitempty"`
	Cluster    ClusterID   `json:"cluster,omitempty"`
	Member     MemberID    `json:"member,omitempty"`
	// Known are the member IDs that existed when the host was prepared. A
	// member ID that is among them is not this disk's (SAFETY.md, rule 8b).
	Known       []MemberID `json:"known,omitempty"`
	Run         bool       `json:"run,omitempty"`
	Version     Version    `json:"version,omitempty"`
	URLs        URLs       `json:"urls,omitzero"`
	Options     []string   `json:"options,omitempty"` // etcd arguments beyond ours, sorted
	Quarantined bool       `json:"quarantined,omitempty"`
	// Adopted: it runs as another program set it up, with one learner at a time;
	// a restart by an op ends that.
	Adopted bool `json:"adopted,omitempty"`
	// Cut: it was started to cut a raft snapshot at once, and does so all the time.
	Cut bool `json:"cut,omitempty"`
	// Previous is the release that it ran before Version, until it has answered
	// with Version; zero: it has.
	Previous Version `json:"previous,omitzero"`
	// Took is the member ID in the head of the write-ahead log where that is
	// another than Member: etcd took it from an old member list at its first
	// start. The member was stopped for good then.
	Took MemberID `json:"took,omitempty"`
	// Doubt is whether a leader ever doubted the member's keys.
	Doubt Doubt `json:"doubt,omitempty"`
	// HasData tells whether the write-ahead log is on the disk, as observed; of
	// a member that started, in a directory that is this disk's.
	HasData bool `json:"hasData,omitempty"`
}

// ProcessState is what the runtime knows of the member's process.
type ProcessState string

const (
	ProcessStopped ProcessState = "" // not running and not wanted to
	ProcessRunning ProcessState = "running"
	ProcessBackoff ProcessState = "backoff" // died; the next start waits
	// ProcessSilent: a process that matches the record in all but the answer.
	// It is held, not counted as up and never doubled (SAFETY.md, rule 10).
	ProcessSilent ProcessState = "silent"
	// ProcessForeign: something that is not ours holds the data or the ports.
	ProcessForeign ProcessState = "foreign"
)

// Process is the member's process on a host.
type Process struct {
	State   ProcessState `json:"state,omitempty"`
	PID     int          `json:"pid,omitempty"`
	Adopted bool         `json:"adopted,omitempty"`
	// Uptime is how long the process has been running; zero: unknown.
	Uptime   time.Duration `json:"uptime,omitempty"`
	Restarts int           `json:"restarts,omitempty"` // since the daemon started
	// LastExit says in words how and why the process ended last.
	LastExit string `json:"lastExit,omitempty"`
	// Damaged is the line of etcd's log that says that the member's data is damaged: it
	// was the last word of the process before, and the member has not answered since.
	Damaged string `json:"damaged,omitempty"`
	// Trusts are the certificates of the authorities that it was started with, by their
	// SHA-256, sorted; nil: not known. Etcd reads them at its start only.
	Trusts []string `json:"trusts,omitempty"`
	// Differs names the settings, by flag or environment variable, with which
	// it runs and would not be started now; their values may be secrets.
	Differs []string `json:"differs,omitempty"`
}

// Words tell the state to people, with how the process ended where it did.
func (p Process) Words() string {
	switch {
	case p.State == ProcessStopped:
		return "not running"
	case p.LastExit != "":
		return fmt.Sprintf("%s (%s)", p.State, p.LastExit)
	}
	return string(p.State)
}

// Runs reports whether there is a process that is the member's, whether it
// answers or not.
func (p Process) Runs() bool { return p.State == ProcessRunning || p.State == ProcessSilent }

// MemberStatus is what a member answered to its own host.
type MemberStatus struct {
	Member  MemberID  `json:"member"`
	Cluster ClusterID `json:"cluster"`
	Version Version   `json:"version,omitzero"`
	Leader  MemberID  `json:"leader,omitempty"` // raft leader as this member sees it; zero: none
	Term    uint64    `json:"term,omitempty"`
	Index   uint64    `json:"index,omitempty"`   // raft index committed
	Applied uint64    `json:"applied,omitempty"` // raft index applied
	// Revision is the store's revision; what clients may have seen.
	Revision int64    `json:"revision,omitempty"`
	Learner  bool     `json:"learner,omitempty"`
	DBSize   int64    `json:"dbSize,omitempty"`  // bytes on disk
	DBInUse  int64    `json:"dbInUse,omitempty"` // bytes in use
	Quota    int64    `json:"quota,omitempty"`   // bytes; zero: etcd's default, negative: none
	Alarms   []string `json:"alarms,omitempty"`  // as "NOSPACE 8e9e05c52164694d"
	Errors   []string `json:"errors,omitempty"`  // as etcd reports them
	Auth     bool     `json:"auth,omitempty"`    // auth is on and the daemon has no credential for it
	// ClusterVersion is the release line that the members have agreed on, as
	// this member knows it; only there when the observation asked for it.
	ClusterVersion Version `json:"clusterVersion,omitzero"`
	// StorageVersion is the release line whose format the member's data has; zero:
	// unknown, as always before etcd 3.6.
	StorageVersion Version `json:"storageVersion,omitzero"`
	// Downgrading is the release line that the cluster is being downgraded to, as
	// etcd itself keeps it; zero: none, or a member before 3.6, which does not say.
	Downgrading Version `json:"downgrading,omitzero"`
	// Downgrade: one is under way, as every release from 3.5 on says when it is asked
	// for it; only there when the observation asked.
	Downgrade bool `json:"downgrade,omitempty"`
	// AuthOn: authentication is on; nil: unknown. Only there when the observation
	// asked, and only of releases before 3.5, where it decides how they are left.
	AuthOn *bool `json:"authOn,omitempty"`
	// Healthy: a quorum read through this very member succeeded just now. A
	// learner is healthy when it serves its own status and sees a leader.
	Healthy bool `json:"healthy,omitempty"`
}

// Member is a member as etcd lists it.
type Member struct {
	ID         MemberID `json:"id"`
	Name       string   `json:"name,omitempty"` // empty: never started
	PeerURLs   []string `json:"peerURLs,omitempty"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
}

// MemberView is a member list and whether it went through raft.
type MemberView struct {
	Cluster ClusterID `json:"cluster"`
	Members []Member  `json:"members"` // sorted by ID
	// Linearizable: the list is as new as any acknowledged change of it.
	Linearizable bool `json:"linearizable,omitempty"`
}

// Reach is what a host found when it tried to reach another host's member.
type Reach struct {
	Member MemberID `json:"member"`
	// Answers: a process said something at a peer URL of it, or closed the connection.
	Answers bool `json:"answers"`
	// Open: a connection came about, which the kernel accepts for a process that hangs, too.
	Open bool `json:"open,omitempty"`
}

// Problem is something about one host that a person should know: a code that
// names a page of docs/operations, a sentence, and the way out.
type Problem struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	Hint     string `json:"hint,omitempty"`
	// Unfit: the host cannot carry a new member while the problem lasts.
	Unfit bool `json:"unfit,omitempty"`
}

// HostSetting is a choice of a daemon's that ought to be the same on every host: whichever
// daemon leads, or takes a backup, goes by its own. It holds no secret.
type HostSetting struct {
	Flag  string `json:"flag"`            // such as --dead-after
	Value string `json:"value,omitempty"` // in one form for all that mean the same; empty: none
}

// HostState is what a host says about itself.
type HostState struct {
	Host    HostID `json:"host"`
	Disk    DiskID `json:"disk"`
	Epoch   uint64 `json:"beat,omitempty"`
	Cluster string `json:"cluster"` // the cluster's name, as the daemon was told
	Address string `json:"address,omitempty"`
	// Clock is the host's wall clock when it answered.
	Clock time.Time `json:"clock,omitzero"`

	Promised         Fence  `json:"promised"`
	LowestGeneration uint64 `json:"lowestGeneration,omitempty"`
	// Intent is the highest intent that the host has seen and keeps.
	Intent *Intent `json:"intent,omitempty"`

	URLs     URLs      `json:"urls"`     // where a member of it would listen
	Releases []Version `json:"releases"` // what it can run, sorted
	// Options are the etcd arguments that a member started now would get, so
	// that a difference to LocalMember.Options asks for a restart.
	Options []string `json:"options,omitempty"`

	Local   LocalMember   `json:"local,omitzero"`
	Process Process       `json:"process,omitzero"`
	Status  *MemberStatus `json:"status,omitempty"`
	View    *MemberView   `json:"view,omitempty"`
	Reaches []Reach       `json:"reaches,omitempty"`
	// Refused is when, by Clock, its member last refused to take a member in or to give one up, because by its own view too few others had been
	// connected to it for 5 s; zero: it did not, or has changed the membership since, or runs anew. That view can be wrong for good:
	// etcd counts another member as away where an old connection to it fails after a new one was made (peerStatus of its rafthttp).
	Refused time.Time `json:"refused,omitzero"`
	// PeerTLS is how its member and the others take each other's certificates; nil: not
	// known, or they speak without.
	PeerTLS *PeerTLS `json:"peerTLS,omitempty"`
	// Authorities are whom it trusts; nil: it has no TLS, or is of a release that does not tell.
	Authorities *HostAuthorities `json:"authorities,omitempty"`

	// Staged is a source that the host has made ready, or tries to.
	Staged *Staged `json:"staged,omitempty"`
	// Taken is the last backup that the host was asked for since it started.
	Taken *Taken `json:"taken,omitempty"`
	// Drill is the last drill that the host was asked for since it started.
	Drill *Taken `json:"drill,omitempty"`
	// Hash is the last hash over its member's keys that the host was asked for since
	// it started.
	Hash *Hash `json:"hash,omitempty"`
	// Database is what the host did to its member's database since it started.
	Database *DatabaseWork `json:"database,omitempty"`
	// Room is the free space of the data directory's file system, in bytes;
	// zero: unknown.
	FreeSpace int64 `json:"room,omitempty"`
	// Decrypts: the host has a secret key for encrypted backups.
	Decrypts bool `json:"decrypts,omitempty"`
	// AuthorityKeys tells whether the host holds the keys of the cluster's authorities, so that it can sign certificates;
	// nil: not known, or nobody uses TLS.
	AuthorityKeys *bool `json:"authorityKeys,omitempty"`
	// Received is how long ago the member finished receiving a snapshot from
	// raft's leader; only while it runs and does not answer.
	Received time.Duration `json:"received,omitempty"`
	// Log is the end of the log of the member that the host carries, as read
	// from the disk; only there when the observation asked for it.
	Log *Progress `json:"log,omitempty"`
	// Reading is how far the reading of that log has come, where it takes longer
	// than one look; nil: it is not being read.
	Reading *LogReading `json:"reading,omitempty"`

	// V2InLog tells whether the member's log holds requests of version 2 of the API
	// behind its newest raft snapshot; nil: not known, or not asked for.
	V2InLog *bool `json:"v2InLog,omitempty"`
	// FailedRelease is one that the member's process did not start with, since the
	// daemon started; zero: none. It is not tried again by itself.
	FailedRelease Version `json:"failedRelease,omitzero"`

	// FailedOptions are what the spec asks for and the member's process did not
	// start with, since the daemon started. They are not tried again by themselves.
	FailedOptions []string `json:"failedOptions,omitempty"`
	// LeftVariables are the ETCD_ variables of the daemon that a release line is run without.
	LeftVariables []LeftVariable `json:"leftVariables,omitempty"`

	// Highest is the highest (revision, term, index) that the host remembers.
	Highest  Progress   `json:"highest,omitzero"`
	SetAside []SetAside `json:"setAside,omitempty"`
	// GaveUp are the members that this disk carried and gave up: the host starts none
	// of them again. Etcd makes a member's ID of its peer URLs and the second that it
	// was added in, so that a cluster may come by one that another gave up.
	GaveUp []MemberID `json:"gaveUp,omitempty"`
	// Voted are the members of this disk that served as voters, those that it gave up
	// among them: to have given one up later was no fault of the host's.
	Voted []MemberID `json:"voted,omitempty"`
	// PruneAfter is how long the host keeps what it set aside of a member that
	// was removed, before it may be pruned by itself; zero: for ever.
	PruneAfter time.Duration `json:"pruneAfter,omitempty"`
	// Settings are its daemon's choices that ought to be those of every host.
	Settings []HostSetting `json:"settings,omitempty"`
	// Foreign names data on the disk that this host cannot account for.
	Foreign []SetAside `json:"foreign,omitempty"`
	// Predecessor is a member of another program's cluster whose data lies here and
	// which this host does not run yet; nil: none.
	Predecessor *Predecessor `json:"predecessor,omitempty"`
	Problems    []Problem    `json:"problems,omitempty"`
	// TakesPauses: its daemon knows the op that grants a pause, and counts with those of others.
	TakesPauses bool `json:"takesPauses,omitempty"`
	// KeepsBackups: its daemon knows the op's word of how long a backup is kept.
	KeepsBackups bool `json:"keepsBackups,omitempty"`
	// Paused are the pauses that it was granted, and that are not over: it may go at any moment.
	Paused []Pause `json:"paused,omitempty"`
	// PauseRefused is the last pause that it could not take, for a while after that.
	PauseRefused *PauseRefused `json:"pauseRefused,omitempty"`
}

// clockStep is how far ahead of a host's clock a time may lie that it wrote down
// itself, before its clock went back since.
const clockStep = time.Second

// WentBack reports whether a time that the host wrote down by its clock lies ahead
// of that clock: it went back since, and how long ago that time was, nobody knows.
func (h *HostState) WentBack(t time.Time) bool {
	return !h.Clock.IsZero() && t.Sub(h.Clock) > clockStep
}

// Predecessor is a member that etcd-manager set up, whose data lies in a host's
// data directory. Once the host runs it, it is in its LocalMember, of generation 0.
type Predecessor struct {
	Token   string    `json:"token,omitempty"`
	Cluster ClusterID `json:"cluster,omitempty"`
	Member  MemberID  `json:"member,omitempty"`
	// Held: a process runs on the data that this host did not start.
	Held bool `json:"held,omitempty"`
	// Waits says in words what keeps the host from running it; never empty.
	Waits string `json:"waits"`
	Hint  string `json:"hint,omitempty"`
}

// Invited is that nothing of the cluster lies on the host: `etcdadm adopt --join` has
// prepared it, and no member was added for it yet. Of data that lies there either
// both IDs are known, or none.
func (p *Predecessor) Invited() bool { return p.Cluster != 0 && p.Member == 0 }

// Before reports whether p is behind o in raft's order.
func (p Progress) Before(o Progress) bool {
	return p.Term < o.Term || p.Term == o.Term && p.Index < o.Index
}

// Vanished reports whether the data of the host's member is gone while its
// process still runs, from memory and open files. It is another disk at the
// next start.
func (h HostState) Vanished() bool {
	return h.Local.State == MemberStarted && !h.Local.HasData && h.Process.Runs()
}

// Carries reports whether the host's disk holds, or may hold, member data.
func (h HostState) Carries() bool {
	switch h.Local.State {
	case MemberStarting, MemberStarted, MemberRemoved:
		return true
	}
	return h.Local.HasData
}

// TookOver reports whether the host runs, or is to run, a member of a cluster
// that another program founded and whose record is not ours yet.
func (h HostState) TookOver() bool {
	return h.Local.Generation == 0 && (h.Local.State == MemberStarted || h.Local.State == MemberStarting)
}

// Free reports whether the host could be made ready for a new member.
func (h HostState) Free() bool {
	if h.Carries() || len(h.Foreign) > 0 || h.Predecessor != nil || h.Process.State != ProcessStopped {
		return false
	}
	for _, p := range h.Problems {
		if p.Unfit {
			return false
		}
	}
	return true
}

// Floor is the lowest generation that the host would run: what it promised,
// and never one below the intent that it keeps.
func (h HostState) Floor() uint64 {
	if h.Intent == nil {
		return h.LowestGeneration
	}
	return max(h.LowestGeneration, h.Intent.Generation)
}

// CanRun reports whether the host has the release.
func (h HostState) CanRun(v Version) bool {
	for _, r := range h.Releases {
		if r == v {
			return true
		}
	}
	return false
}
