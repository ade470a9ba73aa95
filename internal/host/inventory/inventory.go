package inventory

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
)

// Disk lists what lies beside the member's data. One that also can remove what was set
// aside is a remover.
type Disk interface {
	// Inventory lists what was set aside, and data that no state accounts for:
	// what is neither the data directory of token nor an empty one of ours.
	Inventory(token string) (aside, foreign []cluster.SetAside, err error)
}

// Inventory is what lies on the disk beside the member's data: what was set aside, and what
// nothing accounts for. It alone has anything removed.
type Inventory struct {
	Options

	mu      sync.Mutex // guards what follows; never held across a call
	aside   []cluster.SetAside
	foreign []cluster.SetAside
	err     error
	// no counts the lists that were begun, and listed is the last one that was taken in:
	// one that took longer than a later one is old.
	no, listed uint64
	failed     time.Time // when a directory could not be pruned
}

// Options are what it is made of.
type Options struct {
	Host       cluster.HostID
	Disk       Disk
	Keeper     *record.Keeper
	Notes      *record.Notes
	Member     *member.Client
	Work       *work.Supervisor
	PruneAfter time.Duration // zero: nothing is pruned unless a person asks for it
	Staging    func() bool   // a source of a new generation is being made ready
	Changed    func()
	Log        *slog.Logger
}

// New has listed nothing yet.
func New(o Options) *Inventory { return &Inventory{Options: o} }

// Listed is what was set aside, what nothing accounts for, and why they cannot be listed.
func (v *Inventory) Listed() (aside, foreign []cluster.SetAside, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.aside), slices.Clone(v.foreign), v.err
}

// Refresh lists what lies on the disk beside the member's data.
func (v *Inventory) Refresh() {
	s := v.Keeper.Now()
	v.mu.Lock()
	v.no++
	no := v.no
	v.mu.Unlock()
	aside, foreign, err := v.Disk.Inventory(s.Local.Token)
	foreign = accounted(foreign, s)
	for i := range aside {
		aside[i].Foreign = aside[i].Member != 0 && !s.GaveUp(aside[i].Member)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if no < v.listed {
		return
	}
	v.listed, v.err = no, err
	if err == nil {
		v.aside, v.foreign = aside, foreign
	}
}

// accounted leaves out what was staged here and moved into place just before
// the record of it could be written.
func accounted(foreign []cluster.SetAside, s record.State) []cluster.SetAside {
	if s.Staged == nil {
		return foreign
	}
	return slices.DeleteFunc(foreign, func(f cluster.SetAside) bool { return strings.HasSuffix(f.Dir, s.Staged.Token) })
}
