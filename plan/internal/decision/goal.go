package decision

import (
	"fmt"
	"maps"
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
	// RestartAnyway has a member restarted whatever its settings are. It is a kind of its
	// own so that an earlier release refuses it, and does not take it for done.
	RestartAnyway GoalKind = "restart-anyway"
	// RotateAuthorities writes down what a person wants of a rotation of the authorities.
	RotateAuthorities GoalKind = "rotate-authorities"
	// AutoManage turns self-management off or on.
	AutoManage GoalKind = "auto-manage"
	// Apply has the daemons do one piece of work that they would do by themselves, while
	// self-management is off.
	Apply GoalKind = "apply"
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
	// Reason is what a member is restarted for; it is told, and nothing hangs on it.
	Reason string `json:"reason,omitempty"`
	// Ran is the process of the member that is restarted anyway, as the leader saw it first
	// (see [Goal.Noted]).
	Ran *Ran `json:"ran,omitempty"`
	// Rotate is what a person wants of a rotation.
	Rotate *RotateAsked `json:"rotate,omitempty"`
	// Manage is what a person wants of self-management.
	Manage *ManageAsked `json:"manage,omitempty"`
	// Rule is whose work is done, and Shown the step that the person was shown: it is begun
	// with that one, or with none. Empty: with any.
	Rule  string `json:"rule,omitempty"`
	Shown string `json:"shown,omitempty"`
}

func (g Goal) String() string {
	switch {
	case g.Rule != "":
		return fmt.Sprintf("%s %s", g.Kind, g.Rule)
	case g.Host != "":
		return fmt.Sprintf("%s %s", g.Kind, g.Host)
	case g.Member != 0:
		return fmt.Sprintf("%s %s", g.Kind, g.Member)
	}
	return string(g.Kind)
}

// Names reports whether the goal is about this member.
func (g Goal) Names(s cluster.Seat) bool {
	return g.Member != 0 && s.ID == g.Member || g.Host != "" && s.HostID == g.Host
}

// Object is the host or the member that the goal is about.
func (g Goal) Object() string {
	if g.Host != "" {
		return string(g.Host)
	}
	return g.Member.String()
}

// Replaced is the voter that a person wants replaced, as it was when that was asked
// for: once it is removed, only this tells what was wanted.
type Replaced struct {
	Member cluster.MemberID `json:"member"`
	Host   cluster.HostID   `json:"host,omitempty"` // whose member it was, where that is known
	Voters int              `json:"voters"`         // that there were, and are to be again
}

// Ran is a process of a member, by which a later one is told from it.
type Ran struct {
	Member cluster.MemberID `json:"member"`
	PID    int              `json:"pid,omitempty"` // zero: none ran
}

// RotateAsked is what a person wants of a rotation of the authorities.
type RotateAsked struct {
	// Until is how far it may go without asking again: trust, sign or drop.
	Until cluster.RotationPhase `json:"until"`
	// Begin: a new one is begun where none is under way. Else one that is goes on.
	Begin bool `json:"begin,omitempty"`
	Undo  bool `json:"undo,omitempty"`
	// Noted: the leader has taken it up, and Was is the rotation on record by then, in which one that is over is told
	// from the one that was asked for (see [Goal.Noted]).
	Noted bool   `json:"noted,omitempty"`
	Was   string `json:"was,omitempty"`
}

// PauseAsked is what a person wants of a pause.
type PauseAsked struct {
	For    time.Duration `json:"for"`
	Reason string        `json:"reason"`
	By     string        `json:"by,omitempty"`
	// ID is the pause's, made by who asks for the word that the host may go; empty: nobody
	// waits for one.
	ID string `json:"id,omitempty"`
	// Force: the host is paused also where no quorum would be left with all paused hosts off.
	Force bool `json:"force,omitempty"`
	// From is when the leader took it up first, by the clock of most hosts (see [Goal.Noted]).
	From time.Time `json:"from,omitzero"`
}

// ManageAsked is what a person wants of self-management.
type ManageAsked struct {
	On bool   `json:"on"`
	By string `json:"by,omitempty"`
	// From is when the leader took it up first, by the clock of most hosts (see [Goal.Noted]).
	From time.Time `json:"from,omitzero"`
}

// Noted is the goal with what an observation shows for the first time and what later
// ones are judged by: the voter that is to be replaced, and how voters were
// defragmented before it was handed over.
func (g Goal) Noted(o *cluster.Observation) Goal {
	switch g.Kind {
	case Replace:
		return g.notedReplaced(o)
	case Pause:
		return g.notedPause(o)
	case AutoManage:
		return g.notedManage(o)
	case RestartAnyway:
		return g.notedRan(o)
	case RotateAuthorities:
		return g.notedRotation(o)
	}
	if g.Kind != Defragment {
		return g
	}
	before := maps.Clone(g.Before)
	if before == nil {
		before = map[cluster.MemberID]time.Time{}
	}
	r, _ := o.Roster()
	for _, s := range r.Voters() {
		if _, noted := before[s.ID]; s.Host != nil && !noted {
			before[s.ID] = Defragmented(s)
		}
	}
	g.Before = before
	return g
}

// notedReplaced is the goal with the voter that it is about.
func (g Goal) notedReplaced(o *cluster.Observation) Goal {
	r, _ := o.Roster()
	if g.Replaced != nil || !r.Linearizable {
		return g
	}
	for _, s := range r.Voters() {
		if g.Names(s) {
			g.Replaced = &Replaced{Member: s.ID, Host: CarrierOf(s), Voters: len(r.Voters())}
			if in := o.Intent(); in != nil && in.Replacing != nil && in.Replacing.Member == s.ID {
				g.Replaced.Voters = in.Replacing.Voters // it was asked for before, and its successor may have a vote already
			}
		}
	}
	return g
}

// notedRan is the goal with the process that is to end. What runs on a host that is not
// seen is not known, and is noted once it is.
func (g Goal) notedRan(o *cluster.Observation) Goal {
	r, _ := o.Roster()
	for _, s := range r.Seats {
		if g.Ran == nil && g.Names(s) && s.Host != nil && s.Host.UnderFence {
			g.Ran = &Ran{Member: s.ID, PID: s.Host.Process.PID}
		}
	}
	return g
}

// notedPause is the goal with when it was taken up: planned again it is the same pause.
func (g Goal) notedPause(o *cluster.Observation) Goal {
	if g.Pause == nil || !g.Pause.From.IsZero() {
		return g
	}
	p := *g.Pause
	p.From = o.Clock().UTC().Truncate(time.Second)
	g.Pause = &p
	return g
}

// notedRotation is the goal with the rotation that was on record before.
func (g Goal) notedRotation(o *cluster.Observation) Goal {
	in := o.Intent()
	if g.Rotate == nil || g.Rotate.Noted || in == nil {
		return g
	}
	r := *g.Rotate
	r.Noted = true
	if in.Rotation != nil {
		r.Was = in.Rotation.ID
	}
	g.Rotate = &r
	return g
}

// notedManage is the goal with the time at which it was heard first.
func (g Goal) notedManage(o *cluster.Observation) Goal {
	if g.Manage == nil || !g.Manage.From.IsZero() {
		return g
	}
	m := *g.Manage
	m.From = o.Clock().UTC().Truncate(time.Second)
	g.Manage = &m
	return g
}

// CarrierOf is whose member it is or was.
func CarrierOf(s cluster.Seat) cluster.HostID {
	if s.HostID == "" && s.Owner != nil {
		return s.Owner.Host
	}
	return s.HostID
}

// Defragmented is when the member was defragmented last, by its host's clock; zero:
// not since its daemon started.
func Defragmented(s cluster.Seat) time.Time {
	if s.Host == nil || s.Host.Database == nil || s.Host.Database.Member != s.ID {
		return time.Time{}
	}
	return s.Host.Database.Defragmented
}
