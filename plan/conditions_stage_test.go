package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/path"
)

// TestConditionsOfStages: which source that lies ready may be used.
func TestConditionsOfStages(t *testing.T) {
	command := &cluster.Command{Name: "cmd", Kind: cluster.CommandRestore, Backup: "B", Version: version("3.6.16"), Found: &cluster.Backup{Name: "B", Version: version("3.6.16"), SHA256: "s"}}
	staged := then(formedSight, of("d", func(h *cluster.HostReport) {
		h.Staged = &cluster.Staged{
			Command: "cmd", State: cluster.StageReady, Token: "t9", Version: version("3.6.16"), Since: h.Clock.Add(-time.Minute), PeerURLs: h.URLs.Peer,
			Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "B", SHA256: "s", RevisionTarget: 2 * cluster.RevisionMargin},
		}
	}), inIntent(func(in *cluster.Intent) {
		in.Source.RevisionTarget = cluster.RevisionMargin
		in.History = []cluster.PastGeneration{{Generation: 0, Cluster: 0xdead, Closed: true}}
	}))
	on := func(change func(s *cluster.Staged)) func(o *cluster.Observation) {
		return of("d", func(h *cluster.HostReport) { change(h.Staged) })
	}
	useful := func(c *cluster.Command) func(v *step.View) bool {
		return func(v *step.View) bool {
			h := inSight(v, "d")
			s := generation.StagedHere(v, h, c)
			return s != nil && generation.Fresh(v, h, s)
		}
	}
	undo := &cluster.Command{Name: "cmd", Kind: cluster.CommandUndo, Host: "d", Dir: "was"}
	survivor := &cluster.Command{Name: "cmd", Kind: cluster.CommandRecover, Host: "d"}
	checkConditions(t, []condition{
		{"of a backup", staged, useful(command), []otherwise{
			{"it is of another command, and nobody knows whether of that backup", on(func(s *cluster.Staged) { s.Command, s.Source.SHA256 = "x", "" })},
			{"it is of another backup", on(func(s *cluster.Staged) { s.Source.Backup = "x" })},
			{"a backup of that name was put in its place", on(func(s *cluster.Staged) { s.Source.SHA256 = "x" })},
			{"it is no backup", on(func(s *cluster.Staged) { s.Source.Kind = cluster.SourceSurvivor })},
			{"it is for another release", on(func(s *cluster.Staged) { s.Version = version("3.5.35") })},
			{"a host remembers a generation of its token", func(o *cluster.Observation) {
				in := o.Intent().Clone()
				in.Token = "t9"
				of("b", func(h *cluster.HostReport) { h.Intent = in })(o)
			}},
			{"it is of another command, and not ready", on(func(s *cluster.Staged) { s.Command, s.State = "x", cluster.StageBuilding })},
			{"its token was used", func(o *cluster.Observation) { on(func(s *cluster.Staged) { s.Token = o.Intent().Token })(o) }},
			{"its cluster was superseded", on(func(s *cluster.Staged) { s.Cluster = 0xdead })},
			{"its target is of an earlier generation", on(func(s *cluster.Staged) { s.Source.RevisionTarget-- })},
			{"it is old", on(func(s *cluster.Staged) { s.Since = s.Since.Add(time.Minute - generation.StagedFor) })},
			{"it is for another address", on(func(s *cluster.Staged) { s.PeerURLs = []string{"https://x:2380"} })},
			{"nothing lies there", of("d", func(h *cluster.HostReport) { h.Staged = nil })},
		}, []otherwise{
			{"it is of another command for that very backup", on(func(s *cluster.Staged) { s.Command = "x" })},
			{"its checksum is not known", on(func(s *cluster.Staged) { s.Source.SHA256 = "" })},
			{"it is nearly too old", on(func(s *cluster.Staged) { s.Since = s.Since.Add(time.Minute + time.Second - generation.StagedFor) })},
			{"the host tells no time", of("d", func(h *cluster.HostReport) { h.Clock = time.Time{} })},
		}},
		{"of what was set aside", then(staged, on(func(s *cluster.Staged) { s.Source.Kind, s.Source.Dir = cluster.SourceSetAside, "was" })), useful(undo), []otherwise{
			{"it is of another command", on(func(s *cluster.Staged) { s.Command = "x" })},
			{"it is of another directory", on(func(s *cluster.Staged) { s.Source.Dir = "x" })},
			{"it is of a survivor", on(func(s *cluster.Staged) { s.Source.Kind = cluster.SourceSurvivor })},
		}, nil},
		{"of a survivor", then(staged, on(func(s *cluster.Staged) { s.Source.Kind = cluster.SourceSurvivor })), useful(survivor), []otherwise{
			{"it is of another command", on(func(s *cluster.Staged) { s.Command = "x" })},
			{"its member is to run again", of("d", func(h *cluster.HostReport) { h.Local.Run = true })},
			{"its member runs again", of("d", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessRunning })},
			{"it is of what was set aside", on(func(s *cluster.Staged) { s.Source.Kind = cluster.SourceSetAside })},
		}, nil},
	})
}

// TestRevisionTargetIsAboveAll: whoever knows the highest revision, it counts.
func TestRevisionTargetIsAboveAll(t *testing.T) {
	const top = 5_000_000
	command := cluster.Command{Name: "cmd", Kind: cluster.CommandRestore, Found: &cluster.Backup{}}
	for _, knows := range []otherwise{
		{"the record", func(o *cluster.Observation) { o.Recorded.Revision = top }},
		{"the last target", inIntent(func(in *cluster.Intent) { in.Source.RevisionTarget = top })},
		{"the backup", func(*cluster.Observation) { command.Found = &cluster.Backup{Revision: top} }},
		{"a newer backup", func(o *cluster.Observation) {
			o.Backups.Newest = []cluster.Backup{{Name: "x"}, {Name: "y", Revision: top}}
		}},
		{"what a host remembers", of("d", func(h *cluster.HostReport) { h.Highest.Revision = top })},
		{"a member", of("b", func(h *cluster.HostReport) { h.Status.Revision = top })},
	} {
		o := formedSight(t)
		knows.make(o)
		if got := generation.RevisionTarget(step.Look(decision.Goal{Kind: decision.Converge}, o), &command); got != top+cluster.RevisionMargin {
			t.Errorf("only %s has revision %d, and the target is %d", knows.name, top, got)
		}
		command.Found = &cluster.Backup{}
	}
}

// TestConditionsOfHalts: when the members of a cluster may be stopped for a change of
// version, and when that may be undone.
func TestConditionsOfHalts(t *testing.T) {
	ready := then(formedSight, func(o *cluster.Observation) {
		s := *o.Spec
		s.EtcdVersion, s.AcceptOutage = version("3.7.3"), cluster.Consent(version("3.7.3"), o.At)
		o.Spec = &s
	})
	next := path.Hop{Kind: path.Physical, From: version("3.6.16"), To: version("3.7.3")}
	tried := func(change func(h *cluster.Halt)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			h := &cluster.Halt{ID: "x", Generation: 1, To: version("3.7.3"), Wanted: version("3.7.3"), Consent: o.Spec.Consents(), Ended: "x"}
			change(h)
			inIntent(func(in *cluster.Intent) { in.Halt = h })(o)
		}
	}
	ended := then(formedSight, inIntent(func(in *cluster.Intent) {
		old := in.Clone()
		in.Generation, in.Nonce, in.Token, in.Cluster, in.State, in.Quarantined = 2, "n2", "t2", 0xc2, cluster.IntentFounding, true
		in.Source, in.Founders = cluster.Source{Kind: cluster.SourceHalted}, in.Founders[:1]
		in.Halt = &cluster.Halt{ID: "x", Generation: 1, From: version("3.6.16"), To: version("3.7.3")}
		in.History = []cluster.PastGeneration{{Generation: 1, Cluster: old.Cluster, Voters: old.VoterSets(), Closed: true}}
		in.Timestamp = worldEpoch.UnixNano()
	}), func(o *cluster.Observation) {
		for i := range o.Hosts {
			stopped(2, 5)(&o.Hosts[i])
			o.Hosts[i].LowestGeneration = 2
		}
		of("a", func(h *cluster.HostReport) {
			old := h.Local
			dies(h)
			h.Local.Generation, h.Local.Cluster, h.Local.Member = 2, 0xc2, 0xc2a
			h.SetAside = []cluster.SetAside{{Dir: "/was", Cluster: old.Cluster, Generation: 1, Member: old.Member}}
		})(o)
	})
	goesBack := func(v *step.View) bool { return generation.GoBack(v) != nil }
	checkConditions(t, []condition{
		{"may be begun", ready, func(v *step.View) bool { return generation.MayNotHalt(v, v.Roster.Running(), next) == "" }, []otherwise{
			{"the store is silent", storeSilent},
			{"the store cannot write on a condition", func(o *cluster.Observation) { o.Store.Conditional = false }},
			{"it is being founded", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
			{"a command is in the queue", queue(*recoverFrom("a"))},
			{"the queue cannot be listed", unlisted},
			{"a command cannot be read", queue(cluster.Command{Name: "n", Unread: "denied"})},
			{"a change of the voters is under way", inIntent(func(in *cluster.Intent) { in.Next = in.Voters[:2] })},
			{"the record names other voters", inIntent(func(in *cluster.Intent) { in.Voters = in.Voters[:2] })},
			{"the list may be old", hearsay},
			{"the voters are not as many as wanted", func(o *cluster.Observation) { s := *o.Spec; s.MemberCount = 5; o.Spec = &s }},
			{"two lines run", of("b", func(h *cluster.HostReport) { h.Local.Version, h.Status.Version = version("3.5.35"), version("3.5.35") })},
			{"it was tried on this word", tried(func(*cluster.Halt) {})},
			{"it was carried out on this word", tried(func(h *cluster.Halt) { h.Ended, h.Generation = "", 0 })},
			{"the release did not start on a host", of("b", func(h *cluster.HostReport) { h.FailedRelease = version("3.7.3") })},
		}, []otherwise{
			{"it was tried on another word", tried(func(h *cluster.Halt) { h.Consent = "x" })},
			{"it was tried for another version", tried(func(h *cluster.Halt) { h.Wanted = version("3.7.1") })},
			{"another release did not start", of("b", func(h *cluster.HostReport) { h.FailedRelease = version("3.7.1") })},
			{"a backup is asked for", queue(cluster.Command{Name: "x", Kind: cluster.CommandBackup})},
		}},
		{"goes back to what was before", ended, goesBack, []otherwise{
			{"it is not quarantined", inIntent(func(in *cluster.Intent) { in.Quarantined = false })},
			{"it was not made by a halt", inIntent(func(in *cluster.Intent) { in.Source.Kind = cluster.SourceBackup })},
			{"there is no record of the halt", inIntent(func(in *cluster.Intent) { in.Halt = nil })},
			{"it has several founders", inIntent(func(in *cluster.Intent) { in.Founders = append(in.Founders, in.Founders[0]) })},
			{"it has not had its time", func(o *cluster.Observation) {
				inIntent(func(in *cluster.Intent) { in.Timestamp = o.At.Add(time.Second - sight.FoundingStalled).UnixNano() })(o)
			}},
			{"its founder has not promised", of("a", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its founder is out of sight", away("a", cluster.GapUnreachable)},
			{"its member runs", of("a", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessRunning })},
			{"its member is silent", of("a", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessSilent })},
			{"what was set aside is of another cluster", of("a", func(h *cluster.HostReport) { h.SetAside[0].Cluster = 9 })},
			{"nothing was set aside", of("a", func(h *cluster.HostReport) { h.SetAside = nil })},
		}, nil},
		{"goes back where its founder forgot it", then(ended, of("a", func(h *cluster.HostReport) {
			h.Local.Generation, h.Local.Cluster, h.Local.Member, h.Process = 1, 0xc1, 1, cluster.Process{}
		})), goesBack, []otherwise{
			{"what it staged lies ready", of("a", func(h *cluster.HostReport) { h.Staged = &cluster.Staged{Token: "t2", State: cluster.StageReady} })},
			{"the same, and the member before dies", of("a", func(h *cluster.HostReport) {
				h.Staged = &cluster.Staged{Token: "t2", State: cluster.StageReady}
				h.Process.State = cluster.ProcessBackoff
			})},
		}, []otherwise{
			{"what it staged is of another generation", of("a", func(h *cluster.HostReport) { h.Staged = &cluster.Staged{Token: "t3", State: cluster.StageReady} })},
		}},
	})
}
