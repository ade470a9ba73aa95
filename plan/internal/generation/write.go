package generation

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// WriteGeneration is the one conditional write that makes the generation so.
func WriteGeneration(v *step.View, c *cluster.Command, h *cluster.HostReport) *decision.Decision {
	s := h.Staged
	in := &cluster.Intent{
		Name: v.Obs.Cluster, Generation: v.NextGeneration(), Token: s.Token, Version: s.Version, Source: s.Source, State: cluster.IntentFounding,
		Quarantined: v.Spec.MemberCount > 1, Founders: sight.AsFounders([]*cluster.HostReport{h}), CommandID: c.Name, Lost: slices.Clone(c.Lost),
		CommandsRun: []string{c.Name}, Count: countFor(v, c),
	}
	if c.Kind == cluster.CommandRecover && h.Log != nil && v.Intent != nil && h.Local.Cluster == v.Intent.Cluster {
		in.Reached = *h.Log
	}
	change := &decision.IntentChange{Create: in}
	if v.Intent != nil {
		in.Halt, in.Rotation = haltAfter(v, c), v.Intent.Rotation
		in.CommandsRun = append(slices.DeleteFunc(slices.Clone(v.Intent.CommandsRun), func(n string) bool { return n == c.Name }), c.Name)
		in.Ended = slices.Clone(v.Intent.Ended)
		in.History = slices.Concat(v.Intent.History, sight.Forgotten(v.Sight), []cluster.PastGeneration{v.Past()})
		change = &decision.IntentChange{Replace: in}
	}
	if v.Queued(c.Name) {
		change.Command = c
	} else if c.Kind == cluster.CommandChange {
		change.Spec = v.Obs.Spec
	}
	reason := words.F("{command} lies ready on host {host}: record generation {generation}", commandWords(c), h.Host, in.Generation)
	if c.Kind == cluster.CommandChange { // so that it is known for sure that no client has seen anything of it, if it has to be given up
		in.Quarantined = true
	} else if !s.Version.Has(cluster.V3API) {
		reason = words.F("{what}; etcd 2 has no tool to raise indexes, so they go back", reason)
	} else if s.Source.Wrote.Compare(cluster.Version{}) > 0 && s.Source.Tool == "" {
		reason = words.F("{what}; no tool at hand can raise the revisions, so they go back", reason)
	}
	return &decision.Decision{Reason: reason, Again: decision.Soon, Action: &decision.Action{Kind: decision.ActIntent, Intent: change, Command: GenerationCommand(v, c)}}
}

// haltAfter is the halt that the next generation's intent tells of: one that was
// carried out, or that came to nothing, is not begun again on the same word.
func haltAfter(v *step.View, c *cluster.Command) *cluster.Halt {
	halt := v.Intent.Halt
	if halt == nil || c.Kind == cluster.CommandChange || halt.Ended != "" || v.Intent.Source.Kind != cluster.SourceHalted || v.Intent.State == cluster.IntentFounded {
		return halt
	}
	ended := *halt
	ended.Ended = fmt.Sprintf("the first member of generation %d did not start with etcd %s", v.Intent.Generation, halt.To)
	return &ended
}
