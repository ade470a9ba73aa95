package takeover

import (
	"context"
	"log/slog"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/inventory"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/settings"
)

// Disk is what a member of another program is read from.
type Disk interface {
	// Predecessor reads what etcd-manager left of a member; nil without error when
	// there is nothing of the kind. disk and host are this host's.
	Predecessor(host cluster.HostID, disk cluster.DiskID) (*record.Predecessor, error)
	// TakeOver puts the mark of this disk beside the log that is in the data
	// directory of a token. It fails where there is another mark or no log.
	TakeOver(token string, disk cluster.DiskID) error
	// Admission reads the place that this host has in a cluster that something else
	// runs; nil without error when there is none.
	Admission() (*record.Admission, error)
	// Data tells whether the mark of this disk, and a write-ahead log, are in the data
	// directory of a token.
	Data(token string, disk cluster.DiskID) (marked, wal bool, err error)
}

// Options are what a TakeOver is made of.
type Options struct {
	Disk      Disk
	Keeper    *record.Keeper
	Memory    *record.Memory
	Settings  *settings.Settings
	Inventory *inventory.Inventory
	URLs      cluster.URLs
	Releases  func() []cluster.Version
	// Marker reads the created marker through this host's own access to the store.
	Marker func(context.Context) (*cluster.Intent, error)
	// Promoted reads from the store whether a member that joined a cluster which
	// something else runs was, or is about to be, made a voter; nil: it cannot be told.
	Promoted func(context.Context, cluster.MemberID) (bool, error)
	// Obstacle says what keeps this host from running a member; empty: nothing.
	Obstacle func(record.State) (reason, hint string)
	// Start starts a member for the first time.
	Start   func(context.Context, record.State, record.Launch, cluster.LocalMember) cluster.ApplyReply
	Mint    func() string
	Changed func()
	Log     *slog.Logger
}

// TakeOver begins to run the members of clusters that something else runs: the one that
// etcd-manager left on this host, and the one that was added for it.
type TakeOver struct {
	Options

	mu    sync.Mutex
	waits *cluster.Predecessor // not taken over yet; nil: there is nothing to take over
}

// New has looked at nothing yet.
func New(o Options) *TakeOver { return &TakeOver{Options: o} }

// Waits is what is not taken over yet; nil: there is nothing to take over.
func (t *TakeOver) Waits() *cluster.Predecessor {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waits == nil {
		return nil
	}
	p := *t.waits
	return &p
}
