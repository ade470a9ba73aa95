package plan

import (
	"cmp"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// stage has a host make the source ready, and gives the host once it is.
func (v *view) stage(c *cluster.Command) (*cluster.HostReport, *Decision) {
	var failed, unfit []string
	var free, engaged []*cluster.HostReport
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if c.Kind != cluster.CommandRestore && h.Host != c.Host {
			continue
		}
		run, why := v.generationVersion(c, v.wrote(c, h), h)
		room := v.lacksRoom(c, h, run)
		if why == "" {
			why = v.cannotBegin(h)
		}
		s := v.stagedHere(h, c)
		if s != nil && s.State == cluster.StageFailed && s.Needs > 0 && h.Room > 0 { // the host knows the data
			room = cmp.Or(room, stillLacks(h, s.Needs))
			s = nil
		}
		switch {
		case s != nil && s.State == cluster.StageReady && why == "" && s.Version == run && v.fresh(h, s):
			return h, v.tooFewRun(run)
		case s != nil && s.State == cluster.StageFailed && s.Hopeless:
			return nil, v.giveUp(c, s.Reason)
		case s != nil && s.State == cluster.StageFailed:
			failed = append(failed, fmt.Sprintf("%s: %s", h.Host, s.Reason))
		case underWay(s):
			return nil, &Decision{Reason: fmt.Sprintf("host %s makes %s ready: %s, %d bytes so far", h.Host, commandWords(c), s.State, s.Bytes), Again: soon}
		case cmp.Or(why, lacksKey(c, h), room) != "":
			unfit = append(unfit, fmt.Sprintf("%s %s", h.Host, cmp.Or(why, lacksKey(c, h), room)))
		case s == nil && underWay(h.Staged):
			engaged = append(engaged, h)
		default:
			free = append(free, h)
		}
	}
	free = append(free, engaged...) // what they are at, nobody asks for any more
	switch {
	case len(free) > 0 && len(failed) < 2:
		if len(free) > 1 && v.isFounder(free[0]) { // what lies ready there is kept as long as it can be
			free = free[1:]
		}
		run, _ := v.generationVersion(c, v.wrote(c, free[0]), free[0])
		if d := v.tooFewRun(run); d != nil {
			return nil, d
		}
		return nil, v.stageOn(c, free[0], run)
	case len(failed) > 0:
		return nil, v.giveUp(c, "it could not be made ready"+because(failed))
	}
	return nil, wait(true, "no-founder", "", "no host in sight can begin the new generation%s", because(unfit))
}

// fresh: what lies ready is for where the host listens, its revision target is
// above that of the present generation, which may have begun since it was chosen,
// and it is not so old that the margin could be used up. The host's own clock
// tells, since the leader's may be another; one that went back since tells nothing.
func (v *view) fresh(h *cluster.HostReport, s *cluster.Staged) bool {
	if v.intent != nil && s.Source.RevisionTarget < v.intent.Source.RevisionTarget+cluster.RevisionMargin {
		return false
	}
	now := h.Clock
	if now.IsZero() {
		now = v.obs.At
	}
	return !h.WentBack(s.Since) && now.Sub(s.Since) < stagedFor && slices.Equal(sorted(s.PeerURLs), sorted(h.URLs.Peer))
}

// tooFewRun blocks a generation whose release so few of the hosts in sight have
// that its quarantine could not be lifted. Nothing that runs is stopped for that.
func (v *view) tooFewRun(run cluster.Version) *Decision {
	able, without := 0, []string(nil)
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		switch {
		case len(v.spec.Hosts) > 0 && !slices.Contains(v.spec.Hosts, h.Host):
		case h.CanRun(run) || v.spec.EtcdVersion.SameMinor(run) && h.CanRun(v.spec.EtcdVersion):
			able++
		default:
			without = append(without, fmt.Sprintf("%s has %s", h.Host, versions(h.Releases)))
		}
	}
	command, elsewise := download(run)
	switch {
	case len(without) == 0 || able >= v.spec.MemberCount:
	case able >= cluster.Quorum(v.spec.MemberCount):
		v.aside("no-release", command, "the new generation runs etcd %s, and not every host in sight has it%s; %s", run, because(without), elsewise)
	default:
		return wait(true, "no-release", command, "the new generation would run etcd %s, and %s it, of %d that are needed to serve clients%s; %s", run, have(able), cluster.Quorum(v.spec.MemberCount), because(without), elsewise)
	}
	return nil
}

func have(hosts int) string {
	if hosts == 1 {
		return "1 host has"
	}
	return fmt.Sprintf("%d hosts have", hosts)
}

// underWay: the host is making something ready now.
func underWay(s *cluster.Staged) bool {
	return s != nil && (s.State == cluster.StageFetching || s.State == cluster.StageBuilding)
}

// stagedHere is the host's stage for this command, of this generation to be: a
// token that an intent ever named is used up, and what a survivor's log held
// says nothing once its member is to run again.
func (v *view) stagedHere(h *cluster.HostReport, c *cluster.Command) *cluster.Staged {
	s := h.Staged
	switch {
	case s == nil || !asAsked(s, c) || s.Command != c.Name && !saidAgain(s, c):
		return nil
	case v.intent != nil && v.supersededCluster(s.Cluster), v.obs.Named(s.Token):
		return nil
	case c.Kind == cluster.CommandRecover && (h.Local.Run || h.Process.State != cluster.ProcessStopped):
		return nil
	case c.Kind == cluster.CommandRestore && s.State == cluster.StageFailed && s.Source.Accept != v.accepts(c):
		return nil // it may have failed for want of what is accepted now
	}
	return s
}

// saidAgain: what lies ready is the backup that the command asks for, byte for byte,
// though it was made ready for another one: an expired command is queued again.
func saidAgain(s *cluster.Staged, c *cluster.Command) bool {
	return c.Kind == cluster.CommandRestore && s.State == cluster.StageReady && s.Source.SHA256 != "" && c.Found != nil && s.Source.SHA256 == c.Found.SHA256
}

// accepts is which list of losses a restore key by key takes: the one that a person
// accepted. Once its generation is written down every member is stopped for it, and any
// is taken: the list moves with the keys that expire, and nothing could be done but
// accept the new one.
func (v *view) accepts(c *cluster.Command) string {
	switch {
	case v.intent != nil && v.intent.State == cluster.IntentFounding && v.intent.CommandID == c.Name:
		return cluster.AcceptAny
	case c.AcceptLoss == cluster.AcceptAny: // nobody but the planner says that
		return ""
	}
	return c.AcceptLoss
}

// asAsked: what was staged is what the command asks for. Its name alone does not
// tell: it can be deleted, and another one put under the same name by whoever
// writes into the queue; and a backup can be copied over one of its name.
func asAsked(s *cluster.Staged, c *cluster.Command) bool {
	if !c.Version.IsZero() && s.Version != c.Version {
		return false
	}
	switch c.Kind {
	case cluster.CommandRecover:
		return s.Source.Kind == cluster.SourceSurvivor
	case cluster.CommandUndo:
		return s.Source.Kind == cluster.SourceSetAside && s.Source.Dir == c.Dir
	case cluster.CommandChange:
		return s.Source.Kind == cluster.SourceHalted
	}
	known := c.Found != nil && c.Found.SHA256 != "" && s.Source.SHA256 != ""
	return s.Source.Kind == cluster.SourceBackup && s.Source.Backup == c.Backup && (!known || s.Source.SHA256 == c.Found.SHA256)
}

// cannotBegin says why a host cannot be the founder; empty: it can. What would
// keep it from being started later is looked at before anything is stopped.
func (v *view) cannotBegin(h *cluster.HostReport) string {
	switch p := problem(h); {
	case !h.UnderFence:
		return "has not promised this leader's fence"
	case v.spec != nil && len(v.spec.Hosts) > 0 && !slices.Contains(v.spec.Hosts, h.Host):
		return "is not among the hosts that the spec names"
	case p != "":
		return p
	case len(h.Foreign) > 0:
		return holdsForeign(h)
	case len(h.URLs.Peer) == 0:
		return "has no peer URL"
	case h.Floor() > v.nextGeneration():
		return fmt.Sprintf("refuses generation %d", v.nextGeneration())
	case h.Process.State == cluster.ProcessForeign:
		return "has a process in the way that is not known to be ours"
	}
	return ""
}

// lacksKey says that a host cannot read an encrypted backup; empty: it can.
func lacksKey(c *cluster.Command, h *cluster.HostReport) string {
	if c.Found != nil && c.Found.Encrypted && !h.Decrypts {
		return "has no secret key for the encrypted backup (--backup-identity-file of its daemon names it)"
	}
	return ""
}

// restoringTool is the release whose tool a host restores with: the one that
// wrote the data, else the newest of its minor, else the one that is to run it.
func restoringTool(h *cluster.HostReport, wrote, run cluster.Version) cluster.Version {
	best := run
	for _, r := range h.Releases {
		switch {
		case r == wrote:
			return r
		case r.SameMinor(wrote) && (!best.SameMinor(wrote) || r.Compare(best) > 0):
			best = r
		}
	}
	return best
}

// onExcerpt: the tool works on an excerpt, and the snapshot is used up. Source:
// ADR 013; of the tools before 3.5 and after 3.7 that is not so.
func onExcerpt(tool cluster.Version) bool {
	return tool.Major == 3 && tool.Minor >= 5 && tool.Minor <= 7
}

// wrote is the release that wrote the data.
func (v *view) wrote(c *cluster.Command, h *cluster.HostReport) cluster.Version {
	switch c.Kind {
	case cluster.CommandRestore:
		return c.Found.Version
	case cluster.CommandUndo: // what runs now may be another one
		for _, a := range h.SetAside {
			if a.Name() == c.Dir && !a.Version.IsZero() {
				return a.Version
			}
		}
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
	keys := byKeys(c, wrote)
	reads := readsData(want, wrote) || c.Kind == cluster.CommandChange || keys // by its tool, or key by key
	switch {
	case keys && !slices.ContainsFunc(h.Releases, wrote.SameMinor):
		return want, fmt.Sprintf("has no etcd %d.%d, which reads the backup (it has %s)", wrote.Major, wrote.Minor, versions(h.Releases))
	case reads && h.CanRun(want):
		return want, ""
	case reads && !c.Version.IsZero():
		return want, fmt.Sprintf("has no etcd %s, only %s", want, versions(h.Releases))
	case !c.Version.IsZero():
		return want, cannotRead(wrote, want)
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

// readsData: etcd serves data of its own line and of the one before.
func readsData(r, wrote cluster.Version) bool {
	return wrote.IsZero() || r.SameMinor(wrote) || r.Major == wrote.Major && r.Minor == wrote.Minor+1
}

func (v *view) stageOn(c *cluster.Command, h *cluster.HostReport, run cluster.Version) *Decision {
	command := v.generationCommand(c)
	if c.Kind == cluster.CommandRecover && (h.Local.Run || h.Process.State != cluster.ProcessStopped) {
		if d := v.unopposed(c); d != nil {
			return d
		}
		p := v.projection(0, 0) // without a quorum it is not up
		return &Decision{
			Reason: fmt.Sprintf("recover from host %s: stop its member, which has no quorum, to read its log to the end", h.Host), Again: soon,
			Action: &Action{Kind: ActHosts, Projection: &p, Command: command, Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
				Kind: cluster.OpStop, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster, Reason: "the cluster is recovered from its data",
			})}},
		}
	}
	src := cluster.Source{Kind: cluster.SourceBackup, Backup: c.Backup, Dir: c.Dir, Wrote: v.wrote(c, h), RevisionTarget: v.revisionTarget(c)}
	switch c.Kind {
	case cluster.CommandRecover:
		src.Kind = cluster.SourceSurvivor
	case cluster.CommandUndo:
		src.Kind = cluster.SourceSetAside
	case cluster.CommandChange:
		src.Kind = cluster.SourceHalted
		if v.intent.Halt != nil {
			src.Accept = v.intent.Halt.Accept
		}
	default:
		src.SHA256, src.Revision, src.Accept = c.Found.SHA256, c.Found.Revision, v.accepts(c)
	}
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("%s is to be the new generation %d: host %s makes it ready beside what runs", commandWords(c), v.nextGeneration(), h.Host), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: command, Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStage, Host: h.Host, Command: c.Name, Generation: v.nextGeneration(), Version: run, Source: &src,
		})}},
	}
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
	return top + cluster.RevisionMargin
}

// isFounder: the generation that is being founded from data begins on the host.
func (v *view) isFounder(h *cluster.HostReport) bool {
	in := v.intent
	return in != nil && in.State == cluster.IntentFounding && in.Source.FromData() && len(in.Founders) == 1 && in.Founders[0].Host == h.Host
}
