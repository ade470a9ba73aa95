// Package removal takes a machine out of its cluster again, as `etcdadm reset` does: it undoes what package setup did. And
// it ends a whole cluster, as `etcdadm destroy` does, by the same steps.
//
//	look      →  Plan   what the cluster says of the member here, and what lies on this machine
//	a person agrees
//	leave     →  the leading daemon removes the member through raft, while the spec is on hold
//	stop      →  the agent ends, and its etcd
//	tell      →  the other hosts follow the spec again, and forget this host
//	put away  →  data, keys and settings are set aside, or deleted
//
// What must always hold:
//
//   - Nothing here is stopped or moved before the cluster has let the member go, but with force.
//   - A file says how far it came, from before the first step to after the last: after an interruption at any moment it
//     is run again, and goes on. The names of what is set aside are chosen once.
//   - Only what init and join made is touched: what the manifest lists, what has our mark, and the data directory.
//   - Every wait has a bound, and is told. What stays behind in the cluster is named, with the command that ends it.
package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/advice"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/setup"
)

// Service stops the agent: unit.Systemd, or a staticpod.Kubelet, whose manifest was moved away before.
type Service interface {
	// Check is an error where the service manager does not run. Then nothing is asked of it.
	Check(context.Context) error
	// Stop ends the agent, and has it not start with the machine any more. It waits for its end.
	Stop(context.Context) error
	// Reload is called when the unit's file is gone.
	Reload(context.Context) error
}

// Nowhere is the service manager of a tree of files that is no machine.
type Nowhere struct{}

// Check is an error.
func (Nowhere) Check(context.Context) error { return errors.New("no service manager is asked") }

// Stop is not called.
func (Nowhere) Stop(context.Context) error { return nil }

// Reload is not called.
func (Nowhere) Reload(context.Context) error { return nil }

// Cluster is the daemons of the cluster. [console.Console] is it.
type Cluster interface {
	Status(context.Context) (console.Report, error)
	Goal(context.Context, manager.GoalRequest) (manager.GoalResult, error)
	Forget(ctx context.Context, by cluster.Contact, id cluster.HostID) (console.Forgot, error)
	Kept() blob.Store
	Close() error
}

// Host is the machine that is reset.
type Host struct {
	Paths   setup.Paths
	Service Service
	Say     func(string)                                   // told what is done and waited for; nil: nobody
	Now     func() time.Time                               // nil: the clock
	Connect func(console.Access) (Cluster, error)          // nil: by console.Open
	bounds  struct{ look, tell, keep, sure time.Duration } // of a test; zero: the constants
}

// Options are a person's wishes.
type Options struct {
	Force    bool // go on where the cluster cannot or must not let the member go
	Purge    bool // delete what would be set aside
	NoBackup bool // do not wait for a backup before the member is removed
	// KeepMember leaves the member in the cluster's list, and resets this machine alone. It is no leave to lose the quorum.
	KeepMember bool
	Wait       time.Duration // for the member to be removed
}

// DefaultWait is how long the removal is waited for: a backup may come first.
const DefaultWait = 2 * time.Minute

const (
	// lookTimeout bounds the first questions to the cluster: an election takes some seconds.
	lookTimeout = 10 * time.Second
	// tellTimeout bounds what the other hosts are told at the end: they count a host as there for some seconds after
	// its last word.
	tellTimeout = 30 * time.Second
	// keepTimeout bounds the wait until the other hosts keep the cluster's record without this one. The leading daemon
	// looks every three seconds.
	keepTimeout = 30 * time.Second
	// again is how soon something is asked again.
	again = 500 * time.Millisecond
)

func (h *Host) say(format string, args ...any) {
	if h.Say != nil {
		h.Say(fmt.Sprintf(format, args...))
	}
}

func (h *Host) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

func (h *Host) connect(a console.Access) (Cluster, error) {
	if h.Connect != nil {
		return h.Connect(a)
	}
	return console.Open(a)
}

func orElse(d, usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return d
}

// Errors that callers decide by.
var (
	// ErrUnsafe says that the reset would harm the cluster, or that its leader refuses it. Nothing was changed.
	ErrUnsafe = errors.New("refused")
	// ErrUnreachable says that no daemon of the cluster answers, or none leads. Nothing was changed.
	ErrUnreachable = errors.New("the cluster cannot be asked")
	// ErrWaiting says that the time to wait is up.
	ErrWaiting = errors.New("the time to wait is up")
	// ErrRuns says that something still runs on the data directory.
	ErrRuns = errors.New("it still runs")
)

// Error is what keeps a machine from being reset, for people.
type Error = advice.Error

// mayWrite refuses a user that could do half of it.
func (h *Host) mayWrite() error {
	if (h.Paths.Root == "" || h.Paths.Root == "/") && os.Geteuid() != 0 {
		return &Error{Problem: "only root may reset this machine", Advice: "run it as root"}
	}
	return nil
}
