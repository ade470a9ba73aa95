package host

import (
	"context"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Permit is asked immediately before every start of the process, the automatic
// ones after a crash included; its error refuses that start. It is where the
// host looks whether the evidence of SAFETY.md, rule 8, is still on the disk.
// It does not call back into Process.
type Permit func() error

// Process keeps the member's process running: it restarts one that died by
// its own policy and never starts a second. internal/runtime is behind the
// real one.
type Process interface {
	// Ensure has the member run with these settings. It returns once the
	// process was started (not once it serves), and does nothing when one
	// with the [Launch.Same] settings runs. One with other settings, adopted
	// ones included, is stopped first; one that waits for its next start goes
	// on waiting. The data directory must exist. The host calls it again every
	// ten seconds while a member that is to run does not.
	Ensure(ctx context.Context, l record.Launch, permit Permit) error
	// Adopt looks for a process left running by an earlier daemon on this
	// host's record of it; found is false when there is none. It holds what
	// it found, whose settings may be of an earlier Launch than l; a process
	// that is not ours is an error with the reason. Nothing is restarted
	// before the first Ensure.
	Adopt(ctx context.Context, l record.Launch) (found bool, err error)
	// Stop ends the process, gracefully first, and returns when it is gone.
	// It is not started again until the next Ensure.
	Stop(ctx context.Context) error
	// Kill is Stop for a member that was given up, and whose data are going to
	// be set aside: etcd would hand over raft's leadership first, and wait for
	// seconds for others that are being stopped, too.
	Kill(ctx context.Context) error
	Status() cluster.Process
	// Changes receives a value after anything in Status changed.
	Changes() <-chan struct{}
}

// Disk is the host's state directory. Every method is atomic and durable when
// it returns without error. One that failed may have taken effect or not.
type Disk interface {
	// Load reads the state; a directory without one returns ok == false. A
	// state that is there and cannot be read is an error.
	Load() (s record.State, ok bool, err error)
	// Save's error wraps fs.ErrNotExist where the directory itself is gone.
	Save(s record.State) error
	// CreateData makes the member's data directory with a mark of this disk in
	// it. It succeeds when the directory exists with this disk's mark, and
	// fails when it holds anything else.
	CreateData(token string, disk cluster.DiskID) error
	// Data tells what is there: whether the mark of this disk is in the
	// directory, and whether a write-ahead log is.
	Data(token string, disk cluster.DiskID) (marked, wal bool, err error)
	// Owner tells whose write-ahead log it is, by the head of the log itself.
	// It is asked only where there is a log; one whose head cannot be read is
	// an error.
	Owner(token string) (cluster.ClusterID, cluster.MemberID, error)
	// SetAside moves the data directory away under a name that says what it
	// was, with what is to be remembered of it durable beside it, and returns
	// that with the name, the time and the size filled in. Nothing to move is no
	// error and no name. A directory that a process holds is an error.
	SetAside(token string, what cluster.SetAside) (cluster.SetAside, error)
	// Predecessor reads what etcd-manager left of a member; nil without error when
	// there is nothing of the kind. disk and host are this host's.
	Predecessor(host cluster.HostID, disk cluster.DiskID) (*record.Predecessor, error)
	// TakeOver puts the mark of this disk beside the log that is in the data
	// directory of a token. It fails where there is another mark or no log.
	TakeOver(token string, disk cluster.DiskID) error
	// Admission reads the place that this host has in a cluster that something else
	// runs; nil without error when there is none.
	Admission() (*record.Admission, error)
	// Inventory lists what was set aside, and data that no state accounts for:
	// what is neither the data directory of token nor an empty one of ours.
	Inventory(token string) (aside, foreign []cluster.SetAside, err error)
}

// Reacher finds out whether a connection comes about at one of the peer URLs, and whether a
// process answers there. One that answers is open, too.
type Reacher interface {
	Reach(ctx context.Context, peerURLs []string) (open, answers bool)
}
