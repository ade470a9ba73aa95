package generation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

const (
	// StagedFor is how long a source that lies ready may be used. What clients may
	// have seen since its target was chosen has to stay within the margin.
	StagedFor = time.Hour
)

// stage has a host make the source ready, and gives the host once it is.
func stage(v *step.View, c *cluster.Command) (*cluster.HostReport, *decision.Decision) {
	var failed, unfit []string
	var free, engaged []*cluster.HostReport
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if c.Kind != cluster.CommandRestore && h.Host != c.Host {
			continue
		}
		run, why := GenerationVersion(v, c, Wrote(v, c, h), h)
		room := lacksRoom(v, c, h, run)
		if why == "" {
			why = CannotBegin(v, h)
		}
		s := StagedHere(v, h, c)
		if s != nil && s.State == cluster.StageFailed && s.Needs > 0 && h.FreeSpace > 0 { // the host knows the data
			room = cmp.Or(room, stillLacks(h, s.Needs))
			s = nil
		}
		switch {
		case s != nil && s.State == cluster.StageReady && why == "" && s.Version == run && Fresh(v, h, s):
			return h, tooFewRun(v, run)
		case s != nil && s.State == cluster.StageFailed && s.Hopeless:
			return nil, giveUp(v, c, s.Reason)
		case s != nil && s.State == cluster.StageFailed:
			failed = append(failed, fmt.Sprintf("%s: %s", h.Host, s.Reason))
		case UnderWay(s):
			return nil, &decision.Decision{Reason: words.F("host {host} prepares {command}: {state}, {bytes} bytes so far", h.Host, commandWords(c), s.State, s.Bytes), Again: decision.Soon}
		case cmp.Or(why, lacksKey(c, h), room) != "":
			unfit = append(unfit, fmt.Sprintf("%s %s", h.Host, cmp.Or(why, lacksKey(c, h), room)))
		case s == nil && UnderWay(h.Staged):
			engaged = append(engaged, h)
		default:
			free = append(free, h)
		}
	}
	free = append(free, engaged...) // what they are at, nobody asks for any more
	switch {
	case len(free) > 0 && len(failed) < 2:
		if len(free) > 1 && sight.IsFounder(v.Sight, free[0]) { // what lies ready there is kept as long as it can be
			free = free[1:]
		}
		run, _ := GenerationVersion(v, c, Wrote(v, c, free[0]), free[0])
		if d := tooFewRun(v, run); d != nil {
			return nil, d
		}
		return nil, stageOn(v, c, free[0], run)
	case len(failed) > 0:
		return nil, giveUp(v, c, "it could not be made ready"+words.Because(failed))
	}
	return nil, decision.Wait(true, "no-founder", "", "no host in sight can begin the new generation{because}", words.Because(unfit))
}

// Fresh reports whether what lies ready is for where the host listens, its revision target is
// above that of the present generation, which may have begun since it was chosen,
// and it is not so old that the margin could be used up. The host's own clock
// tells, since the leader's may be another; one that went back since tells nothing.
func Fresh(v *step.View, h *cluster.HostReport, s *cluster.Staged) bool {
	if v.Intent != nil && s.Source.RevisionTarget < v.Intent.Source.RevisionTarget+cluster.RevisionMargin {
		return false
	}
	now := h.Clock
	if now.IsZero() {
		now = v.Obs.At
	}
	return !h.WentBack(s.Since) && now.Sub(s.Since) < StagedFor && slices.Equal(sight.Sorted(s.PeerURLs), sight.Sorted(h.URLs.Peer))
}

// tooFewRun blocks a generation whose release so few of the hosts in sight have
// that its quarantine could not be lifted. Nothing that runs is stopped for that.
func tooFewRun(v *step.View, run cluster.Version) *decision.Decision {
	able, without := 0, []string(nil)
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		switch {
		case len(v.Spec.Hosts) > 0 && !slices.Contains(v.Spec.Hosts, h.Host):
		case h.CanRun(run) || v.Spec.EtcdVersion.SameMinor(run) && h.CanRun(v.Spec.EtcdVersion):
			able++
		default:
			without = append(without, fmt.Sprintf("%s has %s", h.Host, words.Versions(h.Releases)))
		}
	}
	command, elsewise := path.Download(run)
	switch {
	case len(without) == 0 || able >= v.Spec.MemberCount:
	case able >= cluster.Quorum(v.Spec.MemberCount):
		v.Notice("no-release", command, "the new generation runs etcd {release}, which not every host has{because}; {elsewise}", run, words.Because(without), elsewise)
	default:
		return decision.Wait(true, "no-release", command, "the new generation would run etcd {release}, and {have} it, of {quorum} that are needed to serve clients{because}; {elsewise}", run, words.Have(able), cluster.Quorum(v.Spec.MemberCount), words.Because(without), elsewise)
	}
	return nil
}

// UnderWay reports whether the host is making something ready now.
func UnderWay(s *cluster.Staged) bool {
	return s != nil && (s.State == cluster.StageFetching || s.State == cluster.StageBuilding)
}

// StagedHere is the host's stage for this command, of this generation to be: a
// token that an intent ever named is used up, and what a survivor's log held
// says nothing once its member is to run again.
func StagedHere(v *step.View, h *cluster.HostReport, c *cluster.Command) *cluster.Staged {
	s := h.Staged
	switch {
	case s == nil || !asAsked(s, c) || s.Command != c.Name && !saidAgain(s, c):
		return nil
	case v.Intent != nil && v.SupersededCluster(s.Cluster), v.Obs.Named(s.Token):
		return nil
	case c.Kind == cluster.CommandRecover && (h.Local.Run || h.Process.State != cluster.ProcessStopped):
		return nil
	case c.Kind == cluster.CommandRestore && s.State == cluster.StageFailed && s.Source.Accept != accepts(v, c):
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
func accepts(v *step.View, c *cluster.Command) string {
	switch {
	case v.Intent != nil && v.Intent.State == cluster.IntentFounding && v.Intent.CommandID == c.Name:
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

func stageOn(v *step.View, c *cluster.Command, h *cluster.HostReport, run cluster.Version) *decision.Decision {
	command := GenerationCommand(v, c)
	if c.Kind == cluster.CommandRecover && (h.Local.Run || h.Process.State != cluster.ProcessStopped) {
		if d := Unopposed(v, c); d != nil {
			return d
		}
		p := v.Projection(0, 0) // without a quorum it is not up
		return &decision.Decision{
			Reason: words.F("recover from host {host}: stop its member, which has no quorum, to read its whole log", h.Host), Again: decision.Soon,
			Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: command, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, cluster.Op{
				Kind: cluster.OpStop, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster, Reason: "the cluster is recovered from its data",
			})}},
		}
	}
	src := cluster.Source{Kind: cluster.SourceBackup, Backup: c.Backup, Dir: c.Dir, Wrote: Wrote(v, c, h), RevisionTarget: RevisionTarget(v, c)}
	switch c.Kind {
	case cluster.CommandRecover:
		src.Kind = cluster.SourceSurvivor
	case cluster.CommandUndo:
		src.Kind = cluster.SourceSetAside
	case cluster.CommandChange:
		src.Kind = cluster.SourceHalted
		if v.Intent.Halt != nil {
			src.Accept = v.Intent.Halt.Accept
		}
	default:
		src.SHA256, src.Revision, src.Accept = c.Found.SHA256, c.Found.Revision, accepts(v, c)
	}
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("{command} becomes generation {generation}: host {host} prepares it beside what runs", commandWords(c), v.NextGeneration(), h.Host), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: command, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStage, Host: h.Host, Command: c.Name, Generation: v.NextGeneration(), Version: run, Source: &src,
		})}},
	}
}

// RevisionTarget is above everything that clients may have seen: of whatever
// anybody recorded, and of the last target.
func RevisionTarget(v *step.View, c *cluster.Command) int64 {
	top := v.Obs.Recorded.Revision
	if v.Intent != nil {
		top = max(top, v.Intent.Source.RevisionTarget)
	}
	if c.Found != nil {
		top = max(top, c.Found.Revision)
	}
	for _, b := range v.Obs.Backups.Newest {
		top = max(top, b.Revision)
	}
	for i := range v.Obs.Hosts {
		top = max(top, v.Obs.Hosts[i].Highest.Revision)
		if s := v.Obs.Hosts[i].Status; s != nil {
			top = max(top, s.Revision)
		}
	}
	return top + cluster.RevisionMargin
}

// giveUp ends a command whose source cannot be made ready. One whose generation
// is written down already has not left everything as it was.
func giveUp(v *step.View, c *cluster.Command, why string) *decision.Decision {
	if !v.Queued(c.Name) {
		return decision.Wait(true, "no-founder", "", "{why}", why)
	}
	if !v.Obs.Ran(c.Name) {
		return decision.EndCommand(c.Name, decision.CommandRejected, why)
	}
	_, words := otherSource(v)
	return decision.EndCommand(c.Name, decision.CommandFailed, fmt.Sprintf("generation %d was written down for it, its founder lost what it had made ready, and that cannot be made again: %s%s", v.Intent.Generation, why, words))
}

// otherSource is what else the cluster could be made from, as a command, and in
// words that say what each would lose. Data of the generation that was to be
// superseded comes first, since it has more than any backup.
func otherSource(v *step.View) (command, words string) {
	var ways []string
	add := func(c string, what string) {
		if command == "" {
			command = c
		}
		ways = append(ways, what)
	}
	if h := FurthestData(v); h != nil {
		c := cluster.Command{Kind: cluster.CommandRecover, Host: h.Host, Lost: wiped(v)}
		add(GenerationCommand(v, &c), fmt.Sprintf("host %s still holds the data of generation %d, from which a recovery goes on with everything that was written until it was stopped", h.Host, h.Local.Generation))
	}
	for _, b := range v.Obs.Backups.Newest {
		if b.Name != v.Intent.Source.Backup {
			add("etcdadm restore "+b.Name, fmt.Sprintf("there is backup %s", b.Name))
			break
		}
	}
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; len(h.SetAside) > 0 {
			dir := h.SetAside[len(h.SetAside)-1].Name()
			add(GenerationCommand(v, &cluster.Command{Kind: cluster.CommandUndo, Host: h.Host, Dir: dir}), fmt.Sprintf("host %s has set %s aside", h.Host, dir))
			break
		}
	}
	if len(ways) == 0 {
		return "", "; queue the command again once there is something that it can be made from"
	}
	return command, "; nothing of it goes on by itself, and a command that names another source makes a generation in its place: " + strings.Join(ways, "; ")
}

// wiped are the recorded voters' hosts that are in sight and hold nothing of
// them any more. One that is out of sight is for a person to judge.
func wiped(v *step.View) (out []cluster.HostID) {
	for _, g := range append(v.Open(false), v.Past()) {
		for _, set := range g.Voters {
			for _, w := range set {
				kept := slices.ContainsFunc(v.Obs.Hosts, func(h cluster.HostReport) bool { return h.Local.Member == w.Member && h.Local.HasData })
				if _, ok := v.Obs.Host(w.Host); ok && !kept {
					out = sight.Union(out, []cluster.HostID{w.Host})
				}
			}
		}
	}
	return out
}
