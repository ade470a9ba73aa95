package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

const (
	// stagedFor is how long a source that lies ready may be used. What clients may
	// have seen since its target was chosen has to stay within the margin.
	stagedFor = time.Hour
	// backupTry is how long a new generation waits for the backup of the
	// running cluster before it.
	backupTry = 2 * time.Minute
)

// generation makes a new generation from data when a command asks for one,
// and finishes one that somebody began (docs/adr/009-generations.md).
func generation(v *view) *Decision {
	founding := v.intent != nil && v.intent.State == cluster.IntentFounding && v.intent.Source.FromData()
	if !v.obs.Store.Read {
		if founding {
			return v.finishGeneration()
		}
		if halt := v.intent.Halted(); halt != nil {
			return v.whileHalted(halt)
		}
		return nil
	}
	if halt := v.intent.Halted(); halt != nil {
		return v.whileHalted(halt)
	}
	if d := v.endCommands(); d != nil {
		return d
	}
	c := v.nextCommand()
	if founding {
		return v.finishOrSupersede(c)
	}
	if d := v.reviveStopped(); d != nil {
		return d
	}
	if c == nil {
		return autoRecover(v)
	}
	if d := putCount(v); d != nil { // so that the next one is over a spec of which it is known who wrote it
		return d
	}
	if d := v.replaced(c); d != nil {
		return d
	}
	return v.beside(c, v.beginGeneration(c))
}

// finishOrSupersede finishes the generation that is being founded. Where that
// cannot be done, the next command in the queue is a person's way out: it makes
// a further generation, which supersedes this one.
func (v *view) finishOrSupersede(c *cluster.Command) *Decision {
	d := v.finishGeneration()
	if back := v.goBack(); c == nil && back != nil && d.Action == nil {
		return back
	}
	if c == nil || !v.stuck(d) || len(d.Blockers) == 0 && v.repeats(c) && v.foundingFor() < repeatPatience {
		return d
	}
	next := v.beginGeneration(c)
	if next.Action != nil || len(next.Blockers) == 0 {
		return next
	}
	v.asides = append(v.asides, next.Blockers...)
	return d
}

// repeatPatience is how long a founding that seems to go on is left alone when
// the next command asks for the very same: to begin it again would take its
// source away, which may lie ready on that founder alone.
const repeatPatience = 10 * time.Minute

// repeats: the command asks for what the generation that is being founded was
// made from, and names no more hosts as lost.
func (v *view) repeats(c *cluster.Command) bool {
	for i := range v.obs.Commands {
		if o := &v.obs.Commands[i]; o.Name == v.intent.CommandID {
			return v.saysAgain(c, o) && len(c.Lost) <= len(v.intent.Lost)
		}
	}
	return c.Kind == cluster.CommandRestore && c.Backup == v.intent.Source.Backup && len(c.Lost) <= len(v.intent.Lost)
}

// wayOut tells a person how to go on from a founding that has had its time.
func (v *view) wayOut() string {
	if !v.stalled() {
		return ""
	}
	return "; a further restore, recover or undo command makes a generation in its place"
}

// stuck: the generation needs something that does not come by itself; or it has
// had its time, whatever it seems to be doing.
func (v *view) stuck(d *Decision) bool {
	if len(d.Blockers) > 0 {
		switch d.Blockers[0].Code {
		case "promises", "founder-silent", "founder-forgot", "foreign-data", "generation-in-doubt", "recovering":
			return true
		}
	}
	return v.stalled() && (d.Action == nil || d.Action.Kind == ActHosts)
}

// replaced ends a command that a later one says again, with more hosts named
// as lost: a person answers a blocker that way.
func (v *view) replaced(c *cluster.Command) *Decision {
	for i := range v.obs.Commands {
		o := &v.obs.Commands[i]
		if v.saysAgain(o, c) && !o.At.Before(c.At) && len(o.Lost) > len(c.Lost) {
			return endCommand(c.Name, CommandRejected, fmt.Sprintf("command %s asks for the same and names more hosts as lost", o.Name))
		}
	}
	return nil
}

// saysAgain: o is a command that was not run, and asks for what c asks for.
func (v *view) saysAgain(o, c *cluster.Command) bool {
	return o.Name != c.Name && o.Malformed == "" && !v.wasRun(o.Name) &&
		o.Kind == c.Kind && o.Backup == c.Backup && o.Host == c.Host && o.Dir == c.Dir && o.Version == c.Version && sameCount(o, c)
}

// nextCommand is the first of the queue that asks for a generation and was
// not run yet.
func (v *view) nextCommand() *cluster.Command {
	for i := range v.obs.Commands {
		c := &v.obs.Commands[i]
		if c.Kind != cluster.CommandBackup && c.Unread == "" && !v.wasRun(c.Name) {
			return c
		}
	}
	return nil
}

func (v *view) wasRun(name string) bool { return v.obs.Ran(name) }

// endCommands takes a command that was run out of the queue, once its
// generation is founded, and every one whose end is on record already.
func (v *view) endCommands() *Decision {
	for i := range v.obs.Commands {
		c := &v.obs.Commands[i]
		end, ended := v.obs.EndOf(c.Name)
		switch {
		case ended:
			return endCommand(c.Name, CommandResult(end.Result), end.Reason)
		case c.Ended != "":
			return endCommand(c.Name, CommandResult(c.Ended), "that is on record already")
		case v.intent == nil || v.intent.State != cluster.IntentFounded || !v.wasRun(c.Name):
		case !v.intent.Ran(c.Name):
			return endCommand(c.Name, CommandFailed, "a generation was written down for it, which the backup store has lost and only hosts remember")
		case v.intent.CommandID != c.Name:
			return endCommand(c.Name, CommandDone, fmt.Sprintf("it was run in an earlier generation than %d, which is the present one", v.intent.Generation))
		default:
			return v.endServed(c)
		}
	}
	return nil
}

// endServed ends the command of the present generation. One that was queued
// again while it was being carried out, as a blocker asks for, ends with it: run
// once more, it would take back what clients have written since.
func (v *view) endServed(c *cluster.Command) *Decision {
	for i := range v.obs.Commands {
		if o := &v.obs.Commands[i]; v.saysAgain(o, c) {
			return endCommand(o.Name, CommandDone, fmt.Sprintf("command %s asked for the same, and generation %d serves", c.Name, v.intent.Generation))
		}
	}
	result := fmt.Sprintf("generation %d serves, made from %s%s", v.intent.Generation, sourceWords(v.intent.Source)+doubtWords(c), v.countWords(c))
	if v.intent.Quarantined {
		result += "; ordinary clients are let in once a majority of the members that the spec asks for is up"
	}
	return endCommand(c.Name, CommandDone, result)
}

func endCommand(name string, how CommandResult, why string) *Decision {
	return &Decision{
		Reason: fmt.Sprintf("command %s is %s: %s", name, how, why),
		Again:  soon,
		Action: &Action{Kind: ActCommand, End: &CommandEnd{Name: name, Result: how, Reason: why}},
	}
}

// beginGeneration takes a command up to the write of its intent. Nothing that
// runs is touched before that, but the member that a recovery reads.
func (v *view) beginGeneration(c *cluster.Command) *Decision {
	w := v.judgedWith(c)
	d := w.begin(c)
	v.asides = w.asides
	return d
}

func (v *view) begin(c *cluster.Command) *Decision {
	name := c.Name
	switch {
	case v.obs.Unlisted != "":
		return wait(true, "store-silent", "", "command %s waits: the queue in the backup store cannot be listed, so that nobody knows whether it is still wanted: %s", name, v.obs.Unlisted)
	case c.Malformed != "":
		return endCommand(name, CommandRejected, c.Malformed)
	case c.Kind == cluster.CommandRestore && c.Missing:
		return endCommand(name, CommandRejected, fmt.Sprintf("there is no backup %s in the store; list-backups shows those that are", c.Backup))
	case c.Kind == cluster.CommandRestore && c.Found == nil:
		return wait(true, "store-silent", "", "waiting for the backup store, to look at backup %s", c.Backup)
	}
	if d := v.needSpec(); d != nil {
		return d
	}
	if v.intent == nil {
		if d := v.carried(); d != nil {
			return d
		}
	}
	for _, look := range []func(*cluster.Command) *Decision{v.never, v.consentOver, v.unconditional, v.undoAsSeen, v.wrongCount, v.mayRecover, v.lostAndAlive, v.lostAndThere, v.promisersInSight, v.logsInSight} {
		if d := look(c); d != nil {
			return d
		}
	}
	h, d := v.stage(c)
	if d != nil {
		return d
	}
	if d := v.backupBefore(c); d != nil { // as late as can be: staging may take hours
		return d
	}
	return v.writeGeneration(c, h)
}

// nextGeneration is above the present one and above what any host promised.
func (v *view) nextGeneration() uint64 {
	next := uint64(1)
	if v.intent != nil {
		next = v.intent.Generation + 1
	}
	for i := range v.obs.Hosts {
		next = max(next, v.obs.Hosts[i].LowestGeneration)
		if in := v.obs.Hosts[i].Intent; in != nil && v.intent.Order(in) < 0 { // one that is not followed is not named twice
			next = max(next, in.Generation+1)
		}
	}
	return next
}

// writeGeneration is the one conditional write that makes the generation so.
func (v *view) writeGeneration(c *cluster.Command, h *cluster.HostReport) *Decision {
	s := h.Staged
	in := &cluster.Intent{
		Name: v.obs.Cluster, Generation: v.nextGeneration(), Token: s.Token, Version: s.Version, Source: s.Source, State: cluster.IntentFounding,
		Quarantined: v.spec.MemberCount > 1, Founders: asFounders([]*cluster.HostReport{h}), CommandID: c.Name, Lost: slices.Clone(c.Lost),
		CommandsRun: []string{c.Name}, Count: v.countFor(c),
	}
	if c.Kind == cluster.CommandRecover && h.Log != nil && v.intent != nil && h.Local.Cluster == v.intent.Cluster {
		in.Reached = *h.Log
	}
	change := &IntentChange{Create: in}
	if v.intent != nil {
		in.Halt = v.haltAfter(c)
		in.CommandsRun = append(slices.DeleteFunc(slices.Clone(v.intent.CommandsRun), func(n string) bool { return n == c.Name }), c.Name)
		in.Ended = slices.Clone(v.intent.Ended)
		in.History = slices.Concat(v.intent.History, v.forgotten(), []cluster.PastGeneration{v.past()})
		change = &IntentChange{Replace: in}
	}
	if v.queued(c.Name) {
		change.Command = c
	} else if c.Kind == cluster.CommandChange {
		change.Spec = v.obs.Spec
	}
	reason := fmt.Sprintf("%s lies ready on host %s: write down generation %d", commandWords(c), h.Host, in.Generation)
	if c.Kind == cluster.CommandChange { // so that it is known for sure that no client has seen anything of it, if it has to be given up
		in.Quarantined = true
	} else if !s.Version.Has(cluster.V3API) {
		reason += "; etcd 2 has no tool that raises indexes, so they go back"
	} else if s.Source.Wrote.Compare(cluster.Version{}) > 0 && s.Source.Tool == "" {
		reason += "; no tool at hand can raise the revisions, so they go back"
	}
	return &Decision{Reason: reason, Again: soon, Action: &Action{Kind: ActIntent, Intent: change, Command: v.generationCommand(c)}}
}

// unconditional keeps a generation from being made through a store in which two leaders
// could each make one, unless the spec names the hosts and a majority of them follows this
// leader, or is given up (SAFETY.md, rule 19).
func (v *view) unconditional(c *cluster.Command) *Decision {
	if v.obs.Store.Conditional {
		return nil
	}
	n := 0
	for _, id := range v.spec.Hosts {
		h, ok := v.obs.Host(id)
		if ok && h.UnderFence || slices.Contains(c.Lost, id) {
			n++
		}
	}
	if len(v.spec.Hosts) > 0 && n >= cluster.Quorum(len(v.spec.Hosts)) {
		return nil
	}
	return wait(true, "store-unconditional", "", "command %s waits: the backup store has no conditional writes, so that two leaders could both run it; name the hosts in the daemons' static configuration and start a majority of them", c.Name)
}

// outrun stops a recovery, once all have promised, where a host in sight holds a log of the
// same cluster that goes further than the survivor's: it came back after the recovery was
// written down, and what it has would be lost.
func (v *view) outrun() *Decision {
	in := v.intent
	if in.Source.Kind != cluster.SourceSurvivor || in.Reached == (cluster.Progress{}) {
		return nil
	}
	from := in.Superseded()
	for i := range v.obs.Hosts {
		o := &v.obs.Hosts[i]
		switch {
		case from == 0 || o.Local.Cluster != from || o.Local.State != cluster.MemberStarted || !o.Local.HasData:
			continue
		case o.Log == nil && (o.Reading != nil || v.watchedFor() < foundingStalled): // a leader that has just begun has asked nobody for it yet
			return wait(true, "recovering", "", "reading the end of the log of host %s, which may go further than the survivor's", o.Host)
		case o.Log == nil || !in.Reached.Before(*o.Log):
			continue
		}
		c := cluster.Command{Kind: cluster.CommandRecover, Host: o.Host, Lost: in.Lost}
		c.Lost = slices.DeleteFunc(slices.Clone(c.Lost), func(id cluster.HostID) bool { _, there := v.obs.Host(id); return there })
		return wait(true, "recovering", v.generationCommand(&c), "generation %d is not begun: host %s came back with a log that goes further than the survivor's (term %d, index %d against term %d, index %d), and acknowledged writes would be lost. Recover from that host instead", in.Generation, o.Host, o.Log.Term, o.Log.Index, in.Reached.Term, in.Reached.Index)
	}
	return nil
}

// watchedFor is how long this leader has watched the founding.
func (v *view) watchedFor() time.Duration {
	f := v.obs.Memory.Founding
	if f.Generation != v.intent.Generation || f.Seen.IsZero() {
		return 0
	}
	return v.obs.At.Sub(f.Seen)
}

// past is the present generation as an entry of the history: open, until
// enough of its voters have promised to refuse it. The predecessor's, which
// names no voters, is closed by the command itself. Voters that somebody made by
// hand and that are not written down yet count as well.
func (v *view) past() cluster.PastGeneration {
	in := v.intent.Clone()
	g := cluster.PastGeneration{Generation: in.Generation, Cluster: in.Cluster, Write: in.Write, Closed: in.Generation == 0}
	if len(in.Voters) == 0 {
		in.Voters = founderVoters(in)
	}
	g.Voters = in.VoterSets()
	if v.seen && v.roster.Cluster == in.Cluster && in.Cluster != 0 {
		now := v.votersNow()
		if len(now) > 0 && !slices.ContainsFunc(g.Voters, func(set []cluster.Voter) bool { return cluster.SameVoters(set, now) }) {
			g.Voters = append(g.Voters, now)
		}
	}
	return g
}

// finishGeneration brings a generation whose intent is written to service.
func (v *view) finishGeneration() *Decision {
	in := v.intent
	if d := v.inDoubt(); d != nil {
		return d
	}
	if v.seen && v.roster.Linearizable && v.roster.HasQuorum() {
		return v.writeFounded()
	}
	if d := v.collectPromises(); d != nil {
		return d
	}
	if d := v.outrun(); d != nil {
		return d
	}
	f := in.Founders[0]
	h, ok := v.obs.Host(f.Host)
	switch {
	case !ok && v.answersSoon(f.Host):
		return &Decision{Reason: fmt.Sprintf("generation %d begins on host %s, which is busy", in.Generation, f.Host), Again: soon}
	case !ok || !h.UnderFence:
		return wait(true, "founder-silent", "", "generation %d is founded by host %s%s, which is not in sight or has not promised this leader's fence; if it is gone, queue the command again with --lost %s", in.Generation, f.Host, v.busyWith(f.Host), f.Host)
	case h.LowestGeneration > in.Generation:
		return wait(true, "founding", "", "generation %d cannot begin on host %s: it refuses generations below %d%s", in.Generation, h.Host, h.LowestGeneration, v.wayOut())
	case h.Carries() && h.Local.Generation < in.Generation:
		if !v.superseded(h) {
			return wait(true, "foreign-data", "", "host %s holds the data of member %s of cluster %s, which is not among the generations that were closed; move it away so that generation %d can begin there", h.Host, h.Local.Member, h.Local.Cluster, in.Generation)
		}
		return v.setAsideOp(h, "superseded", fmt.Sprintf("host %s carries a member of generation %d, which generation %d supersedes", h.Host, h.Local.Generation, in.Generation))
	case h.Carries():
		if d := v.laterLine(h); d != nil {
			return d
		}
		return wait(true, "founding", "", "waiting for the first member of generation %d to serve on host %s: its process is %s%s", in.Generation, h.Host, processWords(h.Process), v.wayOut())
	case h.Disk != f.Disk || h.Staged == nil || h.Staged.Token != in.Token || h.Staged.State != cluster.StageReady:
		return v.beginAgain(h)
	}
	if why := v.cannotFound(f, h); why != "" {
		return wait(true, "founding", "", "generation %d cannot begin on host %s: it %s%s", in.Generation, h.Host, why, v.wayOut())
	}
	src := in.Source
	return &Decision{
		Reason: fmt.Sprintf("begin generation %d on host %s from %s", in.Generation, h.Host, sourceWords(src)), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &cluster.Projection{Voters: 1, VotersAfter: 1, UpAfter: 1}, Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStart, Host: f.Host, Founding: true, Generation: in.Generation, Nonce: in.Nonce, Token: in.Token, Cluster: in.Cluster,
			Member: f.Member, Members: founderMembers(in), Version: in.Version, Quarantined: in.Quarantined, Source: &src,
		})}},
	}
}
