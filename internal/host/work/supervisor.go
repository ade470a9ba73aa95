package work

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/wake"
)

// Supervisor has one op carried out at a time, and everything else that takes long beside
// it, and says what each of them waits for. Files cannot be called off: what reads or
// writes them may hang with its disk, and whoever asks is told so within a bound.
type Supervisor struct {
	host    cluster.HostID
	keeper  *record.Keeper
	changed func() // a leader should look at this host
	log     *slog.Logger

	booted chan struct{} // closed when the machine is in line with the record
	turn   chan struct{} // held to admit an op or to make a promise; short

	background context.Context // of what goes on beside the ops; ends with the host
	stopWork   context.CancelFunc

	mu      sync.Mutex // guards what follows; never held across a call to a port
	running *Task      // the op being carried out; nil: none
	phase   phase      // of it, or of the start; zero: none that is told
	own     phase      // of what the host looks at or writes by itself, beside an op
	resting bool       // Rest was called
	closing bool
	tasks   sync.WaitGroup
	overdue []*Look // under way, and given up by whoever asked for them; the oldest first
}

func NewSupervisor(host cluster.HostID, keeper *record.Keeper, changed func(), log *slog.Logger) *Supervisor {
	background, stop := context.WithCancel(context.Background())
	return &Supervisor{
		host: host, keeper: keeper, changed: changed, log: log, background: background, stopWork: stop,
		booted: make(chan struct{}), turn: make(chan struct{}, 1),
	}
}

// Up says that the machine is in line with the record.
func (w *Supervisor) Up() { close(w.booted) }

// Resting reports whether Rest was called.
func (w *Supervisor) Resting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resting
}

// Lasts is for an op that may take longer than ops do.
func (w *Supervisor) Lasts(most time.Duration) {
	w.mu.Lock()
	w.running.most = most
	w.mu.Unlock()
}

// Close begins nothing any more, ends what goes on beside the ops, and waits for it.
func (w *Supervisor) Close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.stopWork()
	w.join()
}

// InBackground runs work beside the ops, until it ends or the host does, and for no longer
// than limit; false when the host is shutting down.
func (w *Supervisor) InBackground(limit time.Duration, work func(context.Context)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	ctx, cancel := context.WithTimeout(w.background, limit)
	w.tasks.Go(func() {
		defer cancel()
		work(ctx)
	})
	return true
}

// Context ends with the host.
func (w *Supervisor) Context() context.Context { return w.background }

// WatchStart logs what the host waits for before it is up.
func (w *Supervisor) WatchStart(up <-chan struct{}) {
	w.tasks.Go(func() { w.sayBooting(up) })
}

// AwaitBoot reports whether Run has brought the machine in line with the
// record, and waits for it until ctx ends.
func (w *Supervisor) AwaitBoot(ctx context.Context) bool {
	select {
	case <-w.booted:
	case <-ctx.Done():
		return wake.Ready(w.booted)
	}
	return true
}

// Rest is as Host.Rest says.
func (w *Supervisor) Rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = true
}
