package host

import (
	"context"

	"etcdadm.io/cluster"
)

// Member is the host's own etcd member, asked at its own client URL. The
// driver internal/etcd implements it, and so does the simulator's etcd. Every
// call ends by its context or after five seconds, whichever comes first.
// A membership call that timed out returns an error that wraps
// etcd.ErrUnknownOutcome.
type Member interface {
	Status(ctx context.Context) (cluster.MemberStatus, error)
	View(ctx context.Context, linearizable bool) (cluster.MemberView, error)
	AddMember(ctx context.Context, peerURLs []string, learner bool) (cluster.Member, error)
	Promote(ctx context.Context, id cluster.MemberID) error
	Remove(ctx context.Context, id cluster.MemberID) error
	UpdatePeerURLs(ctx context.Context, id cluster.MemberID, peerURLs []string) error
	MoveLeader(ctx context.Context, to cluster.MemberID) error
}

// Launch is everything that shapes the member's process. The adapter of the
// runtime turns it into arguments for the release at hand.
type Launch struct {
	Version cluster.Version
	Name    cluster.HostID
	Token   string
	Nonce   string // names this very start in the process's environment, for adoption
	URLs    cluster.URLs
	// InitialCluster is set at the first start only: the founders, or the
	// members of the cluster that is joined.
	InitialCluster []cluster.Member
	Founding       bool // initial-cluster-state new rather than existing
	Quarantined    bool // listen on the quarantine client URLs only
	Options        []string
}

// Process keeps the member's process running: it restarts one that died by
// its own policy and never starts a second. internal/runtime is behind the
// real one.
type Process interface {
	// Ensure has the member run with these settings. It returns once the
	// process was started (not once it serves), and does nothing when one
	// with the same settings runs. The data directory must exist.
	Ensure(ctx context.Context, l Launch) error
	// Adopt looks for a process left running by an earlier daemon on this
	// host's record of it; found is false when there is none. It holds what
	// it found; a process that is not ours is an error with the reason.
	Adopt(ctx context.Context, l Launch) (found bool, err error)
	// Stop ends the process, gracefully first, and returns when it is gone.
	Stop(ctx context.Context) error
	Status() cluster.Process
	// Changes receives a value after anything in Status changed.
	Changes() <-chan struct{}
}

// Disk is the host's state directory. Every method is atomic and durable when
// it returns without error.
type Disk interface {
	// Load reads the state; a directory without one returns ok == false.
	Load() (s State, ok bool, err error)
	Save(s State) error
	// CreateData makes the member's data directory with a mark of this disk in
	// it. It succeeds when the directory exists with this disk's mark.
	CreateData(token string, disk cluster.DiskID) error
	// Data tells what is there: whether the mark of this disk is in the
	// directory, and whether a write-ahead log is.
	Data(token string, disk cluster.DiskID) (marked, wal bool, err error)
	// SetAside moves the data directory away under a name that says what it
	// was, and returns that name. Nothing to move is no error and no name.
	SetAside(token, reason string, c cluster.ClusterID, m cluster.MemberID) (cluster.SetAside, error)
	// Inventory lists what was set aside, and data that no state accounts for.
	Inventory(token string) (aside, foreign []cluster.SetAside, err error)
}

// Intents is the host's own access to the intent in the backup store.
type Intents interface {
	// ReadIntent returns nil without error when there is none.
	ReadIntent(ctx context.Context) (*cluster.Intent, error)
}

// Reacher finds out whether something listens at a peer URL.
type Reacher interface {
	Reach(ctx context.Context, peerURLs []string) bool
}
