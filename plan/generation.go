package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

const (
	// revisionMargin is what a generation's revision target is above the
	// highest that clients may have seen (SAFETY.md, rule 16).
	revisionMargin = 1_000_000_000
	// stagedFor is how long a staged source may be used. What clients may have
	// seen since it was built has to stay within the margin.
	stagedFor = time.Hour
	// backupTry is how long a new generation waits for the backup of the
	// running cluster before it.
	backupTry = 2 * time.Minute
)

// generation makes a new generation from data when a command asks for one,
// and finishes one that somebody began (docs/adr/009-generations.md).
func generation(v *view) *Decision {
	if !v.obs.Store.Read {
		if v.intent != nil && v.intent.State == cluster.IntentFounding && v.intent.Source.FromData() {
			return v.finishGeneration()
		}
		return nil
	}
	if d := v.endCommands(); d != nil {
		return d
	}
	if v.intent != nil && v.intent.State == cluster.IntentFounding && v.intent.Source.FromData() {
		d := v.finishGeneration()
		if len(d.Blockers) > 0 && d.Blockers[0].Code == "promises" {
			if c := v.nextCommand(); c != nil { // it names hosts that are lost, perhaps
				return v.beginGeneration(c)
			}
		}
		return d
	}
	c := v.nextCommand()
	if c == nil {
		return autoRecover(v)
	}
	if d := v.replaced(c); d != nil {
		return d
	}
	d := v.beginGeneration(c)
	if v.intent != nil && d.Action == nil && len(d.Blockers) > 0 {
		// Nothing was touched for it yet, and the cluster that is goes on being
		// looked after. Without any cluster, none is founded beside it.
		v.asides = append(v.asides, d.Blockers...)
		return nil
	}
	return d
}

// replaced ends a command that a later one says again, with more hosts named
// as lost: a person answers a blocker that way.
func (v *view) replaced(c *cluster.Command) *Decision {
	for i := range v.obs.Commands {
		o := &v.obs.Commands[i]
		again := o.Name != c.Name && !o.At.Before(c.At) && o.Kind == c.Kind && o.Backup == c.Backup && o.Host == c.Host && o.Dir == c.Dir
		if again && o.Malformed == "" && len(o.Lost) > len(c.Lost) && !v.wasRun(o.Name) {
			return endCommand(c.Name, CommandRejected, fmt.Sprintf("command %s asks for the same and names more hosts as lost", o.Name))
		}
	}
	return nil
}

// nextCommand is the first of the queue that asks for a generation and was
// not run yet.
func (v *view) nextCommand() *cluster.Command {
	for i := range v.obs.Commands {
		c := &v.obs.Commands[i]
		if c.Kind != cluster.CommandBackup && !v.wasRun(c.Name) {
			return c
		}
	}
	return nil
}

func (v *view) wasRun(name string) bool {
	return v.intent != nil && slices.Contains(v.intent.CommandsRun, name)
}

// endCommands takes a command that was run out of the queue, once its
// generation is founded.
func (v *view) endCommands() *Decision {
	if v.intent == nil || v.intent.State != cluster.IntentFounded {
		return nil
	}
	for _, c := range v.obs.Commands {
		if !v.wasRun(c.Name) {
			continue
		}
		result := fmt.Sprintf("it was run in an earlier generation than %d, which is the present one", v.intent.Generation)
		if v.intent.CommandID == c.Name {
			result = fmt.Sprintf("generation %d serves, made from %s", v.intent.Generation, sourceWords(v.intent.Source))
		}
		return endCommand(c.Name, CommandDone, result)
	}
	return nil
}

func endCommand(name string, how CommandResult, why string) *Decision {
	return &Decision{
		Reason: fmt.Sprintf("command %s is %s: %s", name, how, why),
		Again:  soon,
		Action: &Action{Kind: ActCommand, End: &CommandEnd{Name: name, Result: how, Reason: why}},
	}
}

func sourceWords(s cluster.Source) string {
	switch s.Kind {
	case cluster.SourceBackup:
		return "backup " + s.Backup
	case cluster.SourceSurvivor:
		return "the data of a survivor"
	case cluster.SourceSetAside:
		return "the data that was set aside as " + s.Dir
	}
	return s.Kind
}

// beginGeneration takes a command up to the write of its intent. Nothing that
// runs is touched before that.
func (v *view) beginGeneration(c *cluster.Command) *Decision {
	name := c.Name
	switch {
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
	if d := v.mayRecover(c); d != nil {
		return d
	}
	if d := v.promisersInSight(c); d != nil {
		return d
	}
	if d := v.backupBefore(c); d != nil {
		return d
	}
	h, d := v.stage(c)
	if d != nil {
		return d
	}
	return v.writeGeneration(c, h)
}

// mayRecover refuses a recovery where it is not called for: while a quorum
// serves, or from a member that is not the furthest in raft's order.
func (v *view) mayRecover(c *cluster.Command) *Decision {
	if c.Kind != cluster.CommandRecover {
		return nil
	}
	if v.seen && v.roster.HasQuorum() {
		return v.reviveAfter(c, endCommand(c.Name, CommandRejected, "the cluster has a quorum, and nothing has to be recovered: a member that is lost is replaced by itself"))
	}
	h, ok := v.obs.Host(c.Host)
	switch {
	case !ok:
		return wait(true, "recovering", "", "waiting for host %s, from whose data the cluster is to be recovered", c.Host)
	case v.stagedHere(h, c) != nil:
		return nil // it was judged before, and stopped since
	case !h.Local.HasData || h.Local.State != cluster.MemberStarted:
		return endCommand(c.Name, CommandRejected, fmt.Sprintf("host %s holds no data of a member that could be recovered from", c.Host))
	case h.Log == nil:
		return wait(true, "recovering", "", "reading the end of the log of host %s", c.Host)
	}
	for i := range v.obs.Hosts {
		o := &v.obs.Hosts[i]
		if o.Host != h.Host && o.Log != nil && o.Local.Generation == h.Local.Generation && o.Local.Cluster == h.Local.Cluster && h.Log.Before(*o.Log) {
			return endCommand(c.Name, CommandRejected, fmt.Sprintf("host %s is further than %s (term %d, index %d against term %d, index %d), and recovering from %s would lose what it has: etcdadm recover --from %s",
				o.Host, h.Host, o.Log.Term, o.Log.Index, h.Log.Term, h.Log.Index, h.Host, o.Host))
		}
	}
	return nil
}

// backupBefore has the running cluster backed up before it is replaced, if
// that can be done.
func (v *view) backupBefore(c *cluster.Command) *Decision {
	if c.NoBackup || c.Kind == cluster.CommandRecover || !v.seen || !v.roster.Linearizable || !v.roster.HasQuorum() {
		return nil
	}
	t := v.lastTaken(c.Name)
	switch {
	case t == nil:
		return v.takeBackup(c.Name, backupBeforeRestore)
	case t.Running && v.obs.At.Sub(t.Began) < backupTry:
		return &Decision{Reason: "the running cluster is backed up before it is replaced", Again: soon}
	case t.Error != "":
		v.aside("backup-failed", "", "the backup of the running cluster before it is replaced failed, and the command goes on: %s", t.Error)
	}
	return nil
}

// stage has a host make the source ready, and gives the host once it is.
func (v *view) stage(c *cluster.Command) (*cluster.HostReport, *Decision) {
	var failed, unfit []string
	var free []*cluster.HostReport
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if c.Kind != cluster.CommandRestore && h.Host != c.Host {
			continue
		}
		run, why := v.generationVersion(c, v.wrote(c, h), h)
		s := v.stagedHere(h, c)
		switch {
		case s != nil && s.State == cluster.StageReady && why == "" && s.Version == run && v.obs.At.Sub(s.Since) < stagedFor:
			return h, nil
		case s != nil && s.State == cluster.StageFailed && s.Hopeless:
			return nil, endCommand(c.Name, CommandRejected, s.Reason)
		case s != nil && s.State == cluster.StageFailed:
			failed = append(failed, fmt.Sprintf("%s: %s", h.Host, s.Reason))
		case s != nil && (s.State == cluster.StageFetching || s.State == cluster.StageBuilding):
			return nil, &Decision{Reason: fmt.Sprintf("host %s makes %s ready: %s, %d bytes so far", h.Host, commandWords(c), s.State, s.Bytes), Again: soon}
		case why == "":
			why = v.cannotStage(c, h)
			fallthrough
		default:
			if why != "" {
				unfit = append(unfit, fmt.Sprintf("%s %s", h.Host, why))
				continue
			}
			free = append(free, h)
		}
	}
	switch {
	case len(free) > 0 && len(failed) < 2:
		return nil, v.stageOn(c, free[0])
	case len(failed) > 0:
		d := endCommand(c.Name, CommandRejected, "it could not be made ready"+because(failed))
		return nil, v.reviveAfter(c, d)
	}
	return nil, wait(true, "no-founder", "", "no host in sight can begin the new generation%s", because(unfit))
}

// reviveAfter restarts a survivor that was stopped for a recovery which is
// given up, before the command is ended.
func (v *view) reviveAfter(c *cluster.Command, d *Decision) *Decision {
	h, ok := v.obs.Host(c.Host)
	if c.Kind != cluster.CommandRecover || !ok || !h.UnderFence || h.Local.Run || h.Local.State != cluster.MemberStarted {
		return d
	}
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("the recovery from %s is given up: start its member again", h.Host), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(h, cluster.Guard{}, v.restart(h, "the recovery was given up"))}},
	}
}

func commandWords(c *cluster.Command) string {
	switch c.Kind {
	case cluster.CommandRecover:
		return "the data of host " + string(c.Host)
	case cluster.CommandUndo:
		return "what host " + string(c.Host) + " set aside as " + c.Dir
	}
	return "backup " + c.Backup
}

// stagedHere is the host's stage for this command, of this generation to be:
// a token that an intent ever named is used up.
func (v *view) stagedHere(h *cluster.HostReport, c *cluster.Command) *cluster.Staged {
	s := h.Staged
	if s == nil || s.Command != c.Name || v.intent != nil && (v.intent.Token == s.Token || v.intent.ClosedCluster(s.Cluster)) {
		return nil
	}
	return s
}

// cannotStage says why a host is not asked; empty: it is.
func (v *view) cannotStage(c *cluster.Command, h *cluster.HostReport) string {
	switch {
	case !h.UnderFence:
		return "has not promised this leader's fence"
	case v.spec != nil && len(v.spec.Hosts) > 0 && !slices.Contains(v.spec.Hosts, h.Host):
		return "is not among the hosts that the spec names"
	case len(h.Foreign) > 0:
		return "holds data that nothing accounts for: " + h.Foreign[0].Dir
	case len(h.URLs.Peer) == 0:
		return "has no peer URL"
	case h.Floor() > v.nextGeneration():
		return fmt.Sprintf("refuses generation %d", v.nextGeneration())
	case h.Process.State == cluster.ProcessForeign:
		return "has a process in the way that is not known to be ours"
	}
	if need := v.roomFor(c, h); h.Room > 0 && need > h.Room {
		return fmt.Sprintf("has %d MiB free and needs about %d MiB", h.Room>>20, need>>20)
	}
	return ""
}

// roomFor is about what staging needs: the snapshot and the directory built
// from it.
func (v *view) roomFor(c *cluster.Command, h *cluster.HostReport) int64 {
	if c.Found != nil && c.Found.Bytes > 0 {
		return 2*c.Found.Bytes + 64<<20
	}
	if h.Status != nil && c.Kind != cluster.CommandRestore {
		return 3*h.Status.DBSize + 64<<20
	}
	return 0
}

// wrote is the release that wrote the data.
func (v *view) wrote(c *cluster.Command, h *cluster.HostReport) cluster.Version {
	if c.Kind == cluster.CommandRestore {
		return c.Found.Version
	}
	if !h.Local.Version.IsZero() {
		return h.Local.Version
	}
	if v.intent != nil {
		return v.intent.Version
	}
	return cluster.Version{}
}

// generationVersion is the release that a host would run the new generation
// with: the one that was asked for, when it can read the data (the same minor
// or the next), else the newest of the data's own minor.
func (v *view) generationVersion(c *cluster.Command, wrote cluster.Version, h *cluster.HostReport) (cluster.Version, string) {
	want := c.Version
	if want.IsZero() && v.spec != nil {
		want = v.spec.EtcdVersion
	}
	reads := wrote.IsZero() || want.SameMinor(wrote) || want.Major == wrote.Major && want.Minor == wrote.Minor+1
	switch {
	case reads && h.CanRun(want):
		return want, ""
	case reads && !c.Version.IsZero():
		return want, fmt.Sprintf("has no etcd %s, only %s", want, versions(h.Releases))
	case !c.Version.IsZero():
		return want, fmt.Sprintf("cannot restore data of etcd %s with etcd %s: etcd reads data of its own minor release and of the one before", wrote, want)
	}
	var best cluster.Version
	for _, r := range h.Releases {
		if r.SameMinor(wrote) && r.Compare(best) > 0 {
			best = r
		}
	}
	if best.IsZero() {
		return best, fmt.Sprintf("has no etcd that reads data of %s (it has %s)", wrote, versions(h.Releases))
	}
	return best, ""
}

func (v *view) stageOn(c *cluster.Command, h *cluster.HostReport) *Decision {
	command := v.generationCommand(c)
	if c.Kind == cluster.CommandRecover && (h.Local.Run || h.Process.State != cluster.ProcessStopped) {
		p := v.projection(0, 0) // without a quorum it is not up
		return &Decision{
			Reason: fmt.Sprintf("recover from host %s: stop its member, which has no quorum, to read its log to the end", h.Host), Again: soon,
			Action: &Action{Kind: ActHosts, Projection: &p, Command: command, Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
				Kind: cluster.OpStop, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster, Reason: "the cluster is recovered from its data",
			})}},
		}
	}
	run, _ := v.generationVersion(c, v.wrote(c, h), h)
	src := cluster.Source{Kind: cluster.SourceBackup, Backup: c.Backup, Dir: c.Dir, Wrote: v.wrote(c, h), RevisionTarget: v.revisionTarget(c)}
	switch c.Kind {
	case cluster.CommandRecover:
		src.Kind = cluster.SourceSurvivor
	case cluster.CommandUndo:
		src.Kind = cluster.SourceSetAside
	default:
		src.SHA256, src.Revision = c.Found.SHA256, c.Found.Revision
	}
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("%s is to be the new generation %d: host %s makes it ready beside what runs", commandWords(c), v.nextGeneration(), h.Host), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: command, Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStage, Host: h.Host, Command: c.Name, Generation: v.nextGeneration(), Version: run, Source: &src,
		})}},
	}
}

// generationCommand is what a person would have typed.
func (v *view) generationCommand(c *cluster.Command) string {
	b := "etcdadm restore " + c.Backup
	switch c.Kind {
	case cluster.CommandRecover:
		b = "etcdadm recover --from " + string(c.Host)
	case cluster.CommandUndo:
		b = fmt.Sprintf("etcdadm restore --undo --from %s --dir %s", c.Host, c.Dir)
	}
	for _, l := range c.Lost {
		b += " --lost " + string(l)
	}
	return b
}

// revisionTarget is above everything that clients may have seen: of whatever
// anybody recorded, and of the last target.
func (v *view) revisionTarget(c *cluster.Command) int64 {
	top := v.obs.Recorded.Revision
	if v.intent != nil {
		top = max(top, v.intent.Source.RevisionTarget)
	}
	if c.Found != nil {
		top = max(top, c.Found.Revision)
	}
	for _, b := range v.obs.Backups.Newest {
		top = max(top, b.Revision)
	}
	for i := range v.obs.Hosts {
		top = max(top, v.obs.Hosts[i].Highest.Revision)
		if s := v.obs.Hosts[i].Status; s != nil {
			top = max(top, s.Revision)
		}
	}
	return top + revisionMargin
}

// nextGeneration is above the present one and above what any host promised.
func (v *view) nextGeneration() uint64 {
	next := uint64(1)
	if v.intent != nil {
		next = v.intent.Generation + 1
	}
	for i := range v.obs.Hosts {
		next = max(next, v.obs.Hosts[i].LowestGeneration)
	}
	return next
}

// writeGeneration is the one conditional write that makes the generation so.
func (v *view) writeGeneration(c *cluster.Command, h *cluster.HostReport) *Decision {
	s := h.Staged
	in := &cluster.Intent{
		Name: v.obs.Cluster, Generation: v.nextGeneration(), Token: s.Token, Version: s.Version, Source: s.Source, State: cluster.IntentFounding,
		Quarantined: v.spec.MemberCount > 1, Founders: asFounders([]*cluster.HostReport{h}), CommandID: c.Name, Lost: slices.Clone(c.Lost),
		CommandsRun: []string{c.Name},
	}
	change := &IntentChange{Create: in}
	if v.intent != nil {
		in.CommandsRun = append(slices.DeleteFunc(slices.Clone(v.intent.CommandsRun), func(n string) bool { return n == c.Name }), c.Name)
		in.History = append(slices.Clone(v.intent.History), v.past())
		change = &IntentChange{Replace: in}
	}
	reason := fmt.Sprintf("%s lies ready on host %s: write down generation %d", commandWords(c), h.Host, in.Generation)
	if s.Source.Wrote.Compare(cluster.Version{}) > 0 && s.Source.Tool == "" {
		reason += "; no tool at hand can raise the revisions, so they go back"
	}
	return &Decision{Reason: reason, Again: soon, Action: &Action{Kind: ActIntent, Intent: change, Command: v.generationCommand(c)}}
}

// past is the present generation as an entry of the history: open, until
// enough of its voters have promised to refuse it. The predecessor's, which
// names no voters, is closed by the command itself.
func (v *view) past() cluster.PastGeneration {
	in := v.intent
	g := cluster.PastGeneration{Generation: in.Generation, Cluster: in.Cluster, Closed: in.Generation == 0}
	if in = in.Clone(); len(in.Voters) == 0 {
		in.Voters = founderVoters(in)
	}
	g.Voters = in.VoterSets()
	return g
}

// finishGeneration brings a generation whose intent is written to service.
func (v *view) finishGeneration() *Decision {
	in := v.intent
	if v.seen && v.roster.Linearizable && v.roster.HasQuorum() {
		return v.writeFounded()
	}
	if d := v.collectPromises(); d != nil {
		return d
	}
	f := in.Founders[0]
	h, ok := v.obs.Host(f.Host)
	switch {
	case !ok && v.busy(f.Host):
		return &Decision{Reason: fmt.Sprintf("generation %d begins on host %s, which is busy", in.Generation, f.Host), Again: soon}
	case !ok || !h.UnderFence:
		return wait(true, "founder-silent", "", "generation %d is founded by host %s, which is not in sight or has not promised this leader's fence; if it is gone, queue the command again with --lost %s", in.Generation, f.Host, f.Host)
	case h.Carries() && h.Local.Generation < in.Generation:
		if !v.superseded(h) {
			return wait(true, "foreign-data", "", "host %s holds the data of member %s of cluster %s, which is not among the generations that were closed; move it away so that generation %d can begin there", h.Host, h.Local.Member, h.Local.Cluster, in.Generation)
		}
		return v.setAsideOp(h, "superseded", fmt.Sprintf("host %s carries a member of generation %d, which generation %d supersedes", h.Host, h.Local.Generation, in.Generation))
	case h.Carries():
		d := wait(true, "founding", "", "waiting for the first member of generation %d to serve on host %s: its process is %s", in.Generation, h.Host, processWords(h.Process))
		return d
	case h.Disk != f.Disk || h.Staged == nil || h.Staged.Token != in.Token || h.Staged.State != cluster.StageReady:
		return v.beginAgain(h)
	}
	if why := v.cannotFound(f, h); why != "" {
		return wait(true, "founding", "", "generation %d cannot begin on host %s: it %s", in.Generation, h.Host, why)
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

// beginAgain makes a further generation of the same command, because what was
// staged for this one is gone with its disk.
func (v *view) beginAgain(h *cluster.HostReport) *Decision {
	for i := range v.obs.Commands {
		if c := &v.obs.Commands[i]; c.Name == v.intent.CommandID {
			return v.beginGeneration(c)
		}
	}
	return wait(true, "founder-forgot", "", "host %s does not have what generation %d was to be made from any more, and its command is not in the queue; queue it again%s",
		h.Host, v.intent.Generation, because([]string{strings.TrimSpace(sourceWords(v.intent.Source))}))
}
