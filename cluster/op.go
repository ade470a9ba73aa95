package cluster

import (
	"fmt"
	"strings"
	"time"
)

// OpKind names what one host is asked to carry out.
type OpKind string

const (
	// OpPrepare writes down, durably, which member IDs exist before the one
	// that this host will carry is added.
	OpPrepare OpKind = "prepare"
	// OpStart starts a member that this disk never started, on evidence.
	OpStart OpKind = "start"
	// OpRestart restarts the host's own member with other settings.
	OpRestart OpKind = "restart"
	// OpStop stops the host's own member and keeps it stopped.
	OpStop OpKind = "stop"
	// OpRefuse promises never to run a member of a lower generation.
	OpRefuse OpKind = "refuse"
	// OpSetAside stops a member that was removed and moves its data away.
	OpSetAside OpKind = "set-aside"
	// OpPrune removes what was set aside of a member that a quorum removed
	// (SAFETY.md, rule 22). It returns when the directory is out of its place.
	OpPrune OpKind = "prune"
	// OpPause grants a pause: the host writes down that it may go at any moment, and says so
	// from then on (docs/adr/039-a-pause-is-a-permission.md).
	OpPause OpKind = "pause"
	// OpForget drops a preparation that was never started.
	OpForget OpKind = "forget"

	// OpStage makes the source of a new generation ready beside everything
	// else. It returns when that was begun; HostState.Staged tells the rest.
	OpStage OpKind = "stage"
	// OpBackup takes a backup through the host's own member. It returns when
	// that was begun; HostState.Taken tells the rest.
	OpBackup OpKind = "backup"

	// OpDrill restores a backup into an etcd that is thrown away, and compares
	// what it serves; or makes what another release would begin with, key by key, and
	// lists what that loses. It returns when that was begun; HostState.Drill tells the
	// rest.
	OpDrill OpKind = "drill"

	// OpHash has the own member hash its keys. It returns when that was begun;
	// HostState.Hash tells the rest.
	OpHash OpKind = "hash"
	// OpDefragment has the own member write its database anew, during which it
	// serves nothing. It returns when that was begun; the host is busy until it has
	// ended, and HostState.Database tells how.
	OpDefragment OpKind = "defragment"

	// These are made by a voter's host through its own member.

	OpAddLearner OpKind = "add-learner"
	OpAddVoter   OpKind = "add-voter" // releases before learners
	OpPromote    OpKind = "promote"
	OpRemove     OpKind = "remove"
	OpUpdateURL  OpKind = "update-url"
	OpMoveLeader OpKind = "move-leader"
	// OpDowngrade has etcd make ready for members of the release line before, and
	// OpCancelDowngrade takes that back.
	OpDowngrade       OpKind = "downgrade"
	OpCancelDowngrade OpKind = "cancel-downgrade"
	// OpCompact has the members forget what was before a revision.
	OpCompact OpKind = "compact"
	// OpDisarm takes an alarm back.
	OpDisarm OpKind = "disarm"
)

// Membership reports whether the op changes or leads the membership through
// a voter, rather than the host it runs on.
func (k OpKind) Membership() bool {
	switch k {
	case OpAddLearner, OpAddVoter, OpPromote, OpRemove, OpUpdateURL, OpMoveLeader, OpDowngrade, OpCancelDowngrade, OpCompact, OpDisarm:
		return true
	}
	return false
}

// Op is the part of an action that one host carries out. Which fields are
// set depends on Kind.
type Op struct {
	Kind OpKind `json:"kind"`

	Generation uint64     `json:"generation,omitempty"` // prepare, start, refuse
	Nonce      string     `json:"nonce,omitempty"`      // prepare, start
	Token      string     `json:"token,omitempty"`      // prepare
	Cluster    ClusterID  `json:"cluster,omitempty"`    // prepare, start of a joiner, set-aside, prune
	Known      []MemberID `json:"known,omitempty"`      // prepare
	Member     MemberID   `json:"member,omitempty"`     // start, set-aside, prune; the target of a membership op
	Founding   bool       `json:"founding,omitempty"`   // start: as the intent's founder
	// Members is the membership that a joining member is started with.
	Members     []Member `json:"members,omitempty"`
	Version     Version  `json:"version,omitzero"`      // start, restart, downgrade; drill: another release than that of the backup
	Changes     bool     `json:"changes,omitempty"`     // restart: Version is another one than it runs
	Cut         bool     `json:"cut,omitempty"`         // restart: cut a raft snapshot at once
	Failed      bool     `json:"failed,omitempty"`      // restart: what it runs does not start, and is not to be tried again
	PeerURLs    []string `json:"peerURLs,omitempty"`    // add-learner, update-url; restart: with TLS from here on
	Host        HostID   `json:"host,omitempty"`        // whom a membership op is about
	Quarantined bool     `json:"quarantined,omitempty"` // start, restart
	Reason      string   `json:"reason,omitempty"`      // set-aside, stop, backup
	Backup      string   `json:"backup,omitempty"`      // drill: its name; prune: the one that stands above
	Dir         string   `json:"dir,omitempty"`         // prune: the directory, by its name
	Command     string   `json:"command,omitempty"`     // stage, backup, drill: the command that it is for
	// KeepFor is how long a backup is kept at least, from its beginning.
	KeepFor  time.Duration `json:"keepFor,omitempty"`
	Keys     bool          `json:"keys,omitempty"`     // drill: key by key; without a backup, of the own member's data
	Revision int64         `json:"revision,omitempty"` // hash, compact
	Doubt    Doubt         `json:"doubt,omitempty"`    // hash: whether the member's keys are doubted
	Alarm    string        `json:"alarm,omitempty"`    // disarm: its kind
	Source   *Source       `json:"source,omitempty"`   // stage; start of a founder made from one
	Pause    *Pause        `json:"pause,omitempty"`    // pause
}

func (o Op) String() string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	if o.Host != "" {
		fmt.Fprintf(&b, " %s", o.Host)
	}
	if o.Member != 0 {
		fmt.Fprintf(&b, " (member %s)", o.Member)
	}
	if o.Dir != "" {
		fmt.Fprintf(&b, " %s", o.Dir)
	}
	if o.Alarm != "" {
		fmt.Fprintf(&b, " %s", o.Alarm)
	}
	if o.Revision != 0 {
		fmt.Fprintf(&b, " at revision %d", o.Revision)
	}
	if o.Changes {
		fmt.Fprintf(&b, " with etcd %s", o.Version)
	}
	return b.String()
}

// Guard is the set of facts that an op relies on. The host compares them
// with what its own member says, immediately before it acts.
type Guard struct {
	Cluster ClusterID  `json:"cluster,omitempty"`
	Members []MemberID `json:"members,omitempty"` // every member, sorted
	Voters  []MemberID `json:"voters,omitempty"`  // those that vote, sorted
	// NotLeader: the host's own member must not be the raft leader.
	NotLeader bool `json:"notLeader,omitempty"`
	// Leaderless: the host's own member must see no raft leader, or not answer.
	Leaderless bool `json:"leaderless,omitempty"`
}
