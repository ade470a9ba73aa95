package generation

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// StepState is how far a step of a new generation is.
type StepState string

// The states of a step.
const (
	StepDone StepState = "done"
	StepNow  StepState = "now"
	StepNext StepState = "next" // to come
)

// Step is a step of making a generation from data, for people
// (docs/adr/009-generations.md).
type Step struct {
	State StepState `json:"state"`
	What  string    `json:"what"`
}

// Progress lists the steps of the generation that is being made, or that the
// first command of the queue asks for; nothing when there is none. It is read
// from the observation alone, and decides nothing.
func Progress(o *cluster.Observation) []Step {
	in := o.Intent()
	making := in != nil && in.Source.FromData() && (in.State == cluster.IntentFounding || in.Quarantined)
	c := nextInQueue(o, in)
	if !making && c == nil {
		return nil
	}
	number, source, founder, backed := uint64(1), "", "", false // once it is written, nobody asks for a backup
	var now State
	switch {
	case making:
		number, source = in.Generation, SourceWords(in.Source)
		if len(in.Founders) > 0 {
			founder = " on host " + string(in.Founders[0].Host)
		}
		now = stepOfIntent(in)
	default:
		if in != nil {
			number = in.Generation + 1
		}
		source, backed = commandWords(c), c.Kind != cluster.CommandRecover && !c.NoBackup
		now, founder = stepOfCommand(o, c)
	}
	var out []Step
	for _, x := range []struct {
		in   State
		what string
	}{
		{Checked, fmt.Sprintf("prepare %s%s, beside what runs: fetch, verify, build", source, founder)},
		{Staged, "back up the running cluster, if it has a quorum"},
		{BackedUp, fmt.Sprintf("record generation %d", number)},
		{Written, "every voter's host stops its member and fences off the old generation"},
		{Promised, "close the old generation"},
		{Closed, fmt.Sprintf("start the first member%s, in quarantine", founder)},
		{Begun, "the other hosts join, in quarantine, up to a majority"},
		{Founded, "open it to clients"},
	} {
		s := Step{StepDone, x.what}
		if x.in == now {
			s.State = StepNow
		} else if x.in > now {
			s.State = StepNext
		}
		if x.in != Staged || backed {
			out = append(out, s)
		}
	}
	return out
}

// nextInQueue is the command that is run next.
func nextInQueue(o *cluster.Observation, in *cluster.Intent) *cluster.Command {
	for i := range o.Commands {
		c := &o.Commands[i]
		run := in != nil && slices.Contains(in.CommandsRun, c.Name)
		if c.Kind != cluster.CommandBackup && c.Malformed == "" && c.Ended == "" && !run {
			return c
		}
	}
	return nil
}

func stepOfIntent(in *cluster.Intent) State {
	switch open := slices.ContainsFunc(in.History, func(g cluster.PastGeneration) bool { return !g.Closed }); {
	case in.State == cluster.IntentFounded:
		return Begun
	case open:
		return Written
	}
	return Closed
}

func stepOfCommand(o *cluster.Observation, c *cluster.Command) (now State, founder string) {
	now = Checked
	for i := range o.Hosts {
		h := &o.Hosts[i]
		s := h.Staged
		if s == nil || s.Command != c.Name || !asAsked(s, c) || s.State == cluster.StageFailed {
			continue
		}
		founder = " on host " + string(h.Host)
		if s.State != cluster.StageReady {
			return Checked, founder
		}
		if roster, ok := o.Roster(); !ok || !roster.HasQuorum() || c.Kind == cluster.CommandRecover || c.NoBackup || backedUp(o, c) {
			return BackedUp, founder
		}
		now = Staged
	}
	return now, founder
}

// backedUp: the try of a backup for the command has ended.
func backedUp(o *cluster.Observation, c *cluster.Command) bool {
	return slices.ContainsFunc(o.Hosts, func(h cluster.HostReport) bool {
		return h.Taken != nil && h.Taken.Command == c.Name && !h.Taken.Running
	})
}
