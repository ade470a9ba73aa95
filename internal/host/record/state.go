package record

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"etcdadm.io/cluster"
)

// StateFormat is the version of the state's layout. A state with a higher one
// was written by a later release and is refused, not guessed at.
const StateFormat = 1

// WhatState is what an error calls a state that a later release wrote.
const WhatState = "the state of this host"

// State is what a host keeps on its disk: the table "durable, per host" of
// SAFETY.md. A State is a value: what it points to is replaced, never changed.
type State struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"` // the cluster's name, as the daemon was told

	// Identity.
	Host cluster.HostID `json:"host"`
	Disk cluster.DiskID `json:"disk"`
	// Beat only grows, and is durable before it is told. A disk that is behind
	// what its peers remember went back in time (SAFETY.md, rule 9).
	Epoch uint64 `json:"beat"`

	// Promise.
	Promised         cluster.Fence `json:"promised"`
	LowestGeneration uint64        `json:"lowestGeneration,omitempty"`

	// Intent is the highest one seen.
	Intent *cluster.Intent `json:"intent,omitempty"`

	Local cluster.LocalMember `json:"local,omitzero"`
	// Launch is how the member is run. It is there from MemberStarting on.
	Launch *Launch `json:"launch,omitempty"`
	// Confirmed is the nonce of the launch under which the disk was confirmed last; empty: it is not. A daemon that
	// begins writes it before it starts a process, so a process that it adopts shows whether the disk was confirmed
	// since.
	Confirmed string `json:"confirmed,omitempty"`
	// Before are the options that the member ran before those of Launch, until it
	// has answered with these.
	Before *Ran `json:"before,omitempty"`

	// Staged is the source of a new generation that was made ready here, or is.
	Staged *cluster.Staged `json:"staged,omitempty"`

	// Journal is an op that takes several steps and has not been finished.
	Journal *Entry `json:"journal,omitempty"`

	// Carried are the members that this disk carried and gave up: none of them
	// is ever started here again.
	Carried []cluster.MemberID `json:"carried,omitempty"`
	// Voted are the members that answered as voters here.
	Voted []cluster.MemberID `json:"voted,omitempty"`
	// PastDisks are the IDs that this directory had before it forgot something.
	PastDisks []cluster.DiskID `json:"pastDisks,omitempty"`

	// Memory: lower bounds, written along with the epoch.
	Peers   []Peer           `json:"peers,omitempty"` // sorted by host
	Spec    *cluster.Spec    `json:"spec,omitempty"`  // the last one seen; for repairs only
	Highest cluster.Progress `json:"highest,omitzero"`
	// HighestOf is the cluster ID that Highest's term and index are of.
	HighestOf cluster.ClusterID `json:"highestOf,omitempty"`
}

// Entry is an op that was begun. Only setting data aside takes more than one
// step that the rest of the state does not show by itself.
type Entry struct {
	Op    cluster.Op    `json:"op"`
	Fence cluster.Fence `json:"fence,omitzero"`
	Step  string        `json:"step"`
}

// MoveData is the step of an Entry: stop the process, then move the data.
const MoveData = "move"

// Peer is what is remembered of another host.
type Peer struct {
	Host    cluster.HostID `json:"host"`
	Disk    cluster.DiskID `json:"disk"`
	Address string         `json:"address,omitempty"`
	Epoch   uint64         `json:"beat"`
	// Past are the disks that the host had before, the last one first: a disk
	// may come back, as from an image, after another one was in its place.
	Past []PastDisk `json:"past,omitempty"`
}

// PastDisk is what is remembered of a disk that a host had before.
type PastDisk struct {
	Disk  cluster.DiskID `json:"disk"`
	Epoch uint64         `json:"beat"`
}

// keptDisks is how many past disks of a host are remembered.
const keptDisks = 8

// ErrState is in the chain of every error about a state that makes no sense.
var ErrState = errors.New("refused state")

// Validate refuses a state that no host wrote, or a later release did.
func (s State) Validate() error {
	switch {
	case s.Format > StateFormat:
		return fmt.Errorf("%w: %w", ErrState, &cluster.NewerError{What: WhatState, Detail: fmt.Sprintf("its format is %d, and the one that is known is %d", s.Format, StateFormat)})
	case s.Format < 1:
		return fmt.Errorf("%w: it has no format number", ErrState)
	case s.Host == "" || s.Disk == "":
		return fmt.Errorf("%w: it names no host or no disk", ErrState)
	}
	switch l := s.Local; l.State {
	case cluster.MemberNone:
	case cluster.MemberPrepared:
		if l.Token == "" {
			return fmt.Errorf("%w: a prepared member without a token", ErrState)
		}
	case cluster.MemberStarting, cluster.MemberStarted, cluster.MemberRemoved:
		if l.Token == "" || l.Member == 0 || s.Launch == nil {
			return fmt.Errorf("%w: a %s member without token, ID or launch", ErrState, l.State)
		}
	default:
		return fmt.Errorf("%w: unknown member state %q", ErrState, l.State)
	}
	return nil
}

func (s State) Equal(o State) bool { return reflect.DeepEqual(s, o) }

// Floor is the lowest generation that may run here: what was promised, and
// never one below the newest intent that the host has learned of (rule 13).
func (s State) Floor() uint64 {
	if s.Intent == nil {
		return s.LowestGeneration
	}
	return max(s.LowestGeneration, s.Intent.Generation)
}

// Newest is the highest generation that the host runs, keeps or promised.
func (s State) Newest() uint64 { return max(s.Floor(), s.Local.Generation) }

// WantsRun reports whether the record says that the member is to run.
func (s State) WantsRun() bool {
	l := s.Local
	return s.Launch != nil && l.Run && l.Generation >= s.Floor() && s.Journal == nil && s.Halt() == nil &&
		(l.State == cluster.MemberStarting || l.State == cluster.MemberStarted)
}

// Halt is what stops the member for the time being; nil: nothing does.
func (s State) Halt() *cluster.Halt {
	if h := s.Intent.Halted(); h != nil && s.Local.Generation == h.Generation {
		return h
	}
	return nil
}

// GaveUp reports whether this disk gave up the member before.
func (s State) GaveUp(id cluster.MemberID) bool { return slices.Contains(s.Carried, id) }

// Verdict is what the disk says about the recorded member.
type Verdict int

const (
	Evident   Verdict = iota // it may be started
	Forgotten                // the disk forgot: it must not be
)

// Judge compares the record with what is on the disk (SAFETY.md, rule 8).
// etcd writes its write-ahead log before it takes part in raft, so a member
// whose log was never there has promised nothing to its peers; and the mark
// dies with a wiped directory, so an empty directory with our mark was never
// anything else.
func Judge(l cluster.LocalMember, marked, wal bool) Verdict {
	switch l.State {
	case cluster.MemberStarting:
		if marked {
			return Evident
		}
	case cluster.MemberStarted:
		if marked && wal {
			return Evident
		}
	}
	return Forgotten
}

// Unhalt drops what was made of the data of a halted member that is to run again:
// clients write more (docs/adr/017-any-version.md). Part of the change that keeps
// another intent.
func (s *State) Unhalt() {
	if st := s.Staged; st != nil && st.Source.Kind == cluster.SourceHalted && s.Local.Run && s.Halt() == nil && s.Intent.Generation == s.Local.Generation {
		s.Staged = nil
	}
}

// Unstage drops what was made of the log of a member that is to run again: it
// may write more (SAFETY.md, rule 15). Part of the change that has it run.
func (s *State) Unstage() {
	if s.Staged != nil && (s.Staged.Source.Kind == cluster.SourceSurvivor || s.Staged.Source.Kind == cluster.SourceHalted) {
		s.Staged = nil
	}
}

// Reasons of foreign data, as a Disk reports them.
const (
	// ForeignPredecessor: the state file and data of etcd-manager.
	ForeignPredecessor = "state or data that etcd-manager wrote"
	// ForeignData: a data directory without this disk's mark.
	ForeignData = "a data directory that this host did not make"
)
