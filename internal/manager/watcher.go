package manager

import (
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/wake"
)

// WatchIntervals are how often and how long.
type WatchIntervals struct {
	Store         time.Duration // between looks at the control folder
	StoreNotified time.Duration // the same where the store tells of changes by itself
	StoreTimeout  time.Duration // to read
	Aside         time.Duration // between looks of a daemon that does not lead
}

// WatchOptions are what a Watcher is made of.
type WatchOptions struct {
	Control        *control.Folder // nil: there is no store
	Catalogue      Catalogue       // nil: nothing is known of backups
	BackupInterval time.Duration   // how often a backup is taken by itself; zero: never
	DrillInterval  time.Duration   // how often a backup is tested; zero: never by itself
	Spec           *cluster.Spec   // when set, it takes the place of the spec in the store
	// AutoRecoverAfter, when positive, goes for a spec that names none.
	AutoRecoverAfter time.Duration
	// LastSpec is the last spec that this host has seen, and Remember keeps one.
	LastSpec func() *cluster.Spec
	Remember func(cluster.Spec)

	Gossip Electorate
	// Observed is the last observation of this host's leadership; nil: there is none.
	Observed func() *cluster.Observation
	// Unwritten is what the store does not take, and why; empty: it does.
	Unwritten func(read bool) string
	Wake      func() // the leader's loop is to look again
	Say       func(topic, what string, err error)
	Intervals WatchIntervals
	Log       *slog.Logger
}

// Electorate is told what was seen of the store, and knows who leads.
type Electorate interface {
	Leader() (leader cluster.HostID, leading bool, turned <-chan struct{})
	Saw(s cluster.StoreSight, voters []cluster.HostID)
	SawAt() time.Time
	Lacks(lacking bool)
	Judge()
}

// Watcher looks at the control folder. Its methods may be called from several goroutines
// at once.
type Watcher struct {
	WatchOptions

	now chan struct{} // look at the control folder

	mu         sync.Mutex // guards what follows; never held across a call outside
	last       look
	lacking    *cluster.Intent // hosts keep it, and the store of this host lacks it
	untried    string          // why the store could not be tried out
	unread     string          // why it could not be read last
	quorumless bool            // the last look found no quorum of a cluster that was founded
}

// NewWatcher has looked at nothing yet.
func NewWatcher(o WatchOptions) *Watcher {
	return &Watcher{WatchOptions: o, now: make(chan struct{}, 1)}
}

// Now has it look at once.
func (w *Watcher) Now() { wake.Up(w.now) }

// Quorumless notes whether the last look found no quorum of a cluster that was founded.
func (w *Watcher) Quorumless(is bool) {
	w.mu.Lock()
	w.quorumless = is
	w.mu.Unlock()
}

// Foreign reports whether the intent in the store is another cluster's.
func (w *Watcher) Foreign() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.foreign
}

// Changed has the queue listed anew, and the backups too if one may have come.
func (w *Watcher) Changed(backups bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.queue.at = time.Time{}
	if backups {
		w.last.queue.backups.At = time.Time{}
	}
}
