package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// TestConditionsOfFounding: when a founder may start, which ones are waited for, and
// when a founding is given up whose founders look as if they could start.
func TestConditionsOfFounding(t *testing.T) {
	waits := then(formedSight, inIntent(func(in *cluster.Intent) {
		in.State, in.Voters = cluster.IntentFounding, nil
		in.Timestamp = worldEpoch.Add(-24 * time.Hour).UnixNano()
	}), func(o *cluster.Observation) {
		for i := range o.Hosts {
			h := &o.Hosts[i]
			h.Local, h.Status, h.View, h.Process = cluster.LocalMember{}, nil, nil, cluster.Process{}
		}
		o.Memory.Founding = cluster.Founding{Generation: 1, Since: o.At.Add(-sight.FoundingStalled)}
		for i := range o.Memory.Hosts {
			o.Memory.Hosts[i].FenceSince = o.At.Add(-sight.FoundingStalled)
		}
	})
	asked := []decision.HostOp{{Host: "a"}, {Host: "b"}, {Host: "c"}}
	founder := func(v *step.View) string { return generation.CannotFound(v, v.Intent.Founders[0], inSight(v, "a")) }
	starting := then(waits, of("a", func(h *cluster.HostReport) {
		h.Process = cluster.Process{State: cluster.ProcessRunning, Uptime: generation.FounderStep / 2}
	}))
	checkConditions(t, []condition{
		{"a founding that nobody starts is given up", waits, func(v *step.View) bool { return generation.RefoundUntried(v, asked, nil) != nil }, []otherwise{
			{"it has not been looked at", func(o *cluster.Observation) { o.Memory.Founding.Since = time.Time{} }},
			{"it is another one", func(o *cluster.Observation) { o.Memory.Founding.Generation = 9 }},
			{"it has not had its time", func(o *cluster.Observation) { o.Memory.Founding.Since = o.At.Add(time.Second - sight.FoundingStalled) }},
			{"a founder has just come", func(o *cluster.Observation) { remember(o, "b").FenceSince = o.At }},
		}, nil},
		{"a founder may start", waits, func(v *step.View) bool { return founder(v) == "" }, []otherwise{
			{"it says that it cannot", of("a", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x", Unfit: true}} })},
			{"it holds what nothing accounts for", of("a", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"it listens elsewhere", of("a", func(h *cluster.HostReport) { h.URLs.Peer = []string{"https://elsewhere:2380"} })},
			{"it lacks the release", of("a", func(h *cluster.HostReport) { h.Releases = nil })},
		}, []otherwise{
			{"it has a problem that does not matter", of("a", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x"}} })},
		}},
		{"the next founder waits for the one before", starting, func(v *step.View) bool { return generation.FounderPause(v) > 0 }, []otherwise{
			{"that serves", of("a", func(h *cluster.HostReport) { h.Status = &cluster.MemberStatus{} })},
			{"that does not run", of("a", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessBackoff })},
			{"that was started long ago", of("a", func(h *cluster.HostReport) { h.Process.Uptime = generation.FounderStep })},
			{"nobody knows when that was started", of("a", func(h *cluster.HostReport) { h.Process.Uptime = 0 })},
		}, nil},
	})
}

// TestConditionsOfJoiners: which learners are removed again, and how one is added.
func TestConditionsOfJoiners(t *testing.T) {
	hostless := func(t *testing.T) *cluster.Observation {
		o := learnerAdded(t).observe()
		ofMemberID(o, learnerIn(o), func(m *cluster.MemberMemory) { m.HostlessSince = o.At.Add(-sight.JoinPatience) })
		return o
	}
	of0 := func(change func(o *cluster.Observation, m *cluster.MemberMemory)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			ofMemberID(o, learnerIn(o), func(m *cluster.MemberMemory) { change(o, m) })
		}
	}
	stuck := then(func(t *testing.T) *cluster.Observation { return learnerAdded(t).observe() }, of("d", func(h *cluster.HostReport) {
		h.Local.State, h.Process.State = cluster.MemberStarting, cluster.ProcessBackoff
	}), func(o *cluster.Observation) {
		of("d", func(h *cluster.HostReport) { h.Local.Member = learnerIn(o) })(o)
	}, of0(func(o *cluster.Observation, m *cluster.MemberMemory) { m.JoiningSince = o.At.Add(-sight.JoinPatience) }))
	checkConditions(t, []condition{
		{"one that no host carries is removed", hostless, func(v *step.View) bool {
			return needs(v, awayLearner(v), members.RemedyRemove)
		}, []otherwise{
			{"nobody knows for how long", of0(func(_ *cluster.Observation, m *cluster.MemberMemory) { m.HostlessSince = time.Time{} })},
			{"it was so for a moment only", of0(func(o *cluster.Observation, m *cluster.MemberMemory) {
				m.HostlessSince = o.At.Add(time.Second - sight.JoinPatience)
			})},
		}, nil},
		{"one that never starts is removed", stuck, func(v *step.View) bool { return needs(v, v.Roster.Learners()[0], members.RemedyRemove) }, []otherwise{
			{"its host has not promised", of("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it was started", of("d", func(h *cluster.HostReport) { h.Local.State = cluster.MemberStarted })},
			{"it has data", of("d", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"it runs", of("d", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessRunning })},
			{"nobody knows for how long", of0(func(_ *cluster.Observation, m *cluster.MemberMemory) { m.JoiningSince = time.Time{} })},
			{"it has not lasted", of0(func(o *cluster.Observation, m *cluster.MemberMemory) {
				m.JoiningSince = o.At.Add(time.Second - sight.JoinPatience)
			})},
		}, []otherwise{
			{"etcd's program cannot be run there", of("d", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessStopped })},
		}},
		{"one that its host gave up is removed", then(stuck, of("d", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })), func(v *step.View) bool {
			return needs(v, v.Roster.Learners()[0], members.RemedyRemove)
		}, []otherwise{
			{"its host has not promised", of("d", func(h *cluster.HostReport) { h.UnderFence = false })},
		}, nil},
		{"one is added", formedSight, func(v *step.View) bool {
			d := step.Add(v, inSight(v, "d"), words.F("x"))
			return d != nil && d.Action != nil
		}, []otherwise{
			{"nobody knows what the members run", func(o *cluster.Observation) {
				inIntent(func(in *cluster.Intent) { in.Version = cluster.Version{} })(o)
				for i := range o.Hosts {
					h := &o.Hosts[i]
					h.Local.Version = cluster.Version{}
					if h.Status != nil {
						h.Status.Version = cluster.Version{}
					}
				}
			}},
		}, nil},
	})
}

func learnerIn(o *cluster.Observation) cluster.MemberID {
	r, _ := o.Roster()
	for _, s := range r.Learners() {
		return s.ID
	}
	return 0
}

// ofMemberID changes what is remembered of a member, whoever carries it.
func ofMemberID(o *cluster.Observation, id cluster.MemberID, change func(m *cluster.MemberMemory)) {
	for i := range o.Memory.Members {
		if m := &o.Memory.Members[i]; m.Member == id {
			change(m)
			return
		}
	}
	m := cluster.MemberMemory{Member: id}
	change(&m)
	o.Memory.Members = append(o.Memory.Members, m)
}
