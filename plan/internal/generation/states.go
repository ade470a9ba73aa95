package generation

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
)

// State is how far the making of a generation from data has come. What is done in each state,
// and takes it to the next, is in the file that is named beside it.
type State int

// The states, in their order.
const (
	Asked    State = iota // a command of the queue, or the spec, asks for it: check.go
	Checked               // nothing speaks against it: stage.go
	Staged                // its data lies ready on a host: backup.go
	BackedUp              // so does a backup of what runs, where there can be one: write.go
	Written               // its intent is in the store: promises.go
	Promised              // enough voters before it have stopped, and fenced that generation off: promises.go
	Closed                // that is on record: begin.go
	Begun                 // its first member runs: begin.go
	Founded               // it serves, quarantined, and that is on record: the members' rules, and quarantine.go
)

// making is a generation on its way.
type making struct {
	*step.View
	command *cluster.Command    // what asks for it, up to Written
	host    *cluster.HostReport // where its data lies ready, from Staged on
}

// transition is the work of a state. It gives nil where the state is behind.
type transition struct {
	from State
	work func(*making) *decision.Decision
}

// Up to the write of the intent nothing that runs is touched, but the member that a recovery
// reads. Each look begins with the first state: all that the write relies on is looked at
// again by the very decision that makes it.
var untilWritten = []transition{
	{Asked, check},
	{Checked, func(m *making) (d *decision.Decision) { m.host, d = stage(m.View, m.command); return d }},
	{Staged, func(m *making) *decision.Decision { return BackupBefore(m.View, m.command) }}, // as late as can be: staging may take hours
	{BackedUp, func(m *making) *decision.Decision { return WriteGeneration(m.View, m.command, m.host) }},
}

var onceWritten = []transition{
	{Written, func(m *making) *decision.Decision { return inDoubt(m.View) }},
	{Begun, served}, // one that serves has what follows behind it
	{Promised, func(m *making) *decision.Decision { return CollectPromises(m.View) }},
	{Closed, func(m *making) *decision.Decision { return outrun(m.View) }},
	{Closed, begin},
}

// advance does the work of the first state that is not behind.
func advance(m *making, by []transition) *decision.Decision {
	for _, t := range by {
		if d := t.work(m); d != nil {
			return d
		}
	}
	return nil // not reached: the last work always decides
}

// Begin takes a command up to the write of its intent.
func Begin(v *step.View, c *cluster.Command) *decision.Decision {
	return advance(&making{View: v, command: c}, untilWritten)
}

// beginGeneration is Begin by what a person knows who has judged the logs.
func beginGeneration(v *step.View, c *cluster.Command) *decision.Decision {
	w := judgedWith(v, c)
	d := Begin(w, c)
	v.Notices = w.Notices
	return d
}

// FinishGeneration brings a generation whose intent is written to service.
func FinishGeneration(v *step.View) *decision.Decision {
	return advance(&making{View: v}, onceWritten)
}
