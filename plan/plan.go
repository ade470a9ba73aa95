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
// Rules are tried in a fixed order (rules.go); the first that has something to say
// decides. No rule calls another one. They live in rooms of their own, and imports go
// down:
//
//	plan          the lists of rules, and what a program asks for
//	  record      is this our cluster, and is what is written down true
//	  roll        another release, other options, TLS, other authorities: one member after the other
//	  upkeep      backups, full databases, differing keys, what was set aside
//	  members     who votes: the table of remedies, joining, growing, shrinking
//	  recovery    who a cluster can go on from, as a person asks before
//	  generation  a cluster from nothing, from a backup, from a survivor
//	  pauses      hosts that are off on purpose
//	  manual      self-management off and on, and work that a person has done while it is off
//	  step        what decisions are made of: a membership call, a restart, a backup
//	  sight       what is known, and the one gate before a member is taken away
//	  decision    goals, actions, blockers: values
//	  path        the ways between releases (public)
//	  words       numbers, names and times as people read them
//
// The scenario files in testdata are the specification.
package plan

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/recovery"
	"etcdadm.io/plan/internal/roll"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/upkeep"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

// What is wanted, and what is decided.
type (
	Goal        = decision.Goal
	GoalKind    = decision.GoalKind
	PauseAsked  = decision.PauseAsked
	RotateAsked = decision.RotateAsked
	Decision    = decision.Decision
	Blocker     = decision.Blocker
	Action      = decision.Action
	HostOp      = decision.HostOp
	CommandEnd  = decision.CommandEnd
	PauseChange = decision.PauseChange
	ManageAsked = decision.ManageAsked

	ManualChange = decision.ManualChange

	IntentChange = decision.IntentChange
	Text         = words.Text
)

// Say is a text: each {name} of the template stands for the next fact.
func Say(template string, facts ...any) Text { return words.F(template, facts...) }

// Goals.
const (
	Converge   = decision.Converge
	Join       = decision.Join
	Leave      = decision.Leave
	Replace    = decision.Replace
	Promote    = decision.Promote
	MoveLeader = decision.MoveLeader
	Defragment = decision.Defragment
	Disarm     = decision.Disarm
	Pause      = decision.Pause
	Resume     = decision.Resume
	Restart    = decision.Restart
	// RestartAnyway has a member restarted whatever its settings are.
	RestartAnyway = decision.RestartAnyway
	// RotateAuthorities writes down what a person wants of a rotation.
	RotateAuthorities = decision.RotateAuthorities
	// AutoManage turns self-management off or on; Apply has one rule do its work while it is off.
	AutoManage = decision.AutoManage
	Apply      = decision.Apply
)

// Who carries an action out, and how a command of the queue ends.
const (
	ActIntent  = decision.ActIntent
	ActHosts   = decision.ActHosts
	ActCommand = decision.ActCommand
	ActQueue   = decision.ActQueue
	ActSpec    = decision.ActSpec
	ActPause   = decision.ActPause
	ActManual  = decision.ActManual

	CommandExpired = decision.CommandExpired
)

// Next decides. Equal inputs give equal decisions.
func Next(goal Goal, o *cluster.Observation) Decision {
	d := next(goal, o)
	if goal.Kind != Converge && goal.Kind != "" { // a person's step says nothing of the spec
		d.Settled = next(Goal{Kind: Converge}, o).Settled
	}
	return d
}

func next(goal Goal, o *cluster.Observation) Decision {
	v := step.Look(goal, o)
	rules := rulesFor(v)
	var passed *decision.Decision
	open := false // what passes is for the spec
	for i, r := range rules {
		v.Rule = r.name
		d := r.decide(v)
		switch {
		case d == nil:
			continue
		case d.Passes && i < len(rules)-1:
			open = open || !d.Upkeep
			if passed == nil {
				d.Rule = r.name
				passed = d
			}
			continue
		}
		is := !open && settled(v, d, r, rules[i+1:])
		if passed != nil && i == len(rules)-1 && d.Action == nil && len(d.Blockers) == 0 { // nothing else is to be done
			d, r = passed, rule{name: passed.Rule}
		}
		if r.beside() && d.Action != nil && v.Goal.Kind == Converge {
			d.Blockers = append(d.Blockers, blockers(v, rules[i+1:])...)
		}
		d = generation.NoteFirst(v, d)
		d.Rule = r.name
		d = generation.WhileWaiting(v, d)
		d.Settled = is
		d.Blockers = append(d.Blockers, v.Notices...)
		return *d
	}
	if passed != nil {
		passed.Blockers = append(passed.Blockers, v.Notices...)
		return *passed
	}
	return Decision{Rule: "none", Reason: words.F("nothing to do"), Done: true, Blockers: v.Notices}
}

// Aside is what becomes of a directory that a host set aside.
type Aside = upkeep.Aside

// Asides says what becomes of everything that is set aside, by host and name.
func Asides(o *cluster.Observation) []Aside { return upkeep.Asides(o) }

// Waiting is a command in the store's queue, and what it waits for.
type Waiting = generation.Waiting

// Queue says of each command what it waits for, in the order in which they are
// run. The decision is the one that was made from the observation.
func Queue(o *cluster.Observation, d Decision) []Waiting { return generation.Queue(o, d) }

// Step is a step of making a generation from data, for people.
type (
	Step      = generation.Step
	StepState = generation.StepState
)

// How far a step is.
const (
	StepDone = generation.StepDone
	StepNow  = generation.StepNow
	StepNext = generation.StepNext
)

// Progress lists the steps of the generation that is being made, or that the
// first command of the queue asks for; nothing when there is none.
func Progress(o *cluster.Observation) []Step { return generation.Progress(o) }

// Rotation is how far a rotation of the authorities is, for people.
type Rotation = roll.Rotation

// RotationOf is the rotation on record, over or not; nil: there never was one.
func RotationOf(o *cluster.Observation) *Rotation { return roll.RotationOf(o) }

// What is known before a recovery, and what speaks against it.
type (
	Recovery  = recovery.Recovery
	Objection = recovery.Objection
	Told      = recovery.Told
)

// FurthestAside is the data of a cluster that goes furthest of what hosts set aside, and
// its host, where its log ends beyond a point; empty: none does.
func FurthestAside(hosts []cluster.LogEnd, of cluster.ClusterID, beyond cluster.Progress) (cluster.HostID, cluster.SetAside) {
	return recovery.FurthestAside(hosts, of, beyond)
}

// RestoresTo says why a backup cannot be restored to a release; empty: it can.
func RestoresTo(wrote, want cluster.Version) string { return generation.RestoresTo(wrote, want) }

// LeastWanted picks of one voter at least who goes when fewer are wanted.
func LeastWanted(spec cluster.Spec, voters []cluster.Seat) cluster.Seat {
	return members.LeastWanted(spec, voters)
}

// VersionPath is the way from what the members in sight run to a version, as the
// leader would take it.
func VersionPath(o *cluster.Observation, to cluster.Version) path.Path {
	return roll.VersionPath(o, to)
}

// VersionSurvey is the newest list of what would be lost on the way to a version,
// key by key; nil: none was made.
func VersionSurvey(o *cluster.Observation, to cluster.Version) *cluster.Survey {
	return generation.VersionSurvey(o, to)
}
