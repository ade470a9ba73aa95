package plan

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/roll"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/upkeep"
	"etcdadm.io/plan/internal/words"
)

// TestConditionsOfHashes: which hashes of the voters' keys are asked for, and which
// count.
func TestConditionsOfHashes(t *testing.T) {
	hashed := then(formedSight, func(o *cluster.Observation) {
		for i := range o.Hosts {
			h := &o.Hosts[i]
			h.Hash = &cluster.Hash{Member: h.Local.Member, Cluster: h.Local.Cluster, Asked: 3, Hash: 1, Ended: h.Clock}
		}
	})
	on := func(id cluster.HostID, change func(x *cluster.Hash)) func(o *cluster.Observation) {
		return of(id, func(h *cluster.HostReport) { change(h.Hash) })
	}
	asks := func(v *step.View) bool { return upkeep.AskHash(v, words.F("x")) != nil }
	checkConditions(t, []condition{
		{"a hash counts", hashed, func(v *step.View) bool { return upkeep.FreshHash(v, seatOf(v, "b")) != nil }, []otherwise{
			{"it is being made", on("b", func(x *cluster.Hash) { x.Running = true })},
			{"it is of another member", on("b", func(x *cluster.Hash) { x.Member++ })},
			{"it was counted", func(o *cluster.Observation) {
				b, _ := o.Host("b")
				ofMember("b", func(m *cluster.MemberMemory) { m.Hashed = b.Hash.Ended })(o)
			}},
			{"it is old", on("b", func(x *cluster.Hash) { x.Ended = x.Ended.Add(-time.Second - upkeep.HashLasts) })},
		}, []otherwise{
			{"it is nearly too old", on("b", func(x *cluster.Hash) { x.Ended = x.Ended.Add(-upkeep.HashLasts) })},
		}},
		{"a hash is asked for", formedSight, asks, []otherwise{
			{"a voter is out of sight", away("b", cluster.GapUnreachable)},
			{"a voter's host has not promised", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"a voter does not answer", of("b", func(h *cluster.HostReport) { h.Status = nil })},
			{"a voter is not healthy", of("b", unhealthy)},
			{"one is being made", of("b", func(h *cluster.HostReport) { h.Hash = &cluster.Hash{Running: true} })},
			{"two lines run", of("b", func(h *cluster.HostReport) { h.Local.Version, h.Status.Version = version("3.5.35"), version("3.5.35") })},
			{"the release has no hash of keys", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if h := &o.Hosts[i]; h.Status != nil {
						h.Local.Version, h.Status.Version = version("3.2.24"), version("3.2.24")
					}
				}
			}},
			{"one failed just now", of("b", func(h *cluster.HostReport) {
				h.Hash = &cluster.Hash{Member: h.Local.Member, Cluster: h.Local.Cluster, Asked: 3, Error: "x", Ended: h.Clock.Add(time.Second - upkeep.HashRetry)}
			})},
			{"no revision is known", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if st := o.Hosts[i].Status; st != nil {
						st.Revision = 0
					}
				}
			}},
		}, []otherwise{
			{"a host without a voter has not promised", of("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"one failed a while ago", of("b", func(h *cluster.HostReport) {
				h.Hash = &cluster.Hash{Member: h.Local.Member, Cluster: h.Local.Cluster, Asked: 3, Error: "x", Ended: h.Clock.Add(-upkeep.HashRetry)}
			})},
		}},
		{"who has not heard of the last compaction is asked again", then(hashed, of("a", func(h *cluster.HostReport) { h.Hash.Compacted = 2 }),
			of("b", func(h *cluster.HostReport) { h.Hash.Compacted = 1 }), of("c", func(h *cluster.HostReport) { h.Hash.Compacted = 2 })), func(v *step.View) bool {
			d := upkeep.AskHash(v, words.F("x"))
			return d != nil && d.Action.Ops[0].Host == "b"
		}, nil, nil},
		{"up to what every voter has", then(formedSight, of("b", func(h *cluster.HostReport) { h.Status.Revision = 2 })), func(v *step.View) bool {
			at, ok := upkeep.HashRevision(v)
			return ok && at == 2
		}, nil, nil},
		{"up to what was asked before", hashed, func(v *step.View) bool { at, ok := upkeep.HashRevision(v); return ok && at == 3 }, []otherwise{
			{"that failed just now", on("b", func(x *cluster.Hash) { x.Error = "x" })},
		}, []otherwise{
			{"an earlier one failed", on("b", func(x *cluster.Hash) { x.Error, x.Asked = "x", 2 })},
		}},
		{"raft's leader is asked last", then(formedSight, ledBy("a")), func(v *step.View) bool {
			d := upkeep.AskHash(v, words.F("x"))
			return d != nil && d.Action.Ops[0].Host != "a"
		}, nil, nil},
	})
}

// TestConditionsOfBackups: which host takes a backup, and what is in the way of one.
func TestConditionsOfBackups(t *testing.T) {
	taken := func(id cluster.HostID, change func(x *cluster.Taken)) func(o *cluster.Observation) {
		return of(id, func(h *cluster.HostReport) {
			h.Taken = &cluster.Taken{Running: true, Began: h.Clock.Add(-time.Second)}
			change(h.Taken)
		})
	}
	wants := then(formedSight, func(o *cluster.Observation) {
		o.Backups = cluster.BackupsView{Interval: time.Hour, At: o.At, Newest: []cluster.Backup{{Name: "B", At: o.At.Add(-sight.BackupFresh), Version: version("3.6.16")}}}
	})
	first := func(v *step.View) bool { return step.BackupFirst(v, true, words.F("x")) != nil }
	ordered := func(v *step.View) bool {
		d := step.BackupFirst(v, true, words.F("x"))
		return d != nil && d.Action != nil
	}
	replaces := func(v *step.View) bool { // a person's replacement begins with a backup, whoever succeeds
		d := Next(Goal{Kind: Replace, Host: "b"}.Noted(v.Obs), v.Obs)
		return d.Action != nil && len(d.Action.Ops) == 1 && d.Action.Ops[0].Op.Kind == cluster.OpBackup
	}
	fromData := then(wants, inIntent(func(in *cluster.Intent) {
		in.Source.Kind, in.Timestamp = cluster.SourceBackup, worldEpoch.Add(24*time.Hour).UnixNano()
	}))
	by := func(id cluster.HostID) func(v *step.View) bool {
		return func(v *step.View) bool {
			d := step.TakeBackup(v, "", "x")
			return d != nil && d.Action.Ops[0].Host == id
		}
	}
	ahead := of("c", func(h *cluster.HostReport) { h.Status.Applied += 10 })
	tries := then(wants, func(o *cluster.Observation) { o.Backups.DrillInterval = 24 * time.Hour })
	drills := func(v *step.View) bool { d := upkeep.TryOut(v); return d != nil && d.Action != nil }
	asked := func(o *cluster.Observation) {
		o.Commands = []cluster.Command{{Name: "c", At: o.At, Kind: cluster.CommandBackup, KeepFor: time.Hour}}
	}
	knows := func(ids ...cluster.HostID) func(o *cluster.Observation) { // how long a backup is kept
		return func(o *cluster.Observation) {
			for i := range o.Hosts {
				o.Hosts[i].KeepsBackups = slices.Contains(ids, o.Hosts[i].Host)
			}
		}
	}
	busy := func(ids ...cluster.HostID) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			knows(ids...)(o)
			for i := range o.Hosts {
				if h := &o.Hosts[i]; h.KeepsBackups {
					h.Taken = &cluster.Taken{Running: true, Began: h.Clock, Command: "another"}
				}
			}
		}
	}
	checkConditions(t, []condition{
		{"a backup before a replacement that a person asks for", wants, replaces, []otherwise{
			{"there is a fresh one", func(o *cluster.Observation) {
				o.Backups.Newest = []cluster.Backup{{Name: "B", At: o.At.Add(time.Nanosecond - sight.BackupFresh), Version: version("3.6.16")}}
			}},
			{"no backups are wanted", func(o *cluster.Observation) { o.Backups.Interval = 0 }},
		}, nil},
		{"one that is asked for is kept for as long as that says", then(wants, asked, knows("b")), func(v *step.View) bool {
			d := upkeep.BackUp(v)
			return d != nil && d.Action != nil && len(d.Action.Ops) == 1 && d.Action.Ops[0].Op.KeepFor == time.Hour && d.Action.Ops[0].Op.Command == "c" && d.Action.Ops[0].Host == "b"
		}, []otherwise{
			{"it says nothing", func(o *cluster.Observation) { o.Commands[0].KeepFor = 0 }},
			{"who knows of that takes another one", busy("b")},
			{"nobody knows of that", knows()},
		}, []otherwise{
			{"who knows of that is raft's leader", ledBy("b")},
		}},
		{"one that is asked for ends where nobody knows for how long it is kept", then(wants, asked, knows()), func(v *step.View) bool {
			d := upkeep.BackUp(v)
			return d != nil && d.Action != nil && d.Action.End != nil && d.Action.End.Result == decision.CommandFailed
		}, []otherwise{
			{"it says nothing", func(o *cluster.Observation) { o.Commands[0].KeepFor = 0 }},
			{"somebody knows", knows("c")},
			{"who knows of that takes another one", busy("c")},
			{"nobody is up", func(o *cluster.Observation) {
				for i := range o.Hosts {
					o.Hosts[i].Status = nil
				}
			}},
		}, nil},
		{"one is taken before a change", wants, ordered, []otherwise{
			{"nobody wants backups", func(o *cluster.Observation) { o.Backups.Interval = 0 }},
			{"the store was not listed yet", func(o *cluster.Observation) { o.Backups.At = time.Time{} }},
			{"the cluster is quarantined", inIntent(func(in *cluster.Intent) { in.Quarantined = true })},
			{"there is a fresh one", func(o *cluster.Observation) { o.Backups.Newest[0].At = o.At.Add(time.Second - sight.BackupFresh) }},
			{"one was taken just now", taken("b", func(x *cluster.Taken) { x.Running, x.Backup = false, &cluster.Backup{} })},
			{"one is being taken", taken("b", func(*cluster.Taken) {})},
			{"the last try failed just now", taken("b", func(x *cluster.Taken) { x.Running, x.Error, x.Ended = false, "x", x.Began })},
			{"the store is silent", storeSilent},
		}, []otherwise{
			{"a try failed long ago", taken("b", func(x *cluster.Taken) { x.Running, x.Error, x.Ended = false, "x", x.Began.Add(-step.BackupRetry) })},
			{"the clock of the newest is ahead", func(o *cluster.Observation) { o.Backups.Newest[0].At = o.At.Add(time.Hour) }},
		}},
		{"what takes away waits for one", then(wants, storeSilent), first, nil, []otherwise{
			{"the last try failed", taken("b", func(x *cluster.Taken) { x.Running, x.Error, x.Ended = false, "x", x.Began })},
		}},
		{"what adds does not", then(wants, storeSilent), func(v *step.View) bool { return step.BackupFirst(v, false, words.F("x")) == nil }, nil, nil},
		{"a generation from data is unsaved", fromData, func(v *step.View) bool { return sight.Unsaved(v.Sight) }, []otherwise{
			{"it is quarantined", inIntent(func(in *cluster.Intent) { in.Quarantined = true })},
			{"it is being founded", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
			{"it is not from data", inIntent(func(in *cluster.Intent) { in.Source.Kind = cluster.SourceNothing })},
			{"one of it is in the store", func(o *cluster.Observation) { o.Backups.Newest[0].Cluster = o.Store.Intent.Cluster }},
			{"one of it was taken just now", func(o *cluster.Observation) {
				taken("b", func(x *cluster.Taken) { x.Running, x.Backup = false, &cluster.Backup{Cluster: o.Store.Intent.Cluster} })(o)
			}},
			{"one that tells no cluster was taken since", inIntent(func(in *cluster.Intent) { in.Timestamp = worldEpoch.UnixNano() })},
		}, []otherwise{
			{"what it was made from looks younger", inIntent(func(in *cluster.Intent) { in.Source.Backup, in.Timestamp = "B", worldEpoch.UnixNano() })},
			{"one of another cluster looks younger", func(o *cluster.Observation) {
				o.Backups.Newest[0].Cluster, o.Backups.Newest[0].At = o.Store.Intent.Cluster+1, worldEpoch.Add(48*time.Hour)
			}},
		}},
		{"a host backs up", then(formedSight, taken("b", func(*cluster.Taken) {})), func(v *step.View) bool { return v.BackingUp() }, []otherwise{
			{"it has ended", taken("b", func(x *cluster.Taken) { x.Running = false })},
			{"it has been at it for too long", taken("b", func(x *cluster.Taken) { x.Began = x.Began.Add(time.Second - sight.BackupTry) })},
		}, nil},
		{"the furthest follower takes one", then(formedSight, ledBy("a"), ahead), by("c"), []otherwise{
			{"it takes one already", taken("c", func(*cluster.Taken) {})},
			{"it leads raft", ledBy("c")},
			{"it is not up", of("c", unhealthy)},
		}, []otherwise{
			{"raft's leader is further", of("a", func(h *cluster.HostReport) { h.Status.Applied += 20 })},
		}},
		{"the furthest of two followers, whichever", then(formedSight, ledBy("a"), of("b", func(h *cluster.HostReport) { h.Status.Applied += 10 })), by("b"), nil, nil},
		{"the newest is tried out", tries, func(v *step.View) bool {
			d := upkeep.TryOut(v)
			return d != nil && d.Action != nil && d.Action.Ops[0].Host == "d" // it has no voter
		}, []otherwise{
			{"it has not promised", of("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it lacks the release", of("d", func(h *cluster.HostReport) { h.Releases = nil })},
			{"it lacks the key", func(o *cluster.Observation) {
				o.Backups.Newest[0].Encrypted = true
				of("b", func(h *cluster.HostReport) { h.Decrypts = true })(o)
			}},
			{"nobody asks for that", func(o *cluster.Observation) { o.Backups.DrillInterval = 0 }},
			{"there is none", func(o *cluster.Observation) { o.Backups.Newest = nil }},
			{"that was done", func(o *cluster.Observation) { o.Backups.Drilled = o.At.Add(time.Second - 24*time.Hour) }},
			{"it is being done", of("c", func(h *cluster.HostReport) { h.Drill = &cluster.Taken{Running: true} })},
		}, []otherwise{
			{"it has the key", func(o *cluster.Observation) {
				o.Backups.Newest[0].Encrypted = true
				of("d", func(h *cluster.HostReport) { h.Decrypts = true })(o)
			}},
		}},
		{"followers before raft's leader", then(tries, away("d", cluster.GapUnreachable), ledBy("a")), func(v *step.View) bool {
			return drills(v) && upkeep.TryOut(v).Action.Ops[0].Host != "a"
		}, nil, nil},
	})
}

// TestConditionsOfDowngrades: what ends a downgrade that etcd has under way.
func TestConditionsOfDowngrades(t *testing.T) {
	down := then(formedSight, func(o *cluster.Observation) {
		s := *o.Spec
		s.EtcdVersion = version("3.5.35")
		o.Spec = &s
		for i := range o.Hosts {
			h := &o.Hosts[i]
			h.Releases = []cluster.Version{version("3.5.35"), version("3.6.16")}
			if h.Status != nil {
				h.Status.Downgrading, h.Status.Downgrade = version("3.5.0"), true
				h.Status.ClusterVersion, h.Status.StorageVersion = version("3.5.0"), version("3.5.0")
			}
		}
		o.Memory.Members = nil
		for i := range o.Hosts {
			if o.Hosts[i].Local.Member != 0 {
				ofMember(o.Hosts[i].Host, func(m *cluster.MemberMemory) { m.HealthySince = worldEpoch })(o)
			}
		}
	})
	goesOn := func(v *step.View) bool { return roll.NotDown(v, v.Roster.Running()) == "" }
	all := func(change func(h *cluster.HostReport)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			for i := range o.Hosts {
				if o.Hosts[i].Status != nil {
					change(&o.Hosts[i])
				}
			}
		}
	}
	over := then(down, all(func(h *cluster.HostReport) {
		h.Local.Version, h.Status.Version, h.Status.StorageVersion, h.Status.Downgrading = version("3.5.35"), version("3.5.35"), cluster.Version{}, cluster.Version{}
	}))
	checkConditions(t, []condition{
		{"it goes on", down, goesOn, []otherwise{
			{"something higher is wanted", func(o *cluster.Observation) { s := *o.Spec; s.EtcdVersion = version("3.6.16"); o.Spec = &s }},
			{"it is to two lines below", all(func(h *cluster.HostReport) { h.Status.Downgrading = version("3.4.0") })},
			{"it is to a line above", all(func(h *cluster.HostReport) { h.Status.Downgrading = version("3.7.0") })},
			{"there is a learner", all(func(h *cluster.HostReport) { h.View.Members[2].Learner = true })},
			{"more are wanted", func(o *cluster.Observation) { s := *o.Spec; s.MemberCount = 5; o.Spec = &s }},
			{"the cluster is quarantined", inIntent(func(in *cluster.Intent) { in.Quarantined = true })},
			{"a voter is dead", func(o *cluster.Observation) {
				of("c", dies)(o)
				ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = worldEpoch.Add(-time.Hour) })(o)
			}},
		}, []otherwise{
			{"a voter is silent for a moment", func(o *cluster.Observation) {
				of("c", dies)(o)
				ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = o.At })(o)
			}},
		}},
		{"it is over, and etcd does not end it", over, func(v *step.View) bool { return !goesOn(v) }, []otherwise{
			{"it may be ended in a moment", func(o *cluster.Observation) {
				ofMember("b", func(m *cluster.MemberMemory) { m.HealthySince = o.At.Add(time.Second - roll.DowngradeEnds) })(o)
			}},
			{"a voter has just come", ofMember("b", func(m *cluster.MemberMemory) { m.HealthySince = time.Time{} })},
			{"a voter is down", of("b", unhealthy)},
		}, nil},
		{"a member is restarted with the line below", down, func(v *step.View) bool {
			d := first(v, roll.Cancel, roll.Down)
			return d != nil && d.Action != nil && d.Action.Ops[0].Op.Kind == cluster.OpRestart
		}, []otherwise{
			{"the members have not agreed", all(func(h *cluster.HostReport) { h.Status.ClusterVersion = version("3.6.0") })},
			{"the data of one has the old format", of("b", func(h *cluster.HostReport) { h.Status.StorageVersion = version("3.6.0") })},
			{"a voter is down", of("b", unhealthy)},
			{"there is no spec", noSpec},
			{"a host lacks the release", of("b", func(h *cluster.HostReport) { h.Releases = []cluster.Version{version("3.6.16")} })},
		}, nil},
	})
}

// TestConditionsOfRolls: what a change of version waits for before the first
// member is touched, and not after.
func TestConditionsOfRolls(t *testing.T) {
	next := roll.Stage{To: version("3.6.16"), Why: "x", Move: func(r cluster.Version) bool { return r.Compare(version("3.6.0")) < 0 }}
	older := func(id cluster.HostID) func(o *cluster.Observation) {
		return of(id, func(h *cluster.HostReport) { h.Local.Version, h.Status.Version = version("3.5.35"), version("3.5.35") })
	}
	wantsBackups := func(o *cluster.Observation) {
		o.Backups = cluster.BackupsView{Interval: time.Hour, At: o.At, Newest: []cluster.Backup{{Name: "B", At: o.At.Add(-sight.BackupFresh)}}}
	}
	rolls := func(v *step.View) bool { ok, _ := roll.MayRoll(v, next); return ok }
	checkConditions(t, []condition{
		{"in the middle of it no backup is waited for", then(formedSight, older("b"), older("c"), wantsBackups, storeSilent), rolls, []otherwise{
			{"it has not begun", older("a")},
			{"the release did not start on one", of("a", func(h *cluster.HostReport) { h.FailedRelease = version("3.6.16") })},
			{"one that is still to run it lacks it", of("c", func(h *cluster.HostReport) { h.Releases = nil })},
		}, []otherwise{
			{"one that runs it lacks it", of("a", func(h *cluster.HostReport) { h.Releases = nil })},
		}},
		{"nobody wants a backup before", then(formedSight, older("a"), older("b"), older("c"), storeSilent), rolls, []otherwise{
			{"somebody does", wantsBackups},
		}, nil},
	})
}

// TestConditionsOfRestarts: a member that is restarted on purpose waits for the others.
func TestConditionsOfRestarts(t *testing.T) {
	changed := then(formedSight, ledBy("a"), of("b", func(h *cluster.HostReport) { h.Options = []string{"--x"} }))
	gets := func(v *step.View) bool {
		d := roll.Options(v)
		return d != nil && d.Action != nil && d.Action.Ops[0].Host == "b" && d.Action.Ops[0].Op.Kind == cluster.OpRestart
	}
	checkConditions(t, []condition{
		{"with its options", changed, gets, []otherwise{
			{"another voter is down", of("c", unhealthy)},
			{"its host has not promised", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it is not up", of("b", unhealthy)},
			{"there is no spec", noSpec},
			{"another one did not start with them", of("c", func(h *cluster.HostReport) { h.FailedOptions = []string{"--x"} })},
			{"it leads raft", ledBy("b")},
			{"it has them", of("b", func(h *cluster.HostReport) { h.Local.Options = h.Options })},
		}, []otherwise{
			{"raft's leader is to have them too", of("a", func(h *cluster.HostReport) { h.Options = []string{"--x"} })},
			{"a host without a member is gone", away("d", cluster.GapUnreachable)},
		}},
	})
}

// TestConditionsOfSpeakers: through whose member a call is made.
func TestConditionsOfSpeakers(t *testing.T) {
	by := func(id cluster.HostID, except func(v *step.View) cluster.MemberID) func(v *step.View) bool {
		return func(v *step.View) bool { s, ok := v.Speaker(except(v)); return ok && s.HostID == id }
	}
	nobody := func(*step.View) cluster.MemberID { return 0 }
	b := func(v *step.View) cluster.MemberID { return seatOf(v, "b").ID }
	checkConditions(t, []condition{
		{"raft's leader", then(formedSight, ledBy("b")), by("b", nobody), []otherwise{{"it is not up", of("b", unhealthy)}}, nil},
		{"not the one that it is about", then(formedSight, ledBy("b")), func(v *step.View) bool { return !by("b", b)(v) }, nil, nil},
		{"the one to hand over to is the furthest", then(formedSight, ledBy("a"), of("c", func(h *cluster.HostReport) { h.Status.Applied += 5 })), func(v *step.View) bool {
			return step.HandOver(v, seatOf(v, "a"), words.F("x"), nil).Action.Ops[0].Op.Host == "c"
		}, []otherwise{{"another one is further", of("b", func(h *cluster.HostReport) { h.Status.Applied += 9 })}}, []otherwise{
			{"the one that hands over is further", of("a", func(h *cluster.HostReport) { h.Status.Applied += 9 })},
		}},
		{"a preferred one takes over", then(formedSight, ledBy("a"), of("c", func(h *cluster.HostReport) { h.Status.Applied += 5 })), func(v *step.View) bool {
			return step.HandOver(v, seatOf(v, "a"), words.F("x"), func(s cluster.Seat) bool { return s.HostID == "b" }).Action.Ops[0].Op.Host == "b"
		}, []otherwise{{"it is not up", of("b", unhealthy)}}, nil},
	})
}
