// Package plan decides what to do next. [Next] is a pure function from a goal
// and an observation to a decision: at most one action, why, and what blocks
// the rest. It reads no clock, does no I/O, keeps nothing between calls and
// returns no error; what it cannot know is a blocker with a sentence.
//
// The loop around it is always the same:
//
//	for {
//		obs := observe()                  // every host, under this leader's fence
//		obs.Memory = cluster.Fold(before, obs)
//		d := plan.Next(goal, obs)
//		act(d.Action)                     // one step, its guard re-checked by who carries it out
//	}
//
// Rules are tried in a fixed order (see rules.go), each in a file of its own;
// the first that has something to say decides. The scenario files in testdata
// are the specification.
package plan

import (
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// GoalKind names what is wanted.
type GoalKind string

const (
	// Converge brings the cluster to its spec. It is the daemon's goal.
	Converge GoalKind = "converge"
	// Join makes one named host a voter.
	Join GoalKind = "join"
	// Leave takes one host or member out of the cluster.
	Leave GoalKind = "leave"
	// Replace has another member take a voter's place.
	Replace GoalKind = "replace"
	// Promote makes a learner a voter.
	Promote GoalKind = "promote"
	// MoveLeader gives raft's leadership to a member.
	MoveLeader GoalKind = "move-leader"
	// Defragment has one voter, or all of them one after the other, write its
	// database anew.
	Defragment GoalKind = "defragment"
	// Disarm takes alarms of etcd back.
	Disarm GoalKind = "disarm"
	// Pause has a host's silence not count for a while, and Resume ends that.
	Pause  GoalKind = "pause"
	Resume GoalKind = "resume"
	// Restart has the settings of a member's host take effect that wait for a start of etcd.
	Restart GoalKind = "restart"
)

// Goal is what the decision works towards. Everything but Converge is a
// person's step, taken by the same rules.
type Goal struct {
	Kind   GoalKind         `json:"kind"`
	Host   cluster.HostID   `json:"host,omitempty"`
	Member cluster.MemberID `json:"member,omitempty"`
	// By is the host that is to take the place of a voter that is replaced; empty: one
	// that is free, or else its own.
	By cluster.HostID `json:"by,omitempty"`
	// Replaced is the voter that is replaced, as the leader saw it first (see
	// [Goal.Noted]).
	Replaced *Replaced `json:"replaced,omitempty"`
	// Hold allows a step against the spec: the spec's member count is put on
	// hold by the caller before.
	Hold bool `json:"hold,omitempty"`
	// NoStore allows a change of the voters while the store does not answer:
	// enough hosts write it down first instead (SAFETY.md, rule 11).
	NoStore bool `json:"noStore,omitempty"`
	// NoBackup: the change is not to wait for a backup.
	NoBackup bool `json:"noBackup,omitempty"`
	// Acted: a step was already taken for this goal, so that a member that is
	// not listed any more is one that the goal removed.
	Acted bool `json:"acted,omitempty"`
	// Before is when each voter had been defragmented last, by its host's clock, as the
	// leader saw it first after the goal was handed over (see [Goal.Noted]): one that
	// it knew of is not the one that is asked for. Clocks are not compared.
	Before map[cluster.MemberID]time.Time `json:"before,omitempty"`
	// Alarm is the kind of alarm that is taken back; empty: every one.
	Alarm string `json:"alarm,omitempty"`
	// AcceptDifference: a CORRUPT alarm is taken back also where nothing shows that
	// the members' keys are equal.
	AcceptDifference bool `json:"acceptDifference,omitempty"`
	// Pause is what a person wants of a pause.
	Pause *PauseAsked `json:"pause,omitempty"`
}

func (g Goal) String() string {
	switch {
	case g.Host != "":
		return fmt.Sprintf("%s %s", g.Kind, g.Host)
	case g.Member != 0:
		return fmt.Sprintf("%s %s", g.Kind, g.Member)
	}
	return string(g.Kind)
}

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
		return "have the spec ask for " + membersWords(a.Count.Members)
	}
	if a.Kind == ActPause {
		return "write down " + a.Pauses.String()
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

// Blocker is something that keeps the goal from being reached, with the way
// out where there is one.
type Blocker struct {
	// Code names the page of docs/operations.
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	Command  string `json:"command,omitempty"` // lifts it, and can be pasted
	// Advice is what a person does about it that no command of this name does, in words;
	// with a command, before it.
	Advice string `json:"advice,omitempty"`
}

// Remedy is all that a person is told to do about it, in words; empty: nothing.
func (b Blocker) Remedy() string {
	if b.Advice == "" || b.Command == "" {
		return b.Advice + b.Command
	}
	return b.Advice + ", then: " + b.Command
}

// Decision is the planner's answer.
type Decision struct {
	Rule     string    `json:"rule"`
	Reason   string    `json:"reason"`
	Action   *Action   `json:"action,omitempty"`
	Blockers []Blocker `json:"blockers,omitempty"`
	// Again is when to look again if nothing wakes the loop before; zero
	// leaves it to the loop.
	Again time.Duration `json:"again,omitempty"`
	// Done: the goal is reached.
	Done bool `json:"done,omitempty"`
	// Refused: the goal cannot be reached by waiting; Blockers say why.
	Refused bool `json:"refused,omitempty"`
}

// soon is when to look again at something that is on its way, such as a
// member that was started and does not serve yet.
const soon = 100 * time.Millisecond

// later is when to look again at something that needs time, such as a member
// that has to be connected for five seconds.
const later = 500 * time.Millisecond

// Next decides. Equal inputs give equal decisions.
func Next(goal Goal, o *cluster.Observation) Decision {
	v := newView(goal, o)
	rules := rulesFor(goal.Kind)
	for i, r := range rules {
		if d := r.decide(v); d != nil {
			if r.beside() && d.Action != nil && goal.Kind == Converge {
				d.Blockers = append(d.Blockers, v.blockers(rules[i+1:])...)
			}
			d = v.noteFirst(d)
			d.Rule = r.name
			d = v.whileWaiting(d)
			d.Blockers = append(d.Blockers, v.asides...)
			return *d
		}
	}
	return Decision{Rule: "none", Reason: "nothing to do", Done: true, Blockers: v.asides}
}
