package bulk

import (
	"context"
	"log/slog"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/inventory"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
)

// Options are what work with whole databases and logs is made of.
type Options struct {
	Host    cluster.HostID
	Sources Sources // nil: this host has no backup store
	Keeper  *record.Keeper
	Memory  *record.Memory
	Member  *member.Client
	Work    *work.Supervisor
	Changed func()
	Log     *slog.Logger

	// What Staging needs beside.
	Disk      asideSetter
	Inventory *inventory.Inventory
	URLs      cluster.URLs
	Releases  func() []cluster.Version
	Stopped   func() bool // the member's process is stopped
	Obstacle  func(record.State) (reason, hint string)
	Mint      func() string
}

// asideSetter is a Disk that sets data aside.
type asideSetter interface {
	SetAside(token string, what cluster.SetAside) (cluster.SetAside, error)
}

// Staging makes the source of a new generation ready, beside what runs.
type Staging struct {
	Options

	mu     sync.Mutex      // guards what follows
	under  *cluster.Staged // how far it is; nil: nothing is being made ready
	giveUp context.CancelCauseFunc
}

// NewStaging makes nothing ready yet.
func NewStaging(o Options) *Staging { return &Staging{Options: o} }

// Backups takes backups through the own member, and tests them.
type Backups struct {
	Options

	mu      sync.Mutex // guards what follows
	taken   *cluster.Taken
	test    *cluster.Taken
	tidying bool                    // after a backup
	giveUp  context.CancelCauseFunc // of the backup in taken
}

// NewBackups has taken none yet.
func NewBackups(o Options) *Backups { return &Backups{Options: o} }

// Report puts what came of them into the facts of the host.
func (b *Backups) Report(out *cluster.HostState) {
	out.KeepsBackups = true
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken != nil {
		t := *b.taken
		out.Taken = &t
	}
	if b.test != nil {
		t := *b.test
		out.Drill = &t
	}
}

// Logs reads the member's log, beside the observations that ask for it.
type Logs struct {
	Options

	mu      sync.Mutex  // guards what follows
	reading *logReading // nil: none is under way
	v2      v2Look
}

// NewLogs has read none yet.
func NewLogs(o Options) *Logs { return &Logs{Options: o} }

// LeaveHalted gives up what is being made of the data of a member that goes on.
func (g *Staging) LeaveHalted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.under; now != nil && now.Source.Kind == cluster.SourceHalted && g.giveUp != nil {
		g.giveUp(errUnwanted)
	}
}
