package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// survivors are two of three members without a quorum, c being out of sight; both
// were stopped, and a is the furthest.
func survivors(t *testing.T) *cluster.Observation {
	return then(formedSight, of("a", stopped(2, 50)), of("b", stopped(2, 40)), away("c", cluster.GapUnreachable), func(o *cluster.Observation) {
		for i := range o.Hosts {
			o.Hosts[i].Highest = cluster.Progress{Term: 2, Index: 30, Revision: 30}
		}
	})(t)
}

func recoverFrom(id cluster.HostID, lost ...cluster.HostID) *cluster.Command {
	return &cluster.Command{Name: "cmd", Kind: cluster.CommandRecover, Host: id, Lost: lost}
}

func queue(c cluster.Command) func(o *cluster.Observation) {
	return func(o *cluster.Observation) { o.Commands = append(o.Commands, c) }
}

// TestConditionsOfRecovery: from whose data a cluster may go on.
func TestConditionsOfRecovery(t *testing.T) {
	further := func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 2, Index: 51} }
	reads := func(h *cluster.HostReport) { h.Log, h.Reading = nil, &cluster.LogReading{Bytes: 1, Of: 2} }
	auto := then(survivors, func(o *cluster.Observation) {
		s := *o.Spec
		s.AutoRecoverAfter = time.Hour
		o.Spec, o.Memory.QuorumlessSince = &s, o.At.Add(-time.Hour)
		o.Recorded = cluster.Progress{Term: 2, Index: 50}
	})
	served := then(formedSight, of("c", func(h *cluster.HostReport) { stopped(2, 5)(h); h.Log = nil }))
	other := func(change func(l *cluster.LocalMember)) func(h *cluster.HostReport) {
		return func(h *cluster.HostReport) { change(&h.Local) }
	}
	checkConditions(t, []condition{
		{"a recovery from the furthest", survivors, func(v *step.View) bool { return generation.MayRecover(v, recoverFrom("a", "c")) == nil }, []otherwise{
			{"its data is gone", of("a", func(h *cluster.HostReport) { h.Local.HasData = false })},
			{"its member was removed", of("a", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
			{"its log was not read", of("a", func(h *cluster.HostReport) { h.Log = nil })},
			{"another one is further", of("b", further)},
			{"another one is of a later term", of("b", func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 3, Index: 1} })},
			{"another log is being read", of("b", reads)},
			{"it is out of sight", away("a", cluster.GapUnreachable)},
		}, []otherwise{
			{"another one is as far", of("b", func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 2, Index: 50} })},
			{"one of an earlier term has more entries", of("b", func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 1, Index: 99} })},
			{"one of another cluster is further", of("b", func(h *cluster.HostReport) { further(h); h.Local.Cluster = 9 })},
			{"one of another generation is further", of("b", func(h *cluster.HostReport) { further(h); h.Local.Generation = 9 })},
			{"the log of another cluster is being read", of("b", func(h *cluster.HostReport) { reads(h); h.Local.Cluster = 9 })},
			{"the log of another generation is being read", of("b", func(h *cluster.HostReport) { reads(h); h.Local.Generation = 9 })},
			{"the log of a removed member is being read", of("b", func(h *cluster.HostReport) { reads(h); h.Local.State = cluster.MemberRemoved })},
		}},
		{"a slow log is named as lost", then(survivors, of("b", reads)), func(v *step.View) bool { return generation.MayRecover(v, recoverFrom("a", "b", "c")) == nil }, nil, nil},
		{"a host that is named as lost and starts is waited for", then(survivors, atWork("c", cluster.OpBoot)), func(v *step.View) bool {
			d := generation.LostAndThere(v, recoverFrom("a", "c"))
			return d != nil && strings.Contains(d.Reason.String(), ": c (busy: no answer). ") && d.Blockers[0].Code == "recovering" &&
				generation.Begin(v, recoverFrom("a", "c")).Reason.String() == d.Reason.String()
		}, []otherwise{
			{"it is late", ofGap("c", func(g *cluster.Gap) { g.Late = true })},
			{"nobody knows at what it is", atWork("c", "")},
			{"it is gone", ofGap("c", func(g *cluster.Gap) { g.Kind = cluster.GapUnreachable })},
			{"it is a host that nobody named", func(o *cluster.Observation) {
				ofGap("c", func(g *cluster.Gap) { g.Kind = cluster.GapUnreachable })(o)
				atWork("d", cluster.OpBoot)(o)
			}},
			{"a founding has had its time", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
		}, []otherwise{
			{"it waits for its disk", atWork("c", cluster.OpPromise)},
			{"it carries out an op", atWork("c", cluster.OpDefragment)},
		}},
		{"so is one that is named by its member", then(survivors, atWork("c", cluster.OpBoot)), func(v *step.View) bool {
			return generation.LostAndThere(v, recoverFrom("a", cluster.HostID(v.Intent.Voters[2].Member.String()))) != nil
		}, []otherwise{
			{"it is another one's", inIntent(func(in *cluster.Intent) { in.Voters[2].Host = "x" })},
		}, nil},
		{"enough logs are in sight", survivors, func(v *step.View) bool { return generation.LogsInSight(v, recoverFrom("a")) == nil }, []otherwise{
			{"one cannot be read", of("b", func(h *cluster.HostReport) { h.Log = nil })},
			{"one is of another member", of("b", func(h *cluster.HostReport) { h.Local.Member = 77 })},
			{"a change of the voters may have been made", inIntent(func(in *cluster.Intent) {
				in.Next = append(in.Voters[:3:3], cluster.Voter{Host: "x", Member: 98}, cluster.Voter{Host: "y", Member: 99})
			})},
			{"an earlier generation had others, of which the data is", func(o *cluster.Observation) {
				inIntent(func(in *cluster.Intent) {
					in.Generation = 2
					in.History = []cluster.PastGeneration{{Generation: 1, Closed: true, Voters: [][]cluster.Voter{{{Host: "x", Member: 97}, {Host: "y", Member: 98}, {Host: "z", Member: 99}}}}}
				})(o)
			}},
		}, nil},
		{"recovered by itself", auto, func(v *step.View) bool { d := generation.AutoRecover(v); return d != nil && d.Action != nil }, []otherwise{
			{"there is no spec", noSpec},
			{"nobody asked for that", func(o *cluster.Observation) { s := *o.Spec; s.AutoRecoverAfter = 0; o.Spec = &s }},
			{"the cluster is being founded", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
			{"it is not ours", inIntent(func(in *cluster.Intent) { in.Generation = 0 })},
			{"a command is in the queue", queue(*recoverFrom("b"))},
			{"the queue cannot be listed", unlisted},
			{"a command cannot be read", queue(cluster.Command{Name: "n", Unread: "denied"})},
			{"it is too early", func(o *cluster.Observation) { o.Memory.QuorumlessSince = o.At.Add(time.Second - time.Hour) }},
			{"the quorum is there", func(o *cluster.Observation) { o.Memory.QuorumlessSince = time.Time{} }},
			{"the store has more on record", func(o *cluster.Observation) { o.Recorded.Index++ }},
			{"the store has a later term on record", func(o *cluster.Observation) { o.Recorded.Term++ }},
			{"a host remembers more", of("b", func(h *cluster.HostReport) { h.Highest.Index = 51 })},
			{"a wiped host remembers more", of("b", func(h *cluster.HostReport) { h.Highest.Index, h.Local.HasData = 51, false })},
			{"a log was not read", of("b", func(h *cluster.HostReport) { h.Log = nil })},
			{"no data is left", func(o *cluster.Observation) {
				for i := range o.Hosts {
					o.Hosts[i].Local.HasData = false
				}
			}},
		}, []otherwise{
			{"a host of another generation remembers more", of("b", func(h *cluster.HostReport) { h.Highest.Index, h.Local.Generation = 51, 9 })},
			{"a host of another cluster remembers more", of("b", func(h *cluster.HostReport) { h.Highest.Index, h.Local.Cluster = 51, 9 })},
			{"the log of a removed member was not read", of("b", func(h *cluster.HostReport) { h.Log, h.Local.State = nil, cluster.MemberRemoved })},
			{"a wiped host has no log", of("b", func(h *cluster.HostReport) { h.Log, h.Local.HasData = nil, false })},
		}},
		{"recovered by itself from the furthest", then(auto, of("b", func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 2, Index: 60} })), func(v *step.View) bool {
			d := generation.AutoRecover(v)
			return d != nil && d.Action != nil && d.Action.Queue.Host == "b"
		}, nil, nil},
		{"a host at work is not given up", then(auto, atWork("b", cluster.OpRestart)), func(v *step.View) bool {
			missing, working := generation.Logless(v, recoverFrom("a"), &v.Obs.Hosts[0])
			return v.Presence("b") == cluster.PresenceBusy && slices.Equal(missing, []cluster.HostID{"c"}) && slices.Equal(working, []cluster.HostID{"b"})
		}, []otherwise{
			{"nobody knows at what", atWork("b", "")},
			{"it should have ended", ofGap("b", func(g *cluster.Gap) { g.Late = true })},
			{"its daemon starts", atWork("b", cluster.OpBoot)},
			{"it waits for its disk", atWork("b", cluster.OpPromise)},
			{"nobody can ask it", ofGap("b", func(g *cluster.Gap) { g.Kind = cluster.GapUnreachable })},
		}, []otherwise{{"it is another op", atWork("b", cluster.OpDefragment)}}},
		{"nothing is recovered by itself past hosts at work", then(auto, atWork("b", cluster.OpRestart), atWork("c", cluster.OpRestart)), func(v *step.View) bool {
			return generation.AutoRecover(v) == nil && len(v.Notices) == 1
		}, []otherwise{{"they are gone", func(o *cluster.Observation) {
			for _, id := range []cluster.HostID{"b", "c"} {
				ofGap(id, func(g *cluster.Gap) { g.Kind, g.Op = cluster.GapUnreachable, "" })(o)
			}
		}}}, []otherwise{{"one may never be back", atWork("c", cluster.OpPromise)}, {"they may never be back", func(o *cluster.Observation) {
			atWork("b", cluster.OpPromise)(o)
			atWork("c", cluster.OpPromise)(o)
		}}}},
		{"hosts that start are told to start", then(auto, atWork("b", cluster.OpBoot), atWork("c", cluster.OpPromise)), func(v *step.View) bool {
			return generation.AutoRecover(v) == nil && len(v.Notices) == 1 && strings.Contains(v.Notices[0].Sentence.String(), "starting or reading their disks") && strings.HasSuffix(v.Notices[0].Sentence.String(), ": b, c")
		}, []otherwise{
			{"one is late", ofGap("b", func(g *cluster.Gap) { g.Late = true })},
			{"nobody knows at what one is", atWork("c", "")},
			{"one is gone", ofGap("c", func(g *cluster.Gap) { g.Kind, g.Op = cluster.GapUnreachable, "" })},
		}, nil},
		{"a host that is late is told as one that may never be back", then(auto, atWork("b", cluster.OpBoot), atWork("c", cluster.OpBoot), ofGap("c", func(g *cluster.Gap) { g.Late = true })), func(v *step.View) bool {
			return generation.AutoRecover(v) == nil && len(v.Notices) == 1 && strings.Contains(v.Notices[0].Sentence.String(), "as on a hung disk: c.")
		}, []otherwise{{"it is not late", ofGap("c", func(g *cluster.Gap) { g.Late = false })}}, nil},
		{"a host that is busy is not lost", then(auto, away("c", cluster.GapBusy)), func(v *step.View) bool {
			return len(generation.OutOfSight(v)) == 0
		}, []otherwise{{"it is gone", func(o *cluster.Observation) { o.Gaps[0].Kind = cluster.GapUnreachable }}}, nil},
		{"one that was stopped is started again", served, func(v *step.View) bool { return generation.ReviveStopped(v) != nil }, []otherwise{
			{"it has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it is to run", of("c", func(h *cluster.HostReport) { h.Local.Run = true })},
			{"it was stopped for good", of("c", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
			{"its data is gone", of("c", func(h *cluster.HostReport) { h.Local.HasData = false })},
			{"it runs", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessSilent })},
			{"it is of another generation", inIntent(func(in *cluster.Intent) { in.Generation = 2 })},
			{"it refuses its generation", of("c", func(h *cluster.HostReport) { h.LowestGeneration = 2 })},
			{"it says that it cannot", of("c", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x", Unfit: true}} })},
			{"a recovery from it is asked for", queue(*recoverFrom("c"))},
			{"a quorum removed it", of("c", other(func(l *cluster.LocalMember) { l.Member = 77 }))},
			{"its disk is a copy of one whose member answers", func(o *cluster.Observation) {
				a, _ := o.Host("a")
				of("c", other(func(l *cluster.LocalMember) { l.Member = a.Local.Member }))(o)
			}},
		}, []otherwise{
			{"a recovery from another one is asked for", queue(*recoverFrom("b"))},
			{"that recovery has ended", queue(cluster.Command{Name: "x", Kind: cluster.CommandRecover, Host: "c", Ended: "done"})},
			{"that command cannot be read", queue(cluster.Command{Name: "x", Kind: cluster.CommandRecover, Host: "c", Malformed: "x"})},
			{"that recovery was run", func(o *cluster.Observation) {
				queue(*recoverFrom("c"))(o)
				inIntent(func(in *cluster.Intent) { in.CommandsRun = []string{"cmd"} })(o)
			}},
			{"its data is asked for otherwise", queue(cluster.Command{Name: "x", Kind: cluster.CommandUndo, Host: "c", Dir: "x"})},
			{"a list that does not hold it may be old", func(o *cluster.Observation) {
				hearsay(o)
				of("c", other(func(l *cluster.LocalMember) { l.Member = 77 }))(o)
			}},
		}},
	})
}

// TestConditionsOfPromises: who counts as one that refuses a generation.
func TestConditionsOfPromises(t *testing.T) {
	superseded := then(formedSight, inIntent(func(in *cluster.Intent) {
		old := in.Clone()
		in.Generation, in.Nonce, in.Token, in.State = 2, "n2", "t2", cluster.IntentFounding
		in.History = []cluster.PastGeneration{{Generation: 1, Cluster: old.Cluster, Voters: old.VoterSets()}}
	}), of("c", func(h *cluster.HostReport) { stopped(2, 5)(h); h.LowestGeneration = 2 }))
	young := then(superseded, func(o *cluster.Observation) {
		inIntent(func(in *cluster.Intent) { in.Timestamp, in.Lost = o.At.UnixNano(), []cluster.HostID{"b"} })(o)
		o.Memory.Founding = cluster.Founding{}
	})
	command := &cluster.Command{Name: "cmd", Kind: cluster.CommandRestore, Backup: "B", Found: &cluster.Backup{Name: "B"}}
	two := then(formedSight, away("c", cluster.GapUnreachable))
	unstarted := then(formedSight, inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding }), of("c", func(h *cluster.HostReport) {
		h.Local, h.Status, h.View, h.Process = cluster.LocalMember{}, nil, nil, cluster.Process{}
	}))
	checkConditions(t, []condition{
		{"a host that refuses the generation before", superseded, func(v *step.View) bool { return generation.HasPromised(v, inSight(v, "c")) }, []otherwise{
			{"it promised another leader", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its member runs", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessRunning })},
			{"its member is silent", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessSilent })},
			{"it will be started again in a moment", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessBackoff })},
			{"it refuses only what was before that", of("c", func(h *cluster.HostReport) { h.LowestGeneration, h.Intent = 1, nil })},
		}, []otherwise{
			{"what runs is of this generation", of("c", func(h *cluster.HostReport) { h.Process.State, h.Local.Generation = cluster.ProcessRunning, 2 })},
			{"it refuses this one as well", of("c", func(h *cluster.HostReport) { h.LowestGeneration = 3 })},
		}},
		{"the last promise is waited for", then(superseded, of("b", func(h *cluster.HostReport) { stopped(2, 5)(h); h.LowestGeneration = 1; h.Intent = nil })), func(v *step.View) bool {
			d := generation.CollectPromises(v)
			return d != nil && d.Action != nil && d.Action.Kind == decision.ActHosts && d.Action.Ops[0].Op.Kind == cluster.OpRefuse && slices.ContainsFunc(d.Action.Ops, func(x decision.HostOp) bool { return x.Host == "b" })
		}, []otherwise{
			{"it promised another leader", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"something else runs there", of("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"it is stopping its member", of("b", func(h *cluster.HostReport) { h.LowestGeneration, h.Process.State = 2, cluster.ProcessRunning })},
			{"it is out of sight", away("b", cluster.GapUnreachable)},
			{"it is named as lost", inIntent(func(in *cluster.Intent) { in.Lost = []cluster.HostID{"b"} })},
		}, nil},
		{"one that is named as lost and is there is asked all the same", then(young, of("b", func(h *cluster.HostReport) { stopped(2, 5)(h); h.LowestGeneration, h.Intent = 1, nil })), func(v *step.View) bool {
			d := generation.CollectPromises(v)
			return d != nil && d.Action != nil && d.Action.Kind == decision.ActHosts && slices.ContainsFunc(d.Action.Ops, func(x decision.HostOp) bool { return x.Host == "b" })
		}, []otherwise{
			{"the founding has had its time", func(o *cluster.Observation) { o.At = o.At.Add(sight.FoundingStalled) }},
			{"it promised another leader", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"something else runs there", of("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"it is out of sight", away("b", cluster.GapUnreachable)},
		}, nil},
		{"one that is named as lost and starts is waited for", then(young, atWork("b", cluster.OpBoot)), func(v *step.View) bool {
			d := generation.CollectPromises(v)
			return d != nil && (d.Action == nil || d.Action.Kind == decision.ActHosts) && len(d.Blockers) == 0
		}, []otherwise{
			{"the founding has had its time", func(o *cluster.Observation) { o.At = o.At.Add(sight.FoundingStalled) }},
			{"it is late", ofGap("b", func(g *cluster.Gap) { g.Late = true })},
			{"it is out of sight", ofGap("b", func(g *cluster.Gap) { g.Kind = cluster.GapUnreachable })},
		}, nil},
		{"enough can promise", two, func(v *step.View) bool { return generation.PromisersInSight(v, command) == nil }, []otherwise{
			{"one promised another leader", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"something else runs on one", of("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"one is out of sight", away("b", cluster.GapUnreachable)},
			{"a change of the voters may have been made", inIntent(func(in *cluster.Intent) {
				in.Next = append(in.Voters[:3:3], cluster.Voter{Host: "x", Member: 98}, cluster.Voter{Host: "y", Member: 99})
			})},
			{"an open generation before had others", inIntent(func(in *cluster.Intent) {
				in.History = []cluster.PastGeneration{{Generation: 1, Voters: [][]cluster.Voter{{{Host: "x", Member: 98}}}}}
			})},
		}, []otherwise{
			{"a closed generation before had others", inIntent(func(in *cluster.Intent) {
				in.History = []cluster.PastGeneration{{Generation: 1, Closed: true, Voters: [][]cluster.Voter{{{Host: "x", Member: 98}}}}}
			})},
		}},
		{"a founder that never started can promise", unstarted, func(v *step.View) bool {
			f := v.Intent.Founders[2]
			return f.Host == "c" && generation.Promiser(v, f) != nil
		}, []otherwise{
			{"it promised another leader", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it has another disk", of("c", func(h *cluster.HostReport) { h.Disk = "x" })},
			{"it holds data", of("c", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"it is starting", of("c", func(h *cluster.HostReport) { h.Local.State = cluster.MemberStarting })},
			{"it holds what nothing accounts for", of("c", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"something runs there", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"it is out of sight", away("c", cluster.GapUnreachable)},
		}, nil},
	})
}

// TestLostIsByName: an empty name names nobody, and the ID of a member names it.
func TestLostIsByName(t *testing.T) {
	for _, c := range []struct {
		voter cluster.Voter
		named []cluster.HostID
		want  bool
	}{
		{cluster.Voter{Host: "a", Member: 1}, []cluster.HostID{"a"}, true},
		{cluster.Voter{Host: "a", Member: 1}, []cluster.HostID{"b"}, false},
		{cluster.Voter{Member: 1}, []cluster.HostID{""}, false},
		{cluster.Voter{Host: "a", Member: 1}, []cluster.HostID{cluster.HostID(cluster.MemberID(1).String())}, true},
	} {
		if got := sight.Lost(c.voter, c.named); got != c.want {
			t.Errorf("%+v is lost where %q are: %t", c.voter, c.named, got)
		}
	}
}
