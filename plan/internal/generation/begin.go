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

// beginGeneration takes a command up to the write of its intent. Nothing that
// runs is touched before that, but the member that a recovery reads.
func beginGeneration(v *step.View, c *cluster.Command) *decision.Decision {
	w := judgedWith(v, c)
	d := Begin(w, c)
	v.Notices = w.Notices
	return d
}

func Begin(v *step.View, c *cluster.Command) *decision.Decision {
	name := c.Name
	switch {
	case v.Obs.Unlisted != "":
		return decision.Wait(true, "store-silent", "", "command {command} waits: the queue in the backup store cannot be listed, so that nobody knows whether it is still wanted: {unlisted}", name, v.Obs.Unlisted)
	case c.Malformed != "":
		return decision.EndCommand(name, decision.CommandRejected, c.Malformed)
	case c.Kind == cluster.CommandRestore && c.Missing:
		return decision.EndCommand(name, decision.CommandRejected, fmt.Sprintf("there is no backup %s in the store; list-backups shows those that are", c.Backup))
	case c.Kind == cluster.CommandRestore && c.Found == nil:
		return decision.Wait(true, "store-silent", "", "waiting for the backup store, to look at backup {backup}", c.Backup)
	}
	if d := step.NeedSpec(v); d != nil {
		return d
	}
	if v.Intent == nil {
		if d := carried(v); d != nil {
			return d
		}
	}
	for _, look := range []func(*step.View, *cluster.Command) *decision.Decision{Never, ConsentOver, unconditional, undoAsSeen, wrongCount, MayRecover, LostAndAlive, LostAndThere, PromisersInSight, LogsInSight} {
		if d := look(v, c); d != nil {
			return d
		}
	}
	h, d := stage(v, c)
	if d != nil {
		return d
	}
	if d := BackupBefore(v, c); d != nil { // as late as can be: staging may take hours
		return d
	}
	return WriteGeneration(v, c, h)
}

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
		in.Halt = haltAfter(v, c)
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

// unconditional keeps a generation from being made through a store in which two leaders
// could each make one, unless the spec names the hosts and a majority of them follows this
// leader, or is given up (SAFETY.md, rule 19).
func unconditional(v *step.View, c *cluster.Command) *decision.Decision {
	if v.Obs.Store.Conditional {
		return nil
	}
	n := 0
	for _, id := range v.Spec.Hosts {
		h, ok := v.Obs.Host(id)
		if ok && h.UnderFence || slices.Contains(c.Lost, id) {
			n++
		}
	}
	if len(v.Spec.Hosts) > 0 && n >= cluster.Quorum(len(v.Spec.Hosts)) {
		return nil
	}
	return decision.Wait(true, "store-unconditional", "", "command {command} waits: the backup store has no conditional writes, so that two leaders could both run it; name the hosts in the daemons' static configuration and start a majority of them", c.Name)
}

// BackupBefore has the running cluster backed up before it is replaced, if
// that can be done.
func BackupBefore(v *step.View, c *cluster.Command) *decision.Decision {
	if c.NoBackup || c.Kind == cluster.CommandRecover || !v.Seen || !v.Roster.Linearizable || !v.Roster.HasQuorum() {
		return nil
	}
	t, began := v.LastTaken(c.Name)
	switch {
	case t == nil:
		if d := step.TakeBackup(v, c.Name, step.BackupBeforeRestore); d != nil || !v.BackingUp() {
			return d
		}
		return &decision.Decision{Reason: words.F("another backup is running; the one before the cluster is replaced comes next"), Again: decision.Soon}
	case t.Running && v.Obs.At.Sub(began) < sight.BackupTry:
		return &decision.Decision{Reason: words.F("backing up the running cluster before it is replaced, for up to {backupTry}", sight.BackupTry), Again: decision.Soon}
	case t.Running:
		v.Notice("backup-failed", "", "the backup before the cluster is replaced took more than {backupTry}; the command goes on without it", sight.BackupTry)
	case t.Error != "":
		v.Advise("backup-failed", t.Hint, "", "the backup before the cluster is replaced failed, and the command goes on: {error}", t.Error)
	}
	return nil
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

// carried blocks a founding beside members whose record was lost: their data
// may be this cluster's, and the new one would take its place unasked.
func carried(v *step.View) *decision.Decision {
	var carry []string
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; h.Carries() {
			carry = append(carry, fmt.Sprintf("%s: member %s of cluster %s", h.Host, h.Local.Member, h.Local.Cluster))
		}
	}
	if len(carry) == 0 {
		return nil
	}
	return decision.Wait(false, "no-intent", "", "hosts hold the data of members, and neither the store nor a host has the record of their founding; no cluster is founded beside them until the store is back or their data directories were moved away{because}", words.Because(carry))
}
