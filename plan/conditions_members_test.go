package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
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
	corrupted := then(formedSight, ofMember("c", func(m *cluster.MemberMemory) { m.CorruptSince = worldEpoch }))
	hung := then(formedSight, of("c", func(h *cluster.HostReport) {
		h.Status, h.View, h.Process.State = nil, nil, cluster.ProcessSilent
	}), ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince = worldEpoch }))
	joiner := func(t *testing.T) *cluster.Observation { return learnerAdded(t).observe() }
	wiped := func(t *testing.T) *cluster.Observation {
		w := formed(t)
		w.wipe(w.host("c"), "")
		return w.observe()
	}
	checkConditions(t, []condition{
		{"dead by silence", silentC, func(v *view) bool { d, _ := v.dead(seatOf(v, "c")); return d }, []otherwise{
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
		{"dead by its own host's word", wiped, func(v *view) bool { return seatOf(v, "c").Wiped() }, []otherwise{
			{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its host holds data", of("c", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"its host holds what nothing accounts for", of("c", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"its host holds another program's member", of("c", func(h *cluster.HostReport) { h.Predecessor = &cluster.Predecessor{Waits: "x"} })},
			{"something runs there", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
		}, nil},
		{"its data is gone from the disk", vanished, func(v *view) bool { d, _ := v.vanished(seatOf(v, "c")); return d }, []otherwise{
			{"the data is there", of("c", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"nobody remembers it", ofMember("c", func(m *cluster.MemberMemory) { m.VanishedSince = time.Time{} })},
			{"it was seen just now", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.VanishedSince = o.At.Add(time.Second - vanishedFor) })(o)
			}},
			{"another voter is down", of("b", unhealthy)},
			{"its host is not in sight", away("c", cluster.GapUnreachable)},
			{"its process does not run", of("c", dies)},
		}, nil},
		{"its keys are not those of the others", corrupted, func(v *view) bool { d, _ := v.corrupt(seatOf(v, "c")); return d }, []otherwise{
			{"another voter is down", of("b", unhealthy)},
			{"no comparison says so", ofMember("c", func(m *cluster.MemberMemory) { m.CorruptSince = time.Time{} })},
			{"there are but two voters", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if w := o.Hosts[i].View; w != nil {
						w.Members = w.Members[1:]
					}
				}
			}},
		}, []otherwise{
			{"another one's are wrong as well", ofMember("b", func(m *cluster.MemberMemory) { m.CorruptSince = worldEpoch })},
		}},
		{"a hung one is revived", hung, func(v *view) bool { return reviveHung(v) != nil }, []otherwise{
			{"another voter is down", of("b", unhealthy)},
			{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its process does not run", of("c", dies)},
			{"its data is gone", of("c", func(h *cluster.HostReport) { h.Local.HasData = false })},
			{"it is of another generation", of("c", func(h *cluster.HostReport) { h.Local.Generation = 2 })},
			{"it is stopped for good", of("c", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
			{"it has not lasted", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince = o.At.Add(time.Second - reviveAfter) })(o)
			}},
			{"it was revived twice already", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince, m.Revived = o.At.Add(-3*reviveAfter), 2 })(o)
			}},
		}, []otherwise{
			{"it has lasted just as long as it must", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.LeaderlessSince = o.At.Add(-reviveAfter) })(o)
			}},
		}},
		{"a joiner may start", joiner, func(v *view) bool { return v.ready(inSight(v, "d"), seatOf(v, "d").Member) }, []otherwise{
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
		}, []otherwise{
			{"it refuses the generations before", of("d", func(h *cluster.HostReport) { h.LowestGeneration = 1 })},
			{"it has a problem that does not matter", of("d", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x"}} })},
		}},
		{"a dead voter's host can be used again", silentC, func(v *view) bool { return v.reusable(inSight(v, "c")) }, []otherwise{
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

// TestConditionsOfReleases: when a member is given another release because it does
// not start with the one that it has.
func TestConditionsOfReleases(t *testing.T) {
	broken := then(formedSight, of("c", func(h *cluster.HostReport) {
		dies(h)
		h.Local.Version = version("3.7.3")
	}), ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = worldEpoch }))
	falls := func(v *view) bool { return v.fallBack(v.roster.Running()) != nil }
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
				ofMember("c", func(m *cluster.MemberMemory) { m.SilentSince = o.At.Add(time.Second - startGrace) })(o)
			}},
			{"its host lacks it", of("c", func(h *cluster.HostReport) { h.Releases = []cluster.Version{version("3.7.3")} })},
			{"the members have agreed on the new line", func(o *cluster.Observation) {
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
		}), func(v *view) bool { return v.fallBack(v.roster.Running()) == nil && len(v.asides) == 1 }, []otherwise{
			{"nobody wants that any more", func(o *cluster.Observation) { sp := *o.Spec; sp.PauseBeforeLast = false; o.Spec = &sp }},
			{"it was given that line just now", of("c", func(h *cluster.HostReport) { h.Local.Previous = version("3.6.16") })},
			{"it is the line that is wanted", func(o *cluster.Observation) { sp := *o.Spec; sp.EtcdVersion = version("3.7.3"); o.Spec = &sp }},
		}, nil},
		{"it gets the patch that it ran before", then(two, of("c", func(h *cluster.HostReport) {
			h.Local.Version, h.Local.Previous = version("3.6.16"), version("3.6.14")
			h.Releases = append(h.Releases, version("3.6.14"))
		})), func(v *view) bool {
			d := v.otherRelease()
			return d != nil && d.Action.Ops[0].Op.Version == version("3.6.14")
		}, nil, nil},
		{"one of two gets what it ran before", two, func(v *view) bool { return v.otherRelease() != nil }, append([]otherwise{
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
			{"there was a quorum a moment ago", func(o *cluster.Observation) { o.Memory.QuorumlessSince = o.At.Add(time.Second - startGrace) }},
		}, starts...), nil},
	})
}
