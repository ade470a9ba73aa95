package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// TestConditionsOfMembers: who is gone for good, who may be restarted, and who may
// start.
func TestConditionsOfMembers(t *testing.T) {
	silentC := then(formedSight, of("c", func(h *cluster.HostReport) { dies(h) }), ofMember("c", func(m *cluster.MemberMemory) {
		m.SilentSince = worldEpoch.Add(-time.Hour)
	}))
	vanished := then(formedSight, of("c", func(h *cluster.HostReport) { h.Local.HasData = false }), ofMember("c", func(m *cluster.MemberMemory) {
		m.VanishedSince = worldEpoch
	}))
	broken := then(formedSight, of("c", func(h *cluster.HostReport) {
		dies(h)
		h.Process.Damaged = "walpb: crc mismatch"
	}), ofMember("c", func(m *cluster.MemberMemory) { m.DamagedSince = worldEpoch }))
	corrupted := then(formedSight, ofMember("c", func(m *cluster.MemberMemory) { m.CorruptSince = worldEpoch }))
	hung := then(formedSight, of("c", func(h *cluster.HostReport) {
		h.Status, h.View, h.Process.State = nil, nil, cluster.ProcessSilent
	}), ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince = worldEpoch }))
	// strangers: the member of c and those hosts' reject each other's certificates.
	strangers := func(authority bool, fingerprint string, rejecting ...cluster.HostID) func(*cluster.Observation) {
		return func(o *cluster.Observation) {
			of("c", func(h *cluster.HostReport) { h.PeerTLS = &cluster.PeerTLS{Fingerprint: fingerprint} })(o)
			for _, host := range rejecting {
				of(host, func(h *cluster.HostReport) {
					h.PeerTLS = &cluster.PeerTLS{Fingerprint: "AA", Rejects: []cluster.Rejection{{Member: seatOf(step.Look(decision.Goal{Kind: decision.Converge}, o), "c").ID, Authority: authority}}}
				})(o)
			}
		}
	}
	joiner := func(t *testing.T) *cluster.Observation { return learnerAdded(t).observe() }
	wiped := func(t *testing.T) *cluster.Observation {
		w := formed(t)
		w.wipe(w.host("c"), "")
		return w.observe()
	}
	checkConditions(t, []condition{
		{"dead by silence", silentC, func(v *step.View) bool { d, _ := members.Dead(v, seatOf(v, "c")); return d }, []otherwise{
			{"it is up", of("c", func(h *cluster.HostReport) {
				h.Process = cluster.Process{State: cluster.ProcessRunning}
				h.Status = &cluster.MemberStatus{Member: h.Local.Member, Cluster: h.Local.Cluster, Healthy: true, Leader: h.Local.Member, Term: 1}
			})},
			{"nobody remembers its silence", ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = time.Time{} })},
			{"it has not lasted", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = o.At.Add(time.Second - cluster.DefaultDeadAfter) })(o)
			}},
		}, []otherwise{
			{"it has lasted just as long as it must", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = o.At.Add(-cluster.DefaultDeadAfter) })(o)
			}},
		}},
		{"dead by its own host's word", wiped, func(v *step.View) bool { return seatOf(v, "c").Condition == cluster.ConditionWiped }, []otherwise{
			{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its host holds data", of("c", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"its host holds what nothing accounts for", of("c", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"its host holds another program's member", of("c", func(h *cluster.HostReport) { h.Predecessor = &cluster.Predecessor{Waits: "x"} })},
			{"something runs there", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
		}, nil},
		{"its data is gone from the disk", vanished, func(v *step.View) bool { return needs(v, seatOf(v, "c"), members.RemedyReplace) }, []otherwise{
			{"the data is there", of("c", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"nobody remembers it", ofMember("c", func(m *cluster.MemberMemory) { m.VanishedSince = time.Time{} })},
			{"it was seen just now", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.VanishedSince = o.At.Add(time.Second - members.VanishedFor) })(o)
			}},
			{"another voter is down", of("b", unhealthy)},
			{"its host is not in sight", away("c", cluster.GapUnreachable)},
			{"its process does not run", of("c", dies)},
		}, nil},
		{"etcd cannot read its data", broken, func(v *step.View) bool { return needs(v, seatOf(v, "c"), members.RemedyReplace) }, []otherwise{
			{"it can by now", of("c", func(h *cluster.HostReport) { h.Process.Damaged = "" })},
			{"nobody remembers it", ofMember("c", func(m *cluster.MemberMemory) { m.DamagedSince = time.Time{} })},
			{"it was seen just now", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.DamagedSince = o.At.Add(time.Second - members.DamagedFor) })(o)
			}},
			{"another voter is down", of("b", unhealthy)},
			{"its host is not in sight", away("c", cluster.GapUnreachable)},
			{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it was started again, and is reading it", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessRunning })},
			{"its release is new to it", of("c", func(h *cluster.HostReport) { h.Local.Previous = cluster.MustVersion("3.5.35") })},
		}, nil},
		{"its keys are not those of the others", corrupted, func(v *step.View) bool { return needs(v, seatOf(v, "c"), members.RemedyReplace) }, []otherwise{
			{"another voter is down", of("b", unhealthy)},
			{"another one, with other keys as well, is out of sight", func(o *cluster.Observation) {
				ofMember("b", func(m *cluster.MemberMemory) { m.CorruptSince = worldEpoch })(o)
				away("b", cluster.GapUnreachable)(o)
			}},
			{"no comparison says so", ofMember("c", func(m *cluster.MemberMemory) { m.CorruptSince = time.Time{} })},
			{"there are but two voters", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if w := o.Hosts[i].View; w != nil {
						w.Members = w.Members[1:]
					}
				}
			}},
		}, []otherwise{
			{"another one's are wrong as well, and neither answers", func(o *cluster.Observation) {
				for _, id := range []cluster.HostID{"b", "c"} {
					of(id, func(h *cluster.HostReport) { h.Status = nil })(o)
				}
				ofMember("b", func(m *cluster.MemberMemory) { m.CorruptSince = worldEpoch })(o)
			}},
			{"another one's are wrong as well", ofMember("b", func(m *cluster.MemberMemory) { m.CorruptSince = worldEpoch })},
		}},
		{"a hung one is revived", hung, func(v *step.View) bool { return members.ReviveHung(v) != nil }, []otherwise{
			{"another voter is down", of("b", unhealthy)},
			{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its process does not run", of("c", dies)},
			{"its data is gone", of("c", func(h *cluster.HostReport) { h.Local.HasData = false })},
			{"it is of another generation", of("c", func(h *cluster.HostReport) { h.Local.Generation = 2 })},
			{"it is stopped for good", of("c", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
			{"it has not lasted", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince = o.At.Add(time.Second - sight.ReviveAfter) })(o)
			}},
			{"the others have another authority", strangers(true, "BB", "a", "b")},
			{"the others reject its address", strangers(false, "AA", "a", "b")},
			{"it was revived twice already", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince, m.Revived = o.At.Add(-3*sight.ReviveAfter), 2 })(o)
			}},
		}, []otherwise{
			{"it has the authority of the others by now", strangers(true, "AA", "a", "b")},
			{"one of the others rejects it", strangers(true, "BB", "a")},
			{"it has lasted just as long as it must", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince = o.At.Add(-sight.ReviveAfter) })(o)
			}},
		}},
		{"one that hangs may go on and answer a joiner", then(silentC, func(o *cluster.Observation) { reached(o, cluster.Reach{Open: true}) }), func(v *step.View) bool {
			return members.MayAnswer(v, seatOf(v, "c"))
		}, []otherwise{{"nothing accepts", func(o *cluster.Observation) { reached(o, cluster.Reach{}) }}}, []otherwise{
			{"it answers", func(o *cluster.Observation) { reached(o, cluster.Reach{Open: true, Answers: true}) }},
		}},
		{"a joiner may start", joiner, func(v *step.View) bool { return seatOf(v, "d").Condition == cluster.ConditionNeverStarted }, []otherwise{
			{"it is prepared for another cluster", of("d", func(h *cluster.HostReport) { h.Local.Cluster++ })},
			{"it is prepared for another generation", of("d", func(h *cluster.HostReport) { h.Local.Generation++ })},
			{"it refuses this generation", of("d", func(h *cluster.HostReport) { h.LowestGeneration = 2 })},
			{"it is not prepared", of("d", func(h *cluster.HostReport) { h.Local.State = cluster.MemberNone })},
			{"its member is older than its preparation", func(o *cluster.Observation) {
				h, _ := o.Host("d")
				r, _ := o.Roster()
				for _, s := range r.Learners() {
					h.Local.Known = append(h.Local.Known, s.ID)
				}
			}},
			{"it holds data", of("d", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"it holds what nothing accounts for", of("d", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"its disk gave up one of that ID", func(o *cluster.Observation) {
				h, _ := o.Host("d")
				r, _ := o.Roster()
				for _, s := range r.Learners() {
					h.GaveUp = append(h.GaveUp, s.ID)
				}
			}},
			{"it says that it cannot", of("d", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x", Unfit: true}} })},
			{"it listens elsewhere", of("d", func(h *cluster.HostReport) { h.URLs.Peer = []string{"https://elsewhere:2380"} })},
			{"it listens elsewhere as well", of("d", func(h *cluster.HostReport) { h.URLs.Peer = append(slices.Clone(h.URLs.Peer), "https://elsewhere:2380") })},
		}, []otherwise{
			{"it refuses the generations before", of("d", func(h *cluster.HostReport) { h.LowestGeneration = 1 })},
			{"it has a problem that does not matter", of("d", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x"}} })},
		}},
		{"a host gave up what never had a vote", then(formedSight, of("d", func(h *cluster.HostReport) { h.GaveUp = []cluster.MemberID{7} })), func(v *step.View) bool {
			return v.GaveUp(inSight(v, "d")) == 1
		}, []otherwise{
			{"it had one, and its host was off for long", of("d", func(h *cluster.HostReport) { h.Voted = []cluster.MemberID{7} })},
			{"it had one in the generation before", inIntent(func(in *cluster.Intent) {
				in.History = append(in.History, cluster.PastGeneration{Generation: 0, Voters: [][]cluster.Voter{{{Member: 7}}}})
			})},
		}, []otherwise{
			{"another one had", of("d", func(h *cluster.HostReport) { h.Voted = []cluster.MemberID{8} })},
		}},
		{"a dead voter's host can be used again", silentC, func(v *step.View) bool { return members.Reusable(v, inSight(v, "c")) }, []otherwise{
			{"it has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it lacks the release", of("c", func(h *cluster.HostReport) { h.Releases = nil })},
			{"the spec names others", func(o *cluster.Observation) {
				s := *o.Spec
				s.Hosts = []cluster.HostID{"a", "b", "d"}
				o.Spec = &s
			}},
			{"it holds what nothing accounts for", of("c", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"something else runs there", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"it says that it cannot", of("c", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x", Unfit: true}} })},
			{"the others reject its certificate, as one that expired", strangers(false, "AA", "a", "b")},
		}, []otherwise{
			{"the spec names it", func(o *cluster.Observation) {
				s := *o.Spec
				s.Hosts = []cluster.HostID{"a", "b", "c"}
				o.Spec = &s
			}},
			{"there is no spec", noSpec},
		}},
	})
}

// TestConditionsOfRevivals: without a quorum a member is restarted that sees no raft
// leader, and not while a quorum may hang on it.
func TestConditionsOfRevivals(t *testing.T) {
	hangs := func(h *cluster.HostReport) { h.Status, h.View = nil, nil }
	deaf := then(formedSight, away("c", cluster.GapUnreachable), of("a", hangs), of("b", func(h *cluster.HostReport) {
		h.Status.Healthy, h.View.Linearizable = false, false
	}), ofMember("a", func(m *cluster.MemberMemory) { m.LeaderlessSince = worldEpoch }), func(o *cluster.Observation) {
		o.Memory.QuorumlessSince = worldEpoch
	})
	reads := of("b", func(h *cluster.HostReport) { h.Status.Healthy = true })
	lists := of("b", func(h *cluster.HostReport) { h.View.Linearizable = true })
	alone := func(o *cluster.Observation) {
		o.Memory.QuorumlessSince = o.At.Add(time.Second - sight.ReviveAfter)
	}
	sees := of("a", func(h *cluster.HostReport) {
		h.Status = &cluster.MemberStatus{Member: h.Local.Member, Cluster: h.Local.Cluster, Term: 1}
	})
	restarts := func(v *step.View) bool { d := step.Revive(v); return d != nil && d.Action.Ops[0].Host == "a" }
	saysWhy := func(v *step.View) bool {
		d := members.Quorum(v)
		return d != nil && d.Action == nil && strings.Contains(d.Reason.String(), "the member of b answers reads through raft, and its quorum may hang on a")
	}
	checkConditions(t, []condition{
		{"one that does not answer", deaf, restarts, []otherwise{
			{"another one answers reads through raft", reads},
			{"another one gives a list through raft", lists},
			{"another one did so a moment ago", alone},
			{"its host has not promised", of("a", func(h *cluster.HostReport) { h.UnderFence = false })},
		}, []otherwise{
			{"a learner answers", allOf(reads, of("b", func(h *cluster.HostReport) { h.Status.Learner = true }))},
			{"what answers is another member", allOf(reads, of("b", func(h *cluster.HostReport) { h.Status.Member = 9 }))},
			{"what answers is of another generation", allOf(reads, lists, of("b", func(h *cluster.HostReport) { h.Local.Generation = 9 }))},
			{"what answers was removed", allOf(reads, lists, of("b", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved }))},
			{"it is one of five that the others are a quorum of", allOf(reads, func(o *cluster.Observation) { o.Memory.Members = nil }, ofMember("a", func(m *cluster.MemberMemory) { m.LeaderlessSince = worldEpoch }), func(o *cluster.Observation) {
				for i := range o.Hosts {
					if w := o.Hosts[i].View; w != nil {
						w.Members = w.Members[1:2] // b alone
					}
				}
			})},
			{"the time without a quorum is not known", func(o *cluster.Observation) { o.Memory.QuorumlessSince = time.Time{} }},
		}},
		{"one that says that it has no leader", then(deaf, sees), restarts, []otherwise{
			{"another one answers reads through raft", reads},
		}, []otherwise{
			{"another one did so a moment ago", alone},
		}},
		{"it is restarted only if it sees none still", deaf, func(v *step.View) bool {
			d := step.Revive(v)
			return d != nil && d.Action.Ops[0].Guard.Leaderless
		}, nil, nil},
		{"it is said why it is not restarted", then(deaf, reads), saysWhy, []otherwise{
			{"nobody answers reads", of("b", func(h *cluster.HostReport) { h.Status.Healthy = false })},
			{"it has not lasted", ofMember("a", func(m *cluster.MemberMemory) { m.LeaderlessSince = time.Time{} })},
		}, nil},
	})
}

// TestConditionsOfPromotions: how much of the log a learner may lack that becomes a voter.
func TestConditionsOfPromotions(t *testing.T) {
	// at is a learner that has so much of a log, and voters that have all of it.
	at := func(has, all uint64) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			for i := range o.Hosts {
				if st := o.Hosts[i].Status; st != nil {
					st.Index, st.Applied, st.Revision = all, all, 1_000_000
					if st.Learner {
						st.Index, st.Applied = has, has
					}
				}
			}
			o.Memory.Upkeep.Revisions = nil
		}
	}
	wrote := func(samples ...cluster.RevisionAt) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			for _, s := range samples {
				s.At = o.At.Add(time.Duration(s.At.Unix()) * time.Second)
				o.Memory.Upkeep.Revisions = append(o.Memory.Upkeep.Revisions, s)
			}
		}
	}
	// ago is a sample of the revision, that many seconds ago.
	ago := func(seconds, revision int64) cluster.RevisionAt {
		return cluster.RevisionAt{At: time.Unix(-seconds, 0), Revision: revision}
	}
	learner := func(t *testing.T) *cluster.Observation { return learnerCaughtUp(t).observe() }
	ready := func(v *step.View) bool { return v.CaughtUp(v.Roster.Learners()[0]) }
	const most = 10_000_000
	checkConditions(t, []condition{
		{"one that has all", then(learner, at(most, most)), ready, []otherwise{
			{"it lacks a million entries of ten", at(9_000_001, most)},
			{"it lacks more than the leader keeps for it", at(most-sight.NearEntries-1, most)},
			{"it lacks more than a tenth", at(89, 100)},
			{"it does not answer", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if st := o.Hosts[i].Status; st != nil && st.Learner {
						o.Hosts[i].Status = nil
					}
				}
			}},
			{"it lacks more than is written in between", allOf(at(most-sight.NearEntries-20_001, most), wrote(ago(10, 900_000), ago(0, 1_000_000)))},
			{"it lacks what was written long ago", allOf(at(most-sight.NearEntries-1, most), wrote(ago(3600, 0)))},
			{"a new generation begins far above the last", allOf(at(9_000_001, most), wrote(ago(10, 1_000_000-2*cluster.RevisionMargin)))},
			{"the revision went back", allOf(at(most-sight.NearEntries-1, most), wrote(ago(10, 2_000_000)))},
		}, []otherwise{
			{"it lacks what the leader keeps for it", at(most-sight.NearEntries, most)},
			{"it lacks a tenth", at(90, 100)},
			{"it lacks one of a young log", at(4, 5)},
			{"it lacks what is written in between", allOf(at(most-sight.NearEntries-20_000, most), wrote(ago(10, 900_000), ago(0, 1_000_000)))},
		}},
	})
}

// allOf is several changes as one.
func allOf(changes ...func(o *cluster.Observation)) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		for _, c := range changes {
			c(o)
		}
	}
}

// TestConditionsOfPlannedRestarts: what is going on through a member is not broken off.
func TestConditionsOfPlannedRestarts(t *testing.T) {
	takes := func(h *cluster.HostReport) { h.Taken = &cluster.Taken{Running: true, Began: h.Clock} }
	restarts := func(v *step.View) bool {
		return step.RestartSeat(v, seatOf(v, "c"), words.F("x"), cluster.Op{Kind: cluster.OpRestart}, nil).Action != nil
	}
	checkConditions(t, []condition{
		{"a planned restart", formedSight, restarts, []otherwise{
			{"its host takes a backup", of("c", takes)},
			{"another voter is down", of("b", unhealthy)},
		}, []otherwise{
			{"another host takes a backup", of("b", takes)},
			{"its host has taken a backup", of("c", func(h *cluster.HostReport) { h.Taken = &cluster.Taken{Error: "x"} })},
			{"it is not up, and no backup is read through it", allOf(of("c", takes), of("c", unhealthy))},
		}},
	})
}

// TestConditionsOfReleases: when a member is given another release because it does
// not start with the one that it has.
func TestConditionsOfReleases(t *testing.T) {
	broken := then(formedSight, of("c", func(h *cluster.HostReport) {
		dies(h)
		h.Local.Version = version("3.7.3")
	}), ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = worldEpoch }))
	falls := func(v *step.View) bool { return members.FallBack(v, v.Roster.Running()) != nil }
	starts := []otherwise{
		{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
		{"its process runs", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessRunning })},
		{"its data is gone", of("c", func(h *cluster.HostReport) { h.Local.HasData = false })},
		{"it was stopped for good", of("c", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
		{"it was stopped on purpose", of("c", func(h *cluster.HostReport) { h.Local.Run = false })},
	}
	// A cluster of two without a quorum, of which one does not start any more.
	two := then(formedSight, of("c", func(h *cluster.HostReport) {
		dies(h)
		h.Local.Version, h.Local.Previous = version("3.7.3"), version("3.6.16")
	}), func(o *cluster.Observation) {
		o.Memory.QuorumlessSince = worldEpoch
		o.Memory.Members = nil
	}, inIntent(func(in *cluster.Intent) { in.Voters = in.Voters[:2] }))
	checkConditions(t, []condition{
		{"it gets what the others run", broken, falls, append([]otherwise{
			{"another voter is down", of("b", unhealthy)},
			{"it is silent for a moment only", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = o.At.Add(time.Second - members.StartGrace) })(o)
			}},
			{"its host lacks it", of("c", func(h *cluster.HostReport) { h.Releases = []cluster.Version{version("3.7.3")} })},
			{"the cluster version is the new line", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if st := o.Hosts[i].Status; st != nil {
						st.ClusterVersion = version("3.7.0")
					}
				}
			}},
			{"they run the same", of("c", func(h *cluster.HostReport) { h.Local.Version = version("3.6.16") })},
		}, starts...), nil},
		{"one that a person wants kept on its line keeps it", then(broken, func(o *cluster.Observation) {
			sp := *o.Spec
			sp.EtcdVersion, sp.PauseBeforeLast = version("3.6.16"), true
			o.Spec = &sp
		}), func(v *step.View) bool { return members.FallBack(v, v.Roster.Running()) == nil && len(v.Notices) == 1 }, []otherwise{
			{"nobody wants that any more", func(o *cluster.Observation) { sp := *o.Spec; sp.PauseBeforeLast = false; o.Spec = &sp }},
			{"it was given that line just now", of("c", func(h *cluster.HostReport) { h.Local.Previous = version("3.6.16") })},
			{"it is the line that is wanted", func(o *cluster.Observation) { sp := *o.Spec; sp.EtcdVersion = version("3.7.3"); o.Spec = &sp }},
		}, nil},
		{"it gets the patch that it ran before", then(two, of("c", func(h *cluster.HostReport) {
			h.Local.Version, h.Local.Previous = version("3.6.16"), version("3.6.14")
			h.Releases = append(h.Releases, version("3.6.14"))
		})), func(v *step.View) bool {
			d := members.OtherRelease(v)
			return d != nil && d.Action.Ops[0].Op.Version == version("3.6.14")
		}, nil, nil},
		{"one of two gets what it ran before", two, func(v *step.View) bool { return members.OtherRelease(v) != nil }, append([]otherwise{
			{"there are three voters", inIntent(func(in *cluster.Intent) { in.Voters = append(in.Voters, cluster.Voter{Member: 99}) })},
			{"it is of another generation", of("c", func(h *cluster.HostReport) { h.Local.Generation = 9 })},
			{"it ran nothing before", of("c", func(h *cluster.HostReport) { h.Local.Previous = cluster.Version{} })},
			{"that failed as well", of("c", func(h *cluster.HostReport) { h.FailedRelease = version("3.6.16") })},
			{"that is two lines away", of("c", func(h *cluster.HostReport) {
				h.Local.Previous = version("3.5.35")
				h.Releases = []cluster.Version{version("3.5.35")}
			})},
			{"it is the same", of("c", func(h *cluster.HostReport) { h.Local.Version = version("3.6.16") })},
			{"its host lacks that", of("c", func(h *cluster.HostReport) { h.Releases = nil })},
			{"there was a quorum a moment ago", func(o *cluster.Observation) { o.Memory.QuorumlessSince = o.At.Add(time.Second - members.StartGrace) }},
			{"another one reads through raft, which may need it", away("a", cluster.GapUnreachable)},
		}, starts...), []otherwise{
			{"nobody reads through raft", allOf(away("a", cluster.GapUnreachable), of("b", func(h *cluster.HostReport) {
				h.Status.Healthy, h.View.Linearizable = false, false
			}))},
		}},
	})
}

// reached is what every host in sight found at the member of c, whose host is out of sight.
func reached(o *cluster.Observation, r cluster.Reach) {
	roster, _ := o.Roster()
	for _, s := range roster.Seats {
		if s.HostID == "c" {
			r.Member = s.ID
		}
	}
	away("c", cluster.GapUnreachable)(o)
	for i := range o.Hosts {
		o.Hosts[i].Reaches = []cluster.Reach{r}
	}
}
