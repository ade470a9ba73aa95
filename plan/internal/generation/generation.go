package generation

import (
	"cmp"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
)

// Decide makes a new generation from data when a command asks for one,
// and finishes one that somebody began (docs/adr/009-generations.md).
func Decide(v *step.View) *decision.Decision {
	founding := v.Intent != nil && v.Intent.State == cluster.IntentFounding && v.Intent.Source.FromData()
	if !v.Obs.Store.Read {
		if founding {
			return FinishGeneration(v)
		}
		if halt := v.Intent.Halted(); halt != nil {
			return whileHalted(v, halt)
		}
		return nil
	}
	if halt := v.Intent.Halted(); halt != nil {
		return whileHalted(v, halt)
	}
	if d := EndCommands(v); d != nil {
		return d
	}
	c := v.NextCommand()
	if founding {
		return finishOrSupersede(v, c)
	}
	if d := ReviveStopped(v); d != nil {
		return d
	}
	if c == nil {
		return AutoRecover(v)
	}
	if d := countInSpec(v); d != nil { // so that the next one is over a spec of which it is known who wrote it
		return d
	}
	if d := Replaced(v, c); d != nil {
		return d
	}
	return beside(v, c, beginGeneration(v, c))
}

// finishOrSupersede finishes the generation that is being founded. Where that
// cannot be done, the next command in the queue is a person's way out: it makes
// a further generation, which supersedes this one.
func finishOrSupersede(v *step.View, c *cluster.Command) *decision.Decision {
	d := FinishGeneration(v)
	if back := GoBack(v); c == nil && back != nil && d.Action == nil {
		return back
	}
	if c == nil || !Stuck(v, d) || len(d.Blockers) == 0 && repeats(v, c) && v.FoundingFor() < repeatPatience {
		return d
	}
	next := beginGeneration(v, c)
	if next.Action != nil || len(next.Blockers) == 0 {
		return next
	}
	v.Notices = append(v.Notices, next.Blockers...)
	return d
}

// repeatPatience is how long a founding that seems to go on is left alone when
// the next command asks for the very same: to begin it again would take its
// source away, which may lie ready on that founder alone.
const repeatPatience = 10 * time.Minute

// repeats: the command asks for what the generation that is being founded was
// made from, and names no more hosts as lost.
func repeats(v *step.View, c *cluster.Command) bool {
	for i := range v.Obs.Commands {
		if o := &v.Obs.Commands[i]; o.Name == v.Intent.CommandID {
			return saysAgain(v, c, o) && len(c.Lost) <= len(v.Intent.Lost)
		}
	}
	return c.Kind == cluster.CommandRestore && c.Backup == v.Intent.Source.Backup && len(c.Lost) <= len(v.Intent.Lost)
}

// Stuck reports whether the generation needs something that does not come by itself; or it has
// had its time, whatever it seems to be doing.
func Stuck(v *step.View, d *decision.Decision) bool {
	return d.Stuck || v.Stalled() && (d.Action == nil || d.Action.Kind == decision.ActHosts)
}

// Replaced ends a command that a later one says again, with more hosts named
// as lost: a person answers a blocker that way.
func Replaced(v *step.View, c *cluster.Command) *decision.Decision {
	for i := range v.Obs.Commands {
		o := &v.Obs.Commands[i]
		if saysAgain(v, o, c) && !o.At.Before(c.At) && len(o.Lost) > len(c.Lost) {
			return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf("command %s asks for the same and names more hosts as lost", o.Name))
		}
	}
	return nil
}

// saysAgain: o is a command that was not run, and asks for what c asks for.
func saysAgain(v *step.View, o, c *cluster.Command) bool {
	return o.Name != c.Name && o.Malformed == "" && !v.Obs.Ran(o.Name) &&
		o.Kind == c.Kind && o.Backup == c.Backup && o.Host == c.Host && o.Dir == c.Dir && o.Version == c.Version && sameCount(o, c)
}

// EndCommands takes a command that was run out of the queue, once its
// generation is founded, and every one whose end is on record already.
func EndCommands(v *step.View) *decision.Decision {
	for i := range v.Obs.Commands {
		c := &v.Obs.Commands[i]
		end, ended := v.Obs.EndOf(c.Name)
		switch {
		case ended:
			return decision.EndCommand(c.Name, decision.CommandResult(end.Result), end.Reason)
		case c.Ended != "":
			return decision.EndCommand(c.Name, decision.CommandResult(c.Ended), "that is on record already")
		case v.Intent == nil || v.Intent.State != cluster.IntentFounded || !v.Obs.Ran(c.Name):
		case !v.Intent.Ran(c.Name):
			return decision.EndCommand(c.Name, decision.CommandFailed, "a generation was written down for it, which the backup store has lost and only hosts remember")
		case v.Intent.CommandID != c.Name:
			return decision.EndCommand(c.Name, decision.CommandDone, fmt.Sprintf("it was run in an earlier generation than %d, which is the present one", v.Intent.Generation))
		default:
			return endServed(v, c)
		}
	}
	return nil
}

// endServed ends the command of the present generation. One that was queued
// again while it was being carried out, as a blocker asks for, ends with it: run
// once more, it would take back what clients have written since.
func endServed(v *step.View, c *cluster.Command) *decision.Decision {
	for i := range v.Obs.Commands {
		if o := &v.Obs.Commands[i]; saysAgain(v, o, c) {
			return decision.EndCommand(o.Name, decision.CommandDone, fmt.Sprintf("command %s asked for the same, and generation %d serves", c.Name, v.Intent.Generation))
		}
	}
	result := fmt.Sprintf("generation %d serves, made from %s%s", v.Intent.Generation, SourceWords(v.Intent.Source)+doubtWords(c), countWords(v, c))
	if v.Intent.Quarantined {
		result += "; ordinary clients are let in once a majority of the members that the spec asks for is up"
	}
	return decision.EndCommand(c.Name, decision.CommandDone, result)
}

// beside lets the other rules go on while a command waits for something: the
// cluster that is goes on being looked after, because nothing of it is touched
// for the command yet. What they change is no matter for it: all that it relies
// on is looked at again by the very decision that writes its intent, over the
// intent that has every voter set (docs/adr/009-generations.md). Without any
// cluster, none is founded beside it.
func beside(v *step.View, c *cluster.Command, d *decision.Decision) *decision.Decision {
	switch {
	case v.Intent == nil || d.Action != nil:
		return d
	case len(d.Blockers) > 0:
		v.Notices = append(v.Notices, d.Blockers...)
		return nil
	case c.Kind == cluster.CommandRecover:
		return d // its survivor was stopped for it, and there is no quorum to do anything
	case v.Seen && v.Roster.Linearizable && v.Roster.HasQuorum():
		v.Meanwhile = d
		return nil
	}
	return cmp.Or(step.Revive(v), d) // all that is left without a quorum
}

// WhileWaiting is the decision with what is being done beside everything else:
// that is said where there is nothing else to say, and is looked at again soon.
func WhileWaiting(v *step.View, d *decision.Decision) *decision.Decision {
	switch {
	case v.Meanwhile == nil || d.Action != nil:
		return d
	case d.Done && v.Goal.Kind == decision.Converge && v.Applies == "":
		v.Meanwhile.Rule = "generation"
		return v.Meanwhile
	case d.Again == 0 || d.Again > v.Meanwhile.Again:
		d.Again = v.Meanwhile.Again
	}
	return d
}
