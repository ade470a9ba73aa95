package decision

import (
	"fmt"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/words"
)

// ActionKind says who carries an action out.
type ActionKind string

const (
	// ActIntent is one conditional write of the intent, or one that the hosts
	// keep while there is no store.
	ActIntent ActionKind = "intent"
	// ActHosts are ops, each carried out by one host. There are several only
	// when they may run side by side.
	ActHosts ActionKind = "hosts"
	// ActCommand ends a command of the store's queue: its outcome is kept, and
	// it is taken out.
	ActCommand ActionKind = "command"
	// ActQueue puts a command into the store's queue.
	ActQueue ActionKind = "queue"
	// ActSpec writes a member count into the spec, if that is still the one
	// which the count was to change.
	ActSpec ActionKind = "spec"
	// ActPause writes down which hosts are paused.
	ActPause ActionKind = "pause"
	// ActManual writes down whether self-management is off.
	ActManual ActionKind = "manual"
)

// CommandResult is how a command of the queue ended.
type CommandResult string

const (
	CommandDone     CommandResult = "done"
	CommandRejected CommandResult = "rejected" // nothing was changed for it
	CommandFailed   CommandResult = "failed"
	// CommandExpired: it was queued too long ago, or before the present generation.
	CommandExpired CommandResult = "expired"
)

// CommandEnd is the end of a command of the queue.
type CommandEnd struct {
	Name   string        `json:"name"`
	Result CommandResult `json:"result"`
	Reason string        `json:"reason"`
}

// IntentChange is one compare-and-swap of the intent.
type IntentChange struct {
	// Create is put if absent. When its Nonce is empty it is a new generation:
	// the executor mints nonce, token and timestamp, and works out the
	// founders' member IDs from the token. Otherwise it is written as it is.
	Create *cluster.Intent `json:"create,omitempty"`
	// Replace is written over the store's intent of the same observation, if
	// that is unchanged. A new generation has an empty Nonce, as above; it has
	// a token when a host staged its source under one.
	Replace *cluster.Intent `json:"replace,omitempty"`
	// Keep is no write to the store, which does not answer: the executor
	// counts the write, notes its fence in it, and hands it to the hosts, which
	// make it durable, with the next observation.
	Keep *cluster.Intent `json:"keep,omitempty"`
	// Command is the person's word that the write relies on, as it was decided on: the
	// executor reads it again before, and writes only if it says the same.
	Command *cluster.Command `json:"command,omitempty"`
	// Spec likewise.
	Spec *cluster.Spec `json:"spec,omitempty"`
}

// HostOp is the part of an action that one host carries out.
type HostOp struct {
	Host  cluster.HostID `json:"host"`
	Disk  cluster.DiskID `json:"disk"`
	Stamp string         `json:"stamp,omitempty"` // of the observation that the op relies on
	Guard cluster.Guard  `json:"guard,omitzero"`
	Op    cluster.Op     `json:"op"`
}

// Action is one step. It is the same value wherever it appears: planned,
// logged, sent, journaled, shown.
type Action struct {
	Kind   ActionKind    `json:"kind"`
	Intent *IntentChange `json:"intent,omitempty"`
	Ops    []HostOp      `json:"ops,omitempty"`
	End    *CommandEnd   `json:"end,omitempty"`
	// Queue is a command that is to be queued; its name and time are made up by
	// whoever does it.
	Queue *cluster.Command `json:"queue,omitempty"`
	// Count is a member count that a command asked for.
	Count *cluster.CountChange `json:"count,omitempty"`
	// Pauses is what is written down of pauses.
	Pauses *PauseChange `json:"pauses,omitempty"`
	// Manual is what is written down of self-management.
	Manual *ManualChange `json:"manual,omitempty"`
	// Projection is what the step does to the voters; every membership or
	// stop action has one.
	Projection *cluster.Projection `json:"projection,omitempty"`
	// Command is what a person would have typed for the work that this step
	// belongs to.
	Command string `json:"command,omitempty"`
}

func (a *Action) String() string {
	if a == nil {
		return "nothing"
	}
	switch {
	case a.Kind == ActIntent && a.Intent != nil && a.Intent.Keep != nil:
		return "have the hosts keep the intent"
	case a.Kind == ActIntent:
		return "write the intent"
	}
	if a.Kind == ActQueue {
		return fmt.Sprintf("queue %s from %s", a.Queue.Kind, a.Queue.Host)
	}
	if a.Kind == ActSpec {
		return "have the spec ask for " + words.MembersWords(a.Count.Members)
	}
	if a.Kind == ActPause {
		return "write down " + a.Pauses.String()
	}
	if a.Kind == ActManual {
		return "write down " + a.Manual.String()
	}
	if a.Kind == ActCommand {
		return fmt.Sprintf("end command %s as %s", a.End.Name, a.End.Result)
	}
	var parts []string
	for _, o := range a.Ops {
		parts = append(parts, fmt.Sprintf("%s: %s", o.Host, o.Op))
	}
	return strings.Join(parts, "; ")
}

// PauseChange is one write of the pauses: it is made if they are what was seen.
type PauseChange struct {
	Was []cluster.Pause `json:"was"`
	Now []cluster.Pause `json:"now"`
}

func (c *PauseChange) String() string {
	var hosts []string
	for _, p := range c.Now {
		switch {
		case p.Ended:
		case p.Until.IsZero():
			hosts = append(hosts, fmt.Sprintf("%s for %s once it may go", p.Host, words.Shortly(p.For)))
		default:
			hosts = append(hosts, fmt.Sprintf("%s until %s", p.Host, words.ClockWords(p.Until)))
		}
	}
	if len(hosts) == 0 {
		return "that no host is paused"
	}
	return "which hosts are paused: " + strings.Join(hosts, ", ")
}

// ManualChange is one write of whether self-management is off; nil: it is on. It is made if
// it is as it was seen.
type ManualChange struct {
	Was *cluster.Manual `json:"was"`
	Now *cluster.Manual `json:"now"`
}

func (c *ManualChange) String() string {
	if c.Now == nil {
		return "that self-management is on"
	}
	return "that self-management is off"
}

// OnHost is an op for one host, with the stamp of its observation.
func OnHost(h *cluster.HostReport, g cluster.Guard, op cluster.Op) HostOp {
	return HostOp{Host: h.Host, Disk: h.Disk, Stamp: h.Stamp, Guard: g, Op: op}
}
