package plan

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
	now := 0
	switch {
	case making:
		number, source = in.Generation, sourceWords(in.Source)
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
	what := []string{
		"back up the running cluster, if it has a quorum",
		fmt.Sprintf("make %s ready%s, beside what runs: fetch, verify, build", source, founder),
		fmt.Sprintf("write generation %d down", number),
		"every voter's host promises to refuse the old generation, and stops its member",
		"close the old generation",
		fmt.Sprintf("start the first member%s, in quarantine", founder),
		"the other hosts join, in quarantine, up to a majority",
		"open it to clients",
	}
	var out []Step
	for i, w := range what {
		s := Step{StepDone, w}
		if i == now {
			s.State = StepNow
		} else if i > now {
			s.State = StepNext
		}
		if i > 0 || backed {
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

func stepOfIntent(in *cluster.Intent) int {
	switch open := slices.ContainsFunc(in.History, func(g cluster.PastGeneration) bool { return !g.Closed }); {
	case in.State == cluster.IntentFounded:
		return 6
	case open:
		return 3
	}
	return 5
}

func stepOfCommand(o *cluster.Observation, c *cluster.Command) (now int, founder string) {
	roster, ok := o.Roster()
	if ok && roster.HasQuorum() && c.Kind != cluster.CommandRecover && !c.NoBackup {
		now = 0
	} else {
		now = 1
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if t := h.Taken; t != nil && t.Command == c.Name && !t.Running {
			now = max(now, 1)
		}
		if s := h.Staged; s != nil && s.Command == c.Name && s.State != cluster.StageFailed {
			now, founder = 1, " on host "+string(h.Host)
			if s.State == cluster.StageReady {
				return 2, founder
			}
		}
	}
	return now, founder
}
