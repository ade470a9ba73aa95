package plan

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/pauses"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// pausedFor has a host paused for so long from now on, and that folded.
func pausedFor(id cluster.HostID, long time.Duration) func(*cluster.Observation) {
	return func(o *cluster.Observation) {
		o.Paused = append(o.Paused, cluster.Pause{Host: id, From: o.Clock().Add(-time.Minute), Until: o.Clock().Add(long), Reason: "kernel"})
		if long > 0 {
			o.Memory.Excused = append(o.Memory.Excused, cluster.Excused{Host: id, From: o.At, InForce: true})
		}
	}
}

// resumed has the silence of a host count again from a time on.
func resumed(id cluster.HostID, ago time.Duration) func(*cluster.Observation) {
	return func(o *cluster.Observation) {
		o.Memory.Excused = append(o.Memory.Excused, cluster.Excused{Host: id, From: o.At.Add(-ago)})
	}
}

func pausesUnread(o *cluster.Observation) {
	o.PausesUnread = "no answer"
	o.Memory.Excused = append(o.Memory.Excused, cluster.Excused{From: o.At, InForce: true})
}

// letGo has a host say that it was told that it may go at any moment.
func letGo(id cluster.HostID) func(*cluster.Observation) {
	return of(id, func(h *cluster.HostReport) { h.Paused = []cluster.Pause{{ID: "p", Host: id, Reason: "kernel"}} })
}

// TestConditionsOfPauses: whose silence counts, and who may be paused.
func TestConditionsOfPauses(t *testing.T) {
	silentC := then(formedSight, of("c", func(h *cluster.HostReport) { dies(h) }), ofMember("c", func(m *cluster.MemberMemory) {
		m.SilentSince = worldEpoch.Add(-time.Hour)
	}))
	hostless := then(func(t *testing.T) *cluster.Observation { return learnerAdded(t).observe() }, away("d", cluster.GapUnreachable), func(o *cluster.Observation) {
		r, _ := o.Roster()
		o.Memory.Members = nil
		for _, s := range r.Learners() {
			o.Memory.Members = append(o.Memory.Members, cluster.MemberMemory{Member: s.ID, HostlessSince: o.At.Add(-time.Hour)})
		}
		for i := range o.Hosts { // it has served, so that it has a name
			for j := range o.Hosts[i].View.Members {
				if m := &o.Hosts[i].View.Members[j]; m.Learner {
					m.Name = "d"
				}
			}
		}
	})
	asks := func(id cluster.HostID, force bool) func(*step.View) bool {
		return func(v *step.View) bool {
			v.Goal = decision.Goal{Kind: decision.Pause, Host: id, Pause: &decision.PauseAsked{For: time.Hour, Reason: "kernel", Force: force}}.Noted(v.Obs)
			d := pauses.Asked(v)
			return d.Action != nil && d.Action.Kind == decision.ActPause
		}
	}
	checkConditions(t, []condition{
		{"dead by silence", silentC, func(v *step.View) bool { d, _ := members.Dead(v, seatOf(v, "c")); return d }, []otherwise{
			{"its host is paused", pausedFor("c", time.Hour)},
			{"nobody knows who is paused", pausesUnread},
			{"its pause ended a moment ago", resumed("c", cluster.DefaultDeadAfter-time.Second)},
		}, []otherwise{
			{"another host is paused", pausedFor("b", time.Hour)},
			{"its pause ended as long ago as a silence may last", resumed("c", cluster.DefaultDeadAfter)},
			{"its pause is over", pausedFor("c", -time.Second)},
		}},
		{"dead by a person's step, whoever is paused", then(silentC, pausedFor("c", time.Hour)), func(v *step.View) bool {
			v.Goal = decision.Goal{Kind: decision.Leave, Host: "c"}
			d, _ := members.Dead(v, seatOf(v, "c"))
			return d
		}, nil, []otherwise{{"nobody knows who is paused", pausesUnread}}},
		{"another step of a person leaves a paused host as it is", then(silentC, pausedFor("c", time.Hour)), func(v *step.View) bool {
			v.Goal = decision.Goal{Kind: decision.Defragment, Host: "c"}
			d, _ := members.Dead(v, seatOf(v, "c"))
			return !d
		}, []otherwise{{"it is not paused", func(o *cluster.Observation) { o.Paused, o.Memory.Excused = nil, nil }}}, nil},
		{"a learner without a host goes", hostless, func(v *step.View) bool { return needs(v, awayLearner(v), members.RemedyRemove) }, nil, []otherwise{
			{"its host is paused", pausedFor("d", time.Hour)},
			{"nobody knows who is paused", pausesUnread},
			{"its pause ended a moment ago", resumed("d", sight.JoinPatience-time.Second)},
		}},
		{"why a silent voter is not replaced is told", then(silentC, pausedFor("c", time.Hour)), func(v *step.View) bool {
			members.ReplaceDead(v)
			return len(v.Notices) == 1 && v.Notices[0].Code == "host-paused" && strings.Contains(v.Notices[0].Sentence.String(), "kernel")
		}, []otherwise{{"its host is not paused", func(o *cluster.Observation) { o.Paused, o.Memory.Excused = nil, nil }}}, nil},
		{"a host is paused", formedSight, asks("c", false), []otherwise{
			{"another voter is paused", pausedFor("b", time.Hour)},
			{"another voter is down", of("b", unhealthy)},
			{"the store cannot be read", func(o *cluster.Observation) { o.Store.Read = false }},
			{"nobody knows who is paused", pausesUnread},
			{"no member answers", func(o *cluster.Observation) {
				for i := range o.Hosts {
					o.Hosts[i].View = nil
				}
			}},
		}, []otherwise{
			{"it is paused already", pausedFor("c", time.Minute)},
			{"the pause of another voter is over", pausedFor("b", -time.Second)},
			{"a host without a member is paused", pausedFor("d", time.Hour)},
			{"it is down itself", of("c", unhealthy)},
			{"there is no spec", noSpec},
		}},
		{"a removal waits for a host that may go, though that host is down", then(formedSight, of("c", unhealthy), of("b", unhealthy), letGo("b")), func(v *step.View) bool {
			s, _ := v.Roster.Seat(0x103)
			d := step.RemoveDead(v, s, words.F("c is dead"))
			return d != nil && d.Action == nil && strings.Contains(d.Reason.String(), "host b is paused")
		}, []otherwise{
			{"the host was not let go", of("b", func(h *cluster.HostReport) { h.Paused = nil })},
			{"the process of the dead one has ended", of("c", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessStopped })},
		}, []otherwise{{"the host that may go is up", of("b", func(h *cluster.HostReport) { h.Status.Healthy = true })}}},
		{"a host is paused by force", then(formedSight, pausedFor("b", time.Hour)), asks("c", true), []otherwise{
			{"nobody knows who is paused", pausesUnread},
		}, []otherwise{{"no member answers", func(o *cluster.Observation) {
			for i := range o.Hosts {
				o.Hosts[i].View = nil
			}
		}}}},
	})
}

// A pause that is written again is the same one: the time of its end is fixed when the
// leader takes it up, and goes by most hosts' clocks.
func TestPauseIsTakenUpOnce(t *testing.T) {
	o := formedSight(t)
	for i := range o.Hosts {
		o.Hosts[i].Clock = o.At.Add(time.Hour) // the leader's clock is behind all others
	}
	g := decision.Goal{Kind: decision.Pause, Host: "b", Pause: &decision.PauseAsked{For: time.Minute, Reason: "r"}}
	first := g.Noted(o)
	if g.Pause.From != (time.Time{}) || !first.Pause.From.Equal(o.At.Add(time.Hour).Truncate(time.Second)) {
		t.Fatalf("%v, of %v", first.Pause, g.Pause)
	}
	o.At = o.At.Add(time.Minute)
	if again := first.Noted(o); !again.Pause.From.Equal(first.Pause.From) {
		t.Errorf("taken up again at %s", again.Pause.From)
	}
	d := Next(first, o)
	if d.Action == nil || d.Action.Kind != decision.ActPause {
		t.Fatalf("%+v", d)
	}
	o.Paused = d.Action.Pauses.Now
	if d = Next(first, o); !d.Done {
		t.Errorf("%+v", d)
	}
}
