package plan

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/roll"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/upkeep"
	"etcdadm.io/plan/internal/words"
)

// TestConditionsOfCommands: which commands are ended because nothing could come of
// them, and what a person is told to type.
func TestConditionsOfCommands(t *testing.T) {
	restore := func(wrote, to string) *cluster.Command {
		c := &cluster.Command{Name: "cmd", Kind: cluster.CommandRestore, Backup: "B", Found: &cluster.Backup{Name: "B"}}
		if wrote != "" {
			c.Found.Version = version(wrote)
		}
		if to != "" {
			c.Version = version(to)
		}
		return c
	}
	ends := func(c *cluster.Command) func(v *step.View) bool {
		return func(v *step.View) bool { return generation.Never(v, c) != nil }
	}
	gone := then(formedSight, away("c", cluster.GapUnreachable), func(o *cluster.Observation) { o.Gaps = nil })
	lostQuorum := then(formedSight, away("b", cluster.GapUnreachable), away("c", cluster.GapUnreachable), of("a", unhealthy))
	lostQuorum = then(lostQuorum, func(o *cluster.Observation) { o.Memory.QuorumlessSince = o.At.Add(-cluster.DefaultDeadAfter) })
	// Nobody is filled in as lost: who is cut off sees the others just as it would see them lost.
	offers := func(way func(*step.View) (string, words.Text)) func(*step.View) bool {
		return func(v *step.View) bool {
			command, says := way(v)
			return command == "etcdadm recover --from a" && says.Facts()["survivor"] == "a" && strings.Contains(says.String(), "missing: b (unreachable") && strings.Contains(says.String(), "--lost HOST")
		}
	}
	early := func(o *cluster.Observation) { o.Memory.QuorumlessSince = o.At.Add(-time.Second) }
	names := func(v *step.View) bool {
		command, _ := generation.WithLost(v, recoverFrom("a"), []cluster.HostID{"b", "c"})
		return command == "etcdadm recover --from a --lost b --lost c"
	}
	also := func(index uint64) func(*cluster.HostReport) {
		return func(h *cluster.HostReport) {
			h.SetAside = []cluster.SetAside{{Dir: "/other", Reason: cluster.AsideSuperseded, Cluster: 0xdead, Generation: 1, Version: version("3.6.16"), Log: cluster.Progress{Term: 2, Index: index}}}
		}
	}
	aside := then(formedSight, of("a", also(5)), of("a", func(h *cluster.HostReport) { h.SetAside[0].Dir = "/was" }))
	back := func(want string) func(*step.View) bool {
		return func(v *step.View) bool {
			h := inSight(v, "a")
			undo, _ := upkeep.WayBack(v, h, h.SetAside[0])
			return undo == want
		}
	}
	only := func(v *step.View) bool {
		h := inSight(v, "a")
		_, only := upkeep.WayBack(v, h, h.SetAside[0])
		return only
	}
	asked := recoverFrom("a", "b", "c")
	unrejected := then(lostQuorum, func(o *cluster.Observation) {
		o.Commands = []cluster.Command{*asked}
		o.Memory.Asked = []cluster.Asked{{Command: "cmd", Since: o.At.Add(-generation.OpposedWithin)}}
	})
	held := then(formedSight, inIntent(func(in *cluster.Intent) {
		in.Generation, in.Nonce, in.Token, in.Cluster = 3, "n3", "t3", 0xc3
		in.History = []cluster.PastGeneration{{Generation: 1, Cluster: 0xc1}, {Generation: 2, Cluster: 0xc2}}
	}), func(o *cluster.Observation) {
		for i := range o.Hosts {
			o.Hosts[i].Status, o.Hosts[i].View, o.Hosts[i].Process = nil, nil, cluster.Process{}
			o.Hosts[i].Highest = cluster.Progress{Term: 2, Index: 5}
		}
	}, of("b", func(h *cluster.HostReport) { h.Local.Generation, h.Highest.Index = 2, 4 }))
	furthest := func(id cluster.HostID) func(v *step.View) bool {
		return func(v *step.View) bool { h := generation.FurthestData(v); return h != nil && h.Host == id }
	}
	undo := &cluster.Command{Name: "cmd", Kind: cluster.CommandUndo, Host: "d", Dir: "was"}
	from := cluster.SetAside{Dir: "/was", Cluster: 0xdead, Log: cluster.Progress{Term: 2, Index: 5}}
	data := func(h *cluster.HostReport) {
		h.Local.Cluster, h.Local.Generation, h.Highest = 0xdead, 0, cluster.Progress{Term: 2, Index: 6}
	}
	checkConditions(t, []condition{
		{"a backup that the release does not read", formedSight, ends(restore("3.4.25", "3.6.16")), nil, nil},
		{"a backup of a release that nobody knows", formedSight, ends(restore("3.9.9", "")), []otherwise{
			{"a host has one of its line", of("d", func(h *cluster.HostReport) { h.Releases = append(h.Releases, version("3.9.1")) })},
		}, nil},
		{"a backup of a release that no host has yet waits", formedSight, func(v *step.View) bool { return !ends(restore("3.7.3", ""))(v) && !ends(restore("", ""))(v) }, nil, nil},
		{"a backup that it reads is restored", formedSight, func(v *step.View) bool { return !ends(restore("3.5.35", "3.6.16"))(v) }, nil, nil},
		{"a recovery from a host of which nobody knows", formedSight, ends(recoverFrom("x")), []otherwise{
			{"it is in sight", func(o *cluster.Observation) {
				d, _ := o.Host("d")
				x := *d
				x.Host, x.Disk = "x", "disk-x"
				o.Hosts = append(o.Hosts, x)
			}},
			{"it does not answer", func(o *cluster.Observation) {
				o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapUnreachable, Host: "x"})
			}},
			{"it is to found", inIntent(func(in *cluster.Intent) { in.Founders = append(in.Founders, cluster.Founder{Host: "x"}) })},
			{"it votes", inIntent(func(in *cluster.Intent) { in.Voters = append(in.Voters, cluster.Voter{Host: "x"}) })},
			{"it voted", inIntent(func(in *cluster.Intent) {
				in.History = []cluster.PastGeneration{{Voters: [][]cluster.Voter{{{Host: "x"}}}}}
			})},
		}, nil},
		{"a recovery from a founder that is out of sight waits", gone, func(v *step.View) bool { return generation.Never(v, recoverFrom("c")) == nil }, nil, nil},
		{"only what is missed for good is named as lost", formedSight, func(v *step.View) bool {
			command, _ := generation.WithLost(v, recoverFrom("a"), nil)
			return command == ""
		}, nil, nil},
		{"what is missed is named to who asks for a recovery", lostQuorum, names, []otherwise{
			{"the loss has not lasted", early},
		}, nil},
		{"what is missed is named to who asks for a restore", then(lostQuorum, early), func(v *step.View) bool {
			command, _ := generation.WithLost(v, &cluster.Command{Kind: cluster.CommandRestore, Backup: "B"}, []cluster.HostID{"b"})
			return command == "etcdadm restore B --lost b"
		}, nil, nil},
		{"a member is stopped for a recovery that nobody rejected", unrejected, func(v *step.View) bool {
			return generation.Unopposed(v, asked) == nil
		}, []otherwise{
			{"it has just been asked for", func(o *cluster.Observation) {
				o.Memory.Asked = []cluster.Asked{{Command: "cmd", Since: o.At.Add(time.Second - generation.OpposedWithin)}}
			}},
			{"since when it is asked for is not known", func(o *cluster.Observation) { o.Memory.Asked = nil }},
			{"a later leader wrote the record", inIntent(func(in *cluster.Intent) { in.By = cluster.Fence{Number: 1 << 40, Host: "b"} })},
		}, []otherwise{
			{"what wrote the record is no leader", inIntent(func(in *cluster.Intent) { in.By = cluster.Fence{Number: cluster.MaxFence + 1, Host: "b"} })},
			{"the daemons ask for it themselves", func(o *cluster.Observation) { o.Commands, o.Memory.Asked = nil, nil }},
		}},
		{"a recovery is told of", lostQuorum, offers(generation.RecoverCommand), []otherwise{
			{"the loss has not lasted", func(o *cluster.Observation) {
				o.Memory.QuorumlessSince = o.At.Add(time.Second - cluster.DefaultDeadAfter)
			}},
			{"a person gives hosts more time", func(o *cluster.Observation) {
				s := *o.Spec
				s.DeadAfter = time.Hour
				o.Spec = &s
			}},
			{"since when is not known", func(o *cluster.Observation) { o.Memory.QuorumlessSince = time.Time{} }},
			{"the cluster is being founded", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
		}, nil},
		{"a recovery from what is on record is told of", lostQuorum, offers(generation.RecordedSurvivor), []otherwise{
			{"the cluster is being founded", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
			{"its host has another disk", of("a", func(h *cluster.HostReport) { h.Disk = "x" })},
		}, nil},
		{"no logs are missed where nothing was ever written down", then(formedSight, func(o *cluster.Observation) {
			o.Store.Intent, o.Store.Marker = nil, false
			forgetKept(o)
		}), func(v *step.View) bool {
			missing, working := generation.Logless(v, recoverFrom("a"), inSight(v, "a"))
			return v.Intent == nil && len(missing)+len(working) == 0
		}, nil, nil},
		{"data of the generation before is another source", held, furthest("b"), []otherwise{
			{"it is gone", of("b", func(h *cluster.HostReport) { h.Local.HasData = false })},
			{"it was removed", of("b", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
			{"it is of the generation that is made", of("b", func(h *cluster.HostReport) { h.Local.Generation = 3 })},
			{"there is further data of it", of("c", func(h *cluster.HostReport) { h.Local.Generation = 2 })},
		}, []otherwise{
			{"there is less data of it", of("c", func(h *cluster.HostReport) { h.Local.Generation, h.Highest.Index = 2, 3 })},
		}},
		{"what was set aside is a way back", aside, back("etcdadm restore --undo --from a --dir was"), []otherwise{
			{"its host has not promised this leader's fence", of("a", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its host has no release for it", of("a", func(h *cluster.HostReport) { h.Releases = nil })},
			{"it is of nobody knows what", of("a", func(h *cluster.HostReport) { h.SetAside[0].Cluster = 0 })},
			{"its host does not know of it", of("a", func(h *cluster.HostReport) { h.SetAside[0].Foreign = true })},
			{"another host's goes further", of("b", also(6))},
		}, []otherwise{
			{"another host's goes as far", of("b", also(5))},
		}},
		{"what was set aside is the only way back", aside, only, []otherwise{
			{"a quorum removed its member", of("a", func(h *cluster.HostReport) { h.SetAside[0].Reason = cluster.AsideRemoved })},
			{"its cluster serves", inIntent(func(in *cluster.Intent) { in.Cluster = 0xdead })},
			{"another host's goes as far", of("b", also(5))},
		}, []otherwise{
			{"another host's goes less far", of("b", also(4))},
			{"another host does not know of what goes as far", of("b", func(h *cluster.HostReport) { also(5)(h); h.SetAside[0].Foreign = true })},
			{"how far it goes is not known", of("a", func(h *cluster.HostReport) { h.SetAside[0].Log = cluster.Progress{} })},
			{"it is of nobody knows what", of("a", func(h *cluster.HostReport) { h.SetAside[0].Cluster = 0 })},
		}},
		{"nothing goes beyond what is undone to", formedSight, func(v *step.View) bool { return generation.UndoOlder(v, undo, cluster.Seen{}, from) == nil }, []otherwise{
			{"a host is about to set more aside", of("c", data)},
			{"a host has set more aside", of("c", func(h *cluster.HostReport) {
				h.SetAside = []cluster.SetAside{{Dir: "/x", Cluster: 0xdead, Log: cluster.Progress{Term: 2, Index: 6}}}
			})},
		}, []otherwise{
			{"that is of another cluster", of("c", func(h *cluster.HostReport) { data(h); h.Local.Cluster = 9 })},
			{"that is of this generation", of("c", func(h *cluster.HostReport) { data(h); h.Local.Generation = 1 })},
			{"that is gone", of("c", func(h *cluster.HostReport) { data(h); h.Local.HasData = false })},
			{"that is just as much", of("c", func(h *cluster.HostReport) { data(h); h.Highest = from.Log })},
		}},
	})
}

// TestConditionsOfTools: with which release data is read, and with which it is run.
func TestConditionsOfTools(t *testing.T) {
	releases := func(all ...string) func(o *cluster.Observation) {
		return of("d", func(h *cluster.HostReport) {
			h.Releases = nil
			for _, r := range all {
				h.Releases = append(h.Releases, version(r))
			}
		})
	}
	tool := func(want string) func(v *step.View) bool {
		return func(v *step.View) bool {
			return generation.RestoringTool(inSight(v, "d"), version("3.5.33"), version("3.6.16")) == version(want)
		}
	}
	keys := &cluster.Command{Name: "cmd", Kind: cluster.CommandRestore, Version: version("3.6.16")}
	checkConditions(t, []condition{
		{"the one that wrote it", then(formedSight, releases("3.4.25", "3.5.33", "3.5.35", "3.6.16")), tool("3.5.33"), nil, nil},
		{"the newest of its line", then(formedSight, releases("3.4.25", "3.5.31", "3.5.35", "3.5.32", "3.6.16")), tool("3.5.35"), nil, nil},
		{"the one that is to run it", then(formedSight, releases("3.4.25", "3.6.16")), tool("3.6.16"), nil, nil},
		{"keys of version 2 are read by the one that wrote them", then(formedSight, releases("2.3.8", "3.6.16")), func(v *step.View) bool {
			_, why := generation.GenerationVersion(v, keys, version("2.3.7"), inSight(v, "d"))
			return why == ""
		}, []otherwise{
			{"there is none of its line", releases("3.6.16")},
			{"there is none that is to run them", releases("2.3.8")},
		}, nil},
	})
}

// The backup before a restore is waited for for a while, and it is said where the restore
// goes on without.
func TestBackupBeforeARestoreIsSaidToBeLeft(t *testing.T) {
	running := func(ago time.Duration) func(o *cluster.Observation) {
		return of("b", func(h *cluster.HostReport) {
			h.Taken = &cluster.Taken{Running: true, Command: "c", Began: h.Clock.Add(-ago)}
		})
	}
	for ago, want := range map[time.Duration]struct{ waits, says string }{
		sight.BackupTry - time.Minute: {"for up to 2m0s", ""},
		sight.BackupTry + time.Minute: {"", "took more than 2m0s; the command goes on without it"},
	} {
		v := step.Look(decision.Goal{Kind: decision.Converge}, then(formedSight, running(ago))(t))
		d := generation.BackupBefore(v, &cluster.Command{Name: "c", Kind: cluster.CommandRestore})
		if (d != nil) != (want.waits != "") || d != nil && !strings.Contains(d.Reason.String(), want.waits) {
			t.Errorf("begun %s ago: %+v", ago, d)
		}
		if len(v.Notices) == 0 != (want.says == "") || want.says != "" && !strings.Contains(v.Notices[0].Sentence.String(), want.says) {
			t.Errorf("begun %s ago: said %+v", ago, v.Notices)
		}
	}
}

// Whatever tells of a backup that failed tells what to do about it.
func TestAFailedBackupIsToldWithItsHint(t *testing.T) {
	failed := func(command string) func(o *cluster.Observation) {
		return of("b", func(h *cluster.HostReport) {
			h.Taken = &cluster.Taken{Command: command, Error: "put: denied", Hint: "allow s3:PutObject", Began: h.Clock, Ended: h.Clock}
		})
	}
	wants := then(formedSight, func(o *cluster.Observation) {
		o.Backups = cluster.BackupsView{Interval: time.Hour, At: o.At}
	})
	blocker := func(v *step.View) string {
		if len(v.Notices) != 1 || v.Notices[0].Code != "backup-failed" {
			t.Fatalf("%+v", v.Notices)
		}
		return v.Notices[0].Advice
	}
	unlisted := step.Look(decision.Goal{Kind: decision.Converge}, then(wants, func(o *cluster.Observation) {
		o.Backups.At, o.Backups.Unlisted = time.Time{}, "403 SignatureDoesNotMatch"
	})(t))
	if d := upkeep.BackUp(unlisted); d != nil || len(unlisted.Notices) != 1 || unlisted.Notices[0].Code != "backup-failed" || !strings.Contains(unlisted.Notices[0].Sentence.String(), "403 SignatureDoesNotMatch") {
		t.Errorf("a store that lists nothing: %+v, %+v", d, unlisted.Notices)
	}
	periodic := step.Look(decision.Goal{Kind: decision.Converge}, then(wants, failed(""))(t))
	_ = upkeep.BackUp(periodic)
	before := step.Look(decision.Goal{Kind: decision.Converge}, then(wants, failed("c"))(t))
	_ = generation.BackupBefore(before, &cluster.Command{Name: "c", Kind: cluster.CommandRestore})
	first := step.BackupFirst(step.Look(decision.Goal{Kind: decision.Converge}, then(wants, failed(""))(t)), true, words.F("x"))
	for what, said := range map[string]string{"a periodic one": blocker(periodic), "one before a restore": blocker(before), "one before a change": first.Reason.String()} {
		if !strings.Contains(said, "allow s3:PutObject") {
			t.Errorf("%s: %q", what, said)
		}
	}
}

// TestConditionsOfWaits: what is looked at again soon, and which backup is enough.
func TestConditionsOfWaits(t *testing.T) {
	failed := func(ago time.Duration) func(o *cluster.Observation) {
		return of("b", func(h *cluster.HostReport) {
			h.Taken = &cluster.Taken{Error: "x", Began: h.Clock.Add(-ago), Ended: h.Clock.Add(-ago)}
		})
	}
	bare := then(formedSight, func(o *cluster.Observation) {
		o.Backups = cluster.BackupsView{Interval: time.Hour, At: o.At}
	})
	pending := then(formedSight, inIntent(func(in *cluster.Intent) {
		for i := range cluster.MostPending {
			in.Pending = append(in.Pending, cluster.VoterChange{Voter: cluster.Voter{Member: cluster.MemberID(90 + i)}})
		}
	}), storeSilent)
	noStore := func(v *step.View) *decision.Decision {
		v.Goal.NoStore = true
		in := v.Obs.Intent()
		return step.ChangeUnstored(v, in.Voters[:2], cluster.Projection{}, cluster.Op{Kind: cluster.OpRemove}, 0, "x", words.F("x"))
	}
	few := then(pending, func(o *cluster.Observation) {
		for i := range o.Hosts {
			if in := o.Hosts[i].Intent; in != nil {
				in = in.Clone()
				in.Pending = in.Pending[:0]
				o.Hosts[i].Intent = in
			}
		}
		in := o.Store.Intent.Clone()
		in.Pending = nil
		o.Store.Intent = in
	})
	oldest := then(formedSight, func(o *cluster.Observation) {
		for i, r := range []string{"3.5.35", "3.5.35", "3.6.16"} {
			h := &o.Hosts[i]
			h.Local.Version, h.Status.Version = version(r), version(r)
		}
	})
	checkConditions(t, []condition{
		{"a backup is tried again", then(bare, failed(step.BackupRetry)), func(v *step.View) bool {
			_, d := generation.BackupOf(v, v.Roster.Running(), words.F("x"))
			return d != nil && d.Action != nil
		}, []otherwise{
			{"it failed just now", failed(step.BackupRetry - time.Second)},
			{"one is being taken", of("b", func(h *cluster.HostReport) { h.Taken = &cluster.Taken{Running: true, Began: h.Clock} })},
		}, nil},
		{"a change without the store", few, func(v *step.View) bool { d := noStore(v); return d.Action != nil }, nil, nil},
		{"too many changes were not seen to end", pending, func(v *step.View) bool { d := noStore(v); return d.Action == nil && d.Blockers[0].Code == "settling" }, nil, nil},
		{"a downgrade is cancelled through a member that can", oldest, func(v *step.View) bool {
			d := roll.CancelDowngrade(v, "x")
			return d.Action != nil && d.Action.Ops[0].Host == "c"
		}, []otherwise{
			{"nobody is up", func(o *cluster.Observation) {
				for _, id := range []cluster.HostID{"a", "b", "c"} {
					of(id, unhealthy)(o)
				}
			}},
		}, nil},
		{"what goes on beside is looked at soon", formedSight, func(v *step.View) bool {
			again := func(d time.Duration) time.Duration {
				v.Meanwhile = &decision.Decision{Again: decision.Later}
				return generation.WhileWaiting(v, &decision.Decision{Again: d}).Again
			}
			return again(0) == decision.Later && again(time.Minute) == decision.Later && again(decision.Soon) == decision.Soon
		}, nil, nil},
	})
}
