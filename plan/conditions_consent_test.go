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

// wished is a cluster that was founded an hour ago, and a person's restore in the queue,
// a minute old.
func wished(t *testing.T) *cluster.Observation {
	return then(formedSight, func(o *cluster.Observation) {
		inIntent(func(in *cluster.Intent) { in.Timestamp = o.At.Add(-time.Hour).UnixNano() })(o)
		keepAll(o)
		queue(cluster.Command{
			Name: "cmd", At: o.At.Add(-time.Minute), Kind: cluster.CommandRestore, Backup: "B", NoBackup: true,
			Found: &cluster.Backup{Name: "B", Version: version("3.6.16"), SHA256: "s"},
		})(o)
	})(t)
}

// keepAll has every host keep the intent of the store.
func keepAll(o *cluster.Observation) {
	for i := range o.Hosts {
		o.Hosts[i].Intent = o.Store.Intent
	}
}

// ready is what lies ready on host d for the command, for so long.
func ready(state cluster.StageState, ago time.Duration) func(o *cluster.Observation) {
	return of("d", func(h *cluster.HostReport) {
		h.Staged = &cluster.Staged{
			Command: "cmd", State: state, Token: "t9", Version: version("3.6.16"), Since: h.Clock.Add(-ago), PeerURLs: h.URLs.Peer, Cluster: 0xc9,
			Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "B", SHA256: "s", RevisionTarget: 3 * cluster.RevisionMargin},
		}
	})
}

// ofCommand changes the command in the queue.
func ofCommand(change func(c *cluster.Command)) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		o.Commands = slices.Clone(o.Commands)
		change(&o.Commands[0])
	}
}

func unlisted(o *cluster.Observation) { o.Unlisted = "denied" }

// remembers is a founding that one host alone has on record.
func remembers(id cluster.HostID) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		in := o.Intent().Clone()
		in.History = []cluster.PastGeneration{{Generation: 1, Cluster: in.Cluster, Voters: in.VoterSets()}}
		in.Generation, in.Nonce, in.Token, in.Cluster, in.State, in.Voters = 2, "n2", "t2", 0xc2, cluster.IntentFounding, nil
		in.Source, in.Founders = cluster.Source{Kind: cluster.SourceBackup, Backup: "B2"}, slices.Clone(in.Founders[:1])
		in.Founders[0].Member = 0xc2a
		in.Timestamp = o.At.Add(-time.Minute).UnixNano()
		of(id, func(h *cluster.HostReport) { h.Intent = in })(o)
	}
}

// clocks has those of some hosts ahead of the leader's, and those of the others with it.
func clocks(ahead time.Duration, hosts ...cluster.HostID) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		for i := range o.Hosts {
			h := &o.Hosts[i]
			h.Clock = o.At
			if slices.Contains(hosts, h.Host) {
				h.Clock = o.At.Add(ahead)
			}
		}
	}
}

// TestConditionsOfConsent: how long a person's approval counts, and what it takes to act on it.
func TestConditionsOfConsent(t *testing.T) {
	old := func(ago time.Duration) func(o *cluster.Observation) {
		return ofCommand(func(c *cluster.Command) { c.At = c.At.Add(time.Minute - ago) })
	}
	founded := func(ago time.Duration) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			inIntent(func(in *cluster.Intent) { in.Timestamp = o.At.Add(-ago).UnixNano() })(o)
			keepAll(o)
		}
	}
	counts := func(v *step.View) bool { return generation.ConsentOver(v, &v.Obs.Commands[0]) == nil }
	begun := func(v *step.View) bool {
		d := generation.Begin(v, &v.Obs.Commands[0])
		return d.Action != nil && d.Action.Kind == decision.ActHosts && d.Action.Ops[0].Op.Kind == cluster.OpStage
	}
	written := func(v *step.View) *decision.Decision {
		d := generation.Begin(v, &v.Obs.Commands[0])
		if d.Action == nil || d.Action.Intent == nil {
			return nil
		}
		return d
	}
	unconditional := then(wished, func(o *cluster.Observation) {
		o.Store.Conditional = false
		s := *o.Spec
		s.Hosts = []cluster.HostID{"a", "b", "c", "d", "x"}
		o.Spec = &s
	})
	checkConditions(t, []condition{
		{"a word of a minute ago", wished, counts, []otherwise{
			{"it is eleven minutes old", old(11 * time.Minute)},
			{"it is older than the generation", founded(30 * time.Second)},
			{"it is old, and one other clock is behind", allOf(old(11*time.Minute), clocks(-time.Hour, "b"))},
			{"it is old, and all other clocks are ahead", allOf(old(11*time.Minute), clocks(time.Hour, "b", "c", "d"))},
			{"nothing could be done for it for long", func(o *cluster.Observation) {
				o.Memory.Asked = []cluster.Asked{{Command: "cmd", Since: o.At.Add(-11 * time.Minute)}}
			}},
			{"it is old, and what lies ready was made for something else", allOf(old(11*time.Minute), ready(cluster.StageReady, time.Minute), of("d", func(h *cluster.HostReport) { h.Staged.Source.SHA256 = "x" }))},
			{"it is old, and what lies ready was made for another command", allOf(old(11*time.Minute), ready(cluster.StageReady, time.Minute), of("d", func(h *cluster.HostReport) { h.Staged.Command = "x" }))},
			{"it is old, and so is what lies ready", allOf(old(40*time.Minute), ready(cluster.StageReady, 11*time.Minute))},
			{"it is older than the generation, and lies ready", allOf(founded(30*time.Second), ready(cluster.StageReady, time.Second))},
		}, []otherwise{
			{"it is ten minutes old", old(10 * time.Minute)},
			{"who founded the generation has a clock that is ahead", founded(-time.Minute)},
			{"it is a minute old, and the leader's clock is an hour ahead of the others'", allOf(old(time.Hour+time.Minute), founded(2*time.Hour), clocks(-time.Hour, "b", "c", "d"))},
			{"it is old, and is being made ready", allOf(old(40*time.Minute), ready(cluster.StageBuilding, 30*time.Minute))},
			{"it is old, and is being fetched", allOf(old(40*time.Minute), ready(cluster.StageFetching, 30*time.Minute))},
			{"it is old, and lies ready for a minute", allOf(old(40*time.Minute), ready(cluster.StageReady, time.Minute))},
			{"it is old, and could not be made ready a minute ago", allOf(old(40*time.Minute), ready(cluster.StageFailed, time.Minute))},
			{"it is old, and its generation is written down", allOf(old(11*time.Minute), inIntent(func(in *cluster.Intent) { in.CommandID = "cmd" }))},
			{"what is not ours was marked since", func(o *cluster.Observation) {
				o.Store.Intent = &cluster.Intent{State: cluster.IntentFounded, Timestamp: o.At.Add(-30 * time.Second).UnixNano()}
				forgetKept(o)
			}},
		}},
		{"what the daemons ask for themselves does not age", wished, func(v *step.View) bool {
			c := v.Obs.Commands[0]
			c.Name, c.At = "change-1-2", time.Time{}
			return generation.ConsentOver(v, &c) == nil
		}, nil, nil},
		{"an old word ends before anything is made ready for it", then(wished, old(11*time.Minute), func(o *cluster.Observation) {
			o.Memory.Asked = []cluster.Asked{{Command: "cmd", Since: o.At.Add(-generation.ConsentSeen)}}
		}), func(v *step.View) bool {
			d := generation.Begin(v, &v.Obs.Commands[0])
			return d.Action != nil && d.Action.End != nil && d.Action.End.Result == decision.CommandExpired && strings.Contains(d.Reason.String(), "etcdadm restore B")
		}, []otherwise{
			{"this leader has not looked for long", func(o *cluster.Observation) { o.Memory.Asked[0].Since = o.At.Add(time.Second - generation.ConsentSeen) }},
			{"this leader has just begun", func(o *cluster.Observation) { o.Memory.Asked = nil }},
		}, nil},
		{"a command is begun", wished, begun, []otherwise{
			{"the queue cannot be listed", unlisted},
			{"the store cannot write on a condition", func(o *cluster.Observation) { o.Store.Conditional = false }},
			{"it is malformed", ofCommand(func(c *cluster.Command) { c.Malformed = "x" })},
		}, nil},
		{"a store without conditions is enough for hosts that are named", unconditional, begun, []otherwise{
			{"they are not named", func(o *cluster.Observation) { o.Spec.Hosts = nil }},
			{"a majority is not in sight", allOf(away("c", cluster.GapUnreachable), away("d", cluster.GapUnreachable))},
			{"a majority follows another leader", allOf(of("c", func(h *cluster.HostReport) { h.UnderFence = false }), of("d", func(h *cluster.HostReport) { h.UnderFence = false }))},
		}, []otherwise{
			{"one is away and another one given up", allOf(away("d", cluster.GapUnreachable), ofCommand(func(c *cluster.Command) { c.Lost = []cluster.HostID{"x"} }))},
		}},
		{"a command that cannot be read is passed over", then(wished, ofCommand(func(c *cluster.Command) { *c = cluster.Command{Name: c.Name, Unread: "denied"} }), queue(*recoverFrom("a"))), func(v *step.View) bool {
			c := v.NextCommand()
			return c != nil && c.Kind == cluster.CommandRecover
		}, nil, nil},
		{"the write of a generation names its command", then(wished, ready(cluster.StageReady, time.Minute)), func(v *step.View) bool {
			d := written(v)
			return d != nil && d.Action.Intent.Command != nil && d.Action.Intent.Command.SaysAsMuch(v.Obs.Commands[0]) && d.Action.Intent.Spec == nil
		}, []otherwise{
			{"the queue cannot be listed", unlisted},
		}, nil},
		{"that of a change of version names the spec", then(wished, ready(cluster.StageReady, time.Minute)), func(v *step.View) bool {
			c := v.Obs.Commands[0]
			c.Name, c.Kind = "change-1-2", cluster.CommandChange
			d := generation.WriteGeneration(v, &c, inSight(v, "d"))
			return d.Action.Intent.Spec != nil && d.Action.Intent.Spec.Equal(*v.Obs.Spec) && d.Action.Intent.Command == nil
		}, nil, nil},
		{"a generation has what was ended before it", then(wished, ready(cluster.StageReady, time.Minute), inIntent(func(in *cluster.Intent) {
			in.CommandsRun, in.Ended = []string{"r1"}, []cluster.EndedCommand{{Name: "e1"}}
		})), func(v *step.View) bool {
			d := written(v)
			return d != nil && slices.Equal(d.Action.Intent.Replace.CommandsRun, []string{"r1", "cmd"}) && len(d.Action.Intent.Replace.Ended) == 1
		}, nil, nil},
		{"a recovery says how far its survivor came", then(survivors, of("a", func(h *cluster.HostReport) { h.Staged = &cluster.Staged{Token: "t9"} })), func(v *step.View) bool {
			d := generation.WriteGeneration(v, recoverFrom("a", "c"), inSight(v, "a"))
			return d.Action.Intent.Replace.Reached == cluster.Progress{Term: 2, Index: 50}
		}, []otherwise{
			{"its data is another cluster's", of("a", func(h *cluster.HostReport) { h.Local.Cluster = 9 })},
		}, nil},
		{"no recovery was asked for any more", then(formedSight, of("a", stopped(2, 50))), func(v *step.View) bool {
			d := generation.ReviveStopped(v)
			return d != nil && d.Action != nil && d.Action.Ops[0].Host == "a"
		}, []otherwise{
			{"the queue cannot be listed", unlisted},
			{"a command cannot be read", queue(cluster.Command{Name: "n", Unread: "denied"})},
		}, nil},
		{"a recovery beside what serves is rejected", formedSight, func(v *step.View) bool {
			d := generation.MayRecover(v, recoverFrom("a", "c"))
			return d != nil && d.Action != nil && d.Action.End.Result == decision.CommandRejected
		}, nil, nil},
		{"so it is where another generation is being founded", then(formedSight, func(o *cluster.Observation) {
			remembers("d")(o)
			h, _ := o.Host("d")
			in := h.Intent
			inIntent(func(to *cluster.Intent) { *to = *in; to.Source.Kind = cluster.SourceSurvivor })(o)
		}), func(v *step.View) bool {
			d := generation.MayRecover(v, recoverFrom("a", "c"))
			return !v.Seen && d != nil && d.Action != nil && d.Action.End.Result == decision.CommandRejected
		}, []otherwise{
			{"nothing serves", func(o *cluster.Observation) {
				for i := range o.Hosts {
					o.Hosts[i].View = nil
				}
			}},
		}, nil},
	})
}

// TestConditionsOfEnds: an end is in the record, and kept by a host, before it is told.
func TestConditionsOfEnds(t *testing.T) {
	end := func(v *step.View) *decision.Decision {
		return generation.NoteFirst(v, decision.EndCommand("cmd", decision.CommandRejected, "why"))
	}
	told := func(v *step.View) bool { d := end(v); return d.Action != nil && d.Action.Kind == decision.ActCommand }
	note := func(in *cluster.Intent) { in.NoteEnd(cluster.EndedCommand{Name: "cmd", Result: "rejected"}) }
	noted := then(wished, inIntent(note), func(o *cluster.Observation) {
		earlier := o.Store.Intent.Clone()
		earlier.Ended = nil
		for i := range o.Hosts {
			o.Hosts[i].Intent = earlier
		}
	})
	keeps := func(change func(in *cluster.Intent)) func(o *cluster.Observation) {
		return of("b", func(h *cluster.HostReport) { h.Intent = h.Intent.Clone(); change(h.Intent) })
	}
	ran := then(wished, inIntent(func(in *cluster.Intent) { in.CommandID = "later" }), func(o *cluster.Observation) {
		of("b", func(h *cluster.HostReport) {
			h.Intent = o.Store.Intent.Clone()
			h.Intent.CommandsRun = []string{"cmd"}
		})(o)
	})
	ends := func(how decision.CommandResult) func(v *step.View) bool {
		return func(v *step.View) bool {
			d := generation.EndCommands(v)
			return d != nil && d.Action.End.Name == "cmd" && d.Action.End.Result == how
		}
	}
	checkConditions(t, []condition{
		{"an end is noted first", wished, func(v *step.View) bool {
			d := end(v)
			if d.Action == nil || d.Action.Intent == nil {
				return false
			}
			e, ok := d.Action.Intent.Replace.EndOf("cmd")
			return ok && e.Result == "rejected" && e.Reason == "why"
		}, []otherwise{
			{"it is noted", inIntent(note)},
			{"it was run", inIntent(func(in *cluster.Intent) { in.CommandsRun = []string{"cmd"} })},
			{"it takes nothing away", ofCommand(func(c *cluster.Command) { c.Kind = cluster.CommandBackup })},
			{"there is no record of ours", inIntent(func(in *cluster.Intent) { *in = cluster.Intent{State: cluster.IntentFounded} })},
			{"there is no record", func(o *cluster.Observation) { o.Store.Intent, o.Store.Marker = nil, false; forgetKept(o) }},
		}, nil},
		{"it is not told before a host keeps it", noted, func(v *step.View) bool { return end(v).Action == nil }, []otherwise{
			{"one keeps it", keeps(note)},
			{"one keeps that it was run", keeps(func(in *cluster.Intent) { in.CommandsRun = []string{"cmd"} })},
			{"none would be told", func(o *cluster.Observation) {
				for i := range o.Hosts {
					o.Hosts[i].UnderFence = false
				}
			}},
			{"none follows this generation", forgetKept},
		}, []otherwise{
			{"one that follows another leader keeps it", allOf(keeps(note), of("b", func(h *cluster.HostReport) { h.UnderFence = false }))},
			{"one keeps it in another generation", keeps(func(in *cluster.Intent) { note(in); in.Generation = 0 })},
		}},
		{"it is told then", then(noted, keeps(note)), told, nil, nil},
		{"what a record says has ended is not run", wished, func(v *step.View) bool { return generation.EndCommands(v) == nil }, []otherwise{
			{"the store's does", inIntent(note)},
			{"a host's does", keeps(note)},
		}, nil},
		{"what ended as expired ends so again", then(wished, inIntent(func(in *cluster.Intent) { in.NoteEnd(cluster.EndedCommand{Name: "cmd", Result: "expired"}) })), ends(decision.CommandExpired), nil, nil},
		{"what was run in a generation that the store has lost is not run again", ran, func(v *step.View) bool { return v.NextCommand() == nil }, []otherwise{
			{"no host knows of it", forgetKept},
		}, nil},
		{"and is told to have failed", ran, ends(decision.CommandFailed), []otherwise{
			{"the store knows of it", inIntent(func(in *cluster.Intent) { in.CommandsRun = []string{"cmd"} })},
		}, nil},
	})
}

// TestConditionsOfMemories: what becomes of a generation that hosts remember, and that is
// not followed.
func TestConditionsOfMemories(t *testing.T) {
	remembered := then(wished, ready(cluster.StageReady, time.Minute), remembers("c"))
	aside := func(v *step.View) string {
		generation.Remembered(v)
		if len(v.Notices) != 1 {
			return ""
		}
		return v.Notices[0].Code
	}
	forget := of("c", func(h *cluster.HostReport) { h.Intent = nil })
	founding := func(kind string, ago time.Duration) func(t *testing.T) *cluster.Observation {
		return then(remembered, func(o *cluster.Observation) {
			h, _ := o.Host("c")
			in := h.Intent.Clone()
			in.Source.Kind, in.Timestamp = kind, o.At.Add(-ago).UnixNano()
			o.Store.Intent = in
			h.Intent = nil
		})
	}
	inDoubt := func(v *step.View) bool {
		d := generation.FinishGeneration(v)
		return d.Action == nil && len(d.Blockers) > 0 && d.Blockers[0].Code == "generation-in-doubt" && d.Stuck
	}
	silent := func(o *cluster.Observation) {
		for i := range o.Hosts {
			o.Hosts[i].View = nil
		}
	}
	makesWay := func(o *cluster.Observation) {
		for _, id := range []cluster.HostID{"a", "b"} {
			of(id, func(h *cluster.HostReport) { h.LowestGeneration = 2 })(o)
		}
	}
	checkConditions(t, []condition{
		{"the next generation is above one that a host remembers", remembered, func(v *step.View) bool { return v.Intent.Generation == 1 && v.NextGeneration() == 3 }, []otherwise{
			{"none does", forget},
		}, nil},
		{"and has it in its history, so that its founder is asked", remembered, func(v *step.View) bool {
			d := generation.Begin(v, &v.Obs.Commands[0])
			if d.Action == nil || d.Action.Intent == nil {
				return false
			}
			past := d.Action.Intent.Replace.History
			if len(past) < 2 {
				return false
			}
			last := past[len(past)-2] // before what it takes the place of
			return last.Generation == 2 && !last.Closed && len(last.Voters) == 1 && len(last.Voters[0]) == 1 && last.Voters[0][0].Host == "a" && last.Cluster == 0xc2 && past[len(past)-1].Generation == 1
		}, []otherwise{
			{"none is remembered", forget},
		}, nil},
		{"a person is told of it", remembered, func(v *step.View) bool { return aside(v) == "generation-in-doubt" }, []otherwise{
			{"none is remembered", forget},
			{"the store does not answer", storeSilent},
		}, nil},
		{"or that the store may know", then(remembered, storeSilent), func(v *step.View) bool { return aside(v) == "store-silent" }, nil, nil},
		{"each look tells of it", remembered, func(v *step.View) bool {
			d := Next(decision.Goal{Kind: decision.Converge}, v.Obs)
			return slices.ContainsFunc(d.Blockers, func(b decision.Blocker) bool { return b.Code == "generation-in-doubt" })
		}, []otherwise{
			{"none is remembered", forget},
		}, nil},
		{"a founding that is too old is not begun", founding(cluster.SourceBackup, 11*time.Minute), inDoubt, []otherwise{
			{"it is ten minutes old", inIntent(func(in *cluster.Intent) { in.Timestamp += int64(time.Minute) })},
			{"what was before can serve no more", allOf(makesWay, silent)},
		}, []otherwise{
			{"nothing serves at the moment", silent},
		}},
		{"a recovery of what serves is not begun at any time", founding(cluster.SourceSurvivor, time.Second), inDoubt, nil, nil},
		{"nor is a recovery of what serves", founding(cluster.SourceSurvivor, time.Minute), inDoubt, []otherwise{
			{"nothing serves", silent},
			{"it is a restore", inIntent(func(in *cluster.Intent) { in.Source.Kind = cluster.SourceBackup })},
		}, []otherwise{
			{"it is as old as it may be", inIntent(func(in *cluster.Intent) { in.Timestamp -= int64(time.Hour) })},
		}},
	})
}

// TestConditionsOfHostsThatReturn: nobody gives up a host that answers, and nothing is
// founded past one that came back with more.
func TestConditionsOfHostsThatReturn(t *testing.T) {
	lost := then(formedSight, func(o *cluster.Observation) {
		inIntent(func(in *cluster.Intent) {
			in.History = []cluster.PastGeneration{{Generation: 1, Cluster: in.Cluster, Voters: in.VoterSets()}}
			in.Generation, in.Nonce, in.Token, in.State = 2, "n2", "t2", cluster.IntentFounding
			in.Timestamp, in.Lost = o.At.UnixNano(), []cluster.HostID{"b"}
		})(o)
		o.Memory.Founding = cluster.Founding{}
	}, away("b", cluster.GapUnreachable))
	givenUp := func(v *step.View) bool {
		w := v.Intent.History[0].Voters[0][1]
		h, _ := v.Obs.Host("b")
		return w.Host == "b" && generation.GivenUp(v, w, h)
	}
	late := func(o *cluster.Observation) { o.At = o.At.Add(sight.FoundingStalled) }
	refuses := ofGap("b", func(g *cluster.Gap) { g.Kind, g.Heard = cluster.GapRefused, true })
	heard := ofGap("b", func(g *cluster.Gap) { g.Heard = true })
	recovering := then(formedSight, func(o *cluster.Observation) {
		inIntent(func(in *cluster.Intent) {
			in.History = []cluster.PastGeneration{{Generation: 1, Cluster: in.Cluster, Voters: in.VoterSets(), Closed: true}}
			in.Generation, in.Nonce, in.Token, in.Cluster, in.State, in.Voters = 2, "n2", "t2", 0xc2, cluster.IntentFounding, nil
			in.Source, in.Founders, in.Lost = cluster.Source{Kind: cluster.SourceSurvivor}, slices.Clone(in.Founders[:1]), []cluster.HostID{"b", "c"}
			in.Founders[0].Member, in.Reached = 0xc2a, cluster.Progress{Term: 2, Index: 50}
			in.Timestamp = o.At.UnixNano()
		})(o)
		o.Memory.Founding = cluster.Founding{Generation: 2, Seen: o.At}
		for i := range o.Hosts {
			stopped(2, 50)(&o.Hosts[i])
			o.Hosts[i].LowestGeneration = 2
		}
		of("a", func(h *cluster.HostReport) {
			h.Local, h.Process = cluster.LocalMember{}, cluster.Process{}
			h.Staged = &cluster.Staged{Token: "t2", State: cluster.StageReady, Source: o.Store.Intent.Source, Member: 0xc2a, Cluster: 0xc2}
		})(o)
	})
	silentFor := func(d time.Duration) func(o *cluster.Observation) {
		return allOf(away("b", cluster.GapUnreachable), func(o *cluster.Observation) {
			o.Memory.Hosts = slices.Clone(o.Memory.Hosts)
			i := slices.IndexFunc(o.Memory.Hosts, func(m cluster.HostMemory) bool { return m.Host == "b" })
			o.Memory.Hosts[i].GapSince = o.At.Add(-d)
		})
	}
	neverHeard := func(asked time.Duration) func(o *cluster.Observation) {
		return allOf(away("b", cluster.GapUnreachable), func(o *cluster.Observation) {
			o.Memory.Hosts = slices.DeleteFunc(slices.Clone(o.Memory.Hosts), func(m cluster.HostMemory) bool { return m.Host == "b" })
			for i := range o.Memory.Hosts {
				o.Memory.Hosts[i].FenceSince = o.At.Add(-asked)
			}
		})
	}
	further := of("b", func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 2, Index: 51} })
	starts := func(v *step.View) bool {
		d := generation.FinishGeneration(v)
		return d.Action != nil && d.Action.Kind == decision.ActHosts && d.Action.Ops[0].Op.Kind == cluster.OpStart
	}
	stops := func(v *step.View) bool {
		d := generation.FinishGeneration(v)
		return d.Action == nil && d.Blockers[0].Code == "recovering" && d.Blockers[0].Command == "etcdadm recover --from b" && generation.Stuck(v, d)
	}
	checkConditions(t, []condition{
		{"one that was named as lost and is gone is given up", lost, givenUp, []otherwise{
			{"it follows another leader", refuses},
			{"it is heard", heard},
			{"it talks with others", ofGap("b", func(g *cluster.Gap) { g.Incompatible = true })},
			{"nobody named it", inIntent(func(in *cluster.Intent) { in.Lost = nil })},
			{"it follows another leader, and the founding has had its time", allOf(refuses, late)},
		}, []otherwise{
			{"it is heard, and the founding has had its time", allOf(heard, late)},
		}},
		{"a host that is named as lost and follows another leader is waited for", then(survivors, ofGap("c", func(g *cluster.Gap) { g.Kind = cluster.GapRefused })), func(v *step.View) bool {
			d := generation.LostAndThere(v, recoverFrom("a", "c"))
			return d != nil && strings.Contains(d.Reason.String(), "c (it follows another leader)")
		}, []otherwise{
			{"it is gone", ofGap("c", func(g *cluster.Gap) { g.Kind = cluster.GapUnreachable })},
		}, nil},
		{"nobody named it, and it is not asked about", then(survivors, ofGap("c", func(g *cluster.Gap) { g.Kind = cluster.GapRefused })), func(v *step.View) bool {
			return generation.LostAndThere(v, recoverFrom("a")) == nil
		}, nil, nil},
		{"a recovery is begun from the furthest", recovering, starts, []otherwise{
			{"another one came back with more", further},
			{"another one came back with a later term", of("b", func(h *cluster.HostReport) { h.Log = &cluster.Progress{Term: 3, Index: 1} })},
			{"the log of one that came back was not read", of("b", func(h *cluster.HostReport) { h.Log = nil })},
			{"that of one that came back is read for long", allOf(of("b", func(h *cluster.HostReport) { h.Log, h.Reading = nil, &cluster.LogReading{} }), late, func(o *cluster.Observation) {
				o.Memory.Founding.Seen = o.At.Add(-sight.FoundingStalled)
			})},
			{"one is not in this look, and was in the one before", silentFor(0)},
			{"nobody knows since when one is silent", away("b", cluster.GapUnreachable)},
			{"one has been silent for too short a time", silentFor(sight.FoundingStalled - time.Second)},
			{"one carries out an op for long", allOf(silentFor(sight.FoundingStalled), atWork("b", cluster.OpBackup))},
			{"a leader that began just now has not heard one", neverHeard(sight.FoundingStalled - time.Second)},
			{"a leader has not heard one under this fence", allOf(neverHeard(sight.FoundingStalled), func(o *cluster.Observation) {
				for i := range o.Memory.Hosts {
					o.Memory.Hosts[i].Fence.Number--
				}
			})},
			{"that of a leader that began just now was not", allOf(of("b", func(h *cluster.HostReport) { h.Log = nil }), late, func(o *cluster.Observation) { o.Memory.Founding.Seen = o.At })},
		}, []otherwise{
			{"it cannot be read for long", allOf(of("b", func(h *cluster.HostReport) { h.Log = nil }), late, func(o *cluster.Observation) {
				o.Memory.Founding.Seen = o.At.Add(-sight.FoundingStalled)
			})},
			{"one has been silent for as long as a founding has", silentFor(sight.FoundingStalled)},
			{"one was never heard, and was asked for as long", neverHeard(sight.FoundingStalled)},
			{"one that is not in this look is of an earlier generation", allOf(silentFor(0), inIntent(func(in *cluster.Intent) {
				g := in.History[0]
				g.Voters = [][]cluster.Voter{slices.DeleteFunc(slices.Clone(g.Voters[0]), func(w cluster.Voter) bool { return w.Host == "b" })}
				in.History = []cluster.PastGeneration{{Generation: 1, Cluster: 0xc0, Voters: in.History[0].Voters, Closed: true}, g}
			}))},
			{"nobody knows how far the survivor came", allOf(further, inIntent(func(in *cluster.Intent) { in.Reached = cluster.Progress{} }))},
			{"it is no recovery", allOf(further, inIntent(func(in *cluster.Intent) { in.Source.Kind = cluster.SourceBackup }), of("a", func(h *cluster.HostReport) { h.Staged.Source.Kind = cluster.SourceBackup }))},
			{"more is of another cluster", allOf(further, of("b", func(h *cluster.HostReport) { h.Local.Cluster = 9 }))},
			{"more is of a removed member", allOf(further, of("b", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved }))},
			{"more is gone", allOf(further, of("b", func(h *cluster.HostReport) { h.Local.HasData = false }))},
		}},
		{"a person is told from where to recover instead", then(recovering, further), stops, nil, nil},
	})
}
