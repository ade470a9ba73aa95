package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// Below full strength a wait goes on while something is done about it, and ends only
// when nothing was for a while: a host that could join may be away for one look.
func TestStrength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &cluster.Observation{Spec: &cluster.Spec{MemberCount: 3}}
		to := cluster.MustVersion("3.6.16")
		grows := &plan.Decision{Rule: "grow", Reason: plan.Say("add host-3"), Action: &plan.Action{}}
		rests := &plan.Decision{Rule: "steady", Reason: plan.Say("2 of 3"), Blockers: []plan.Blocker{{Code: "backup-failed", Sentence: plan.Say("a backup failed")}, {Code: "no-host", Sentence: plan.Say("there is no free host")}}}
		// The leader looks again by itself: it waits for something.
		later := &plan.Decision{Rule: "grow", Reason: plan.Say("host-3 is starting"), Again: time.Second, Blockers: rests.Blockers}
		var s strength
		look := func(d *plan.Decision, done bool) told {
			t.Helper()
			r := s.look(o, d, cluster.Roster{}, to)
			if r.done != done {
				t.Errorf("%+v", r)
			}
			return r
		}
		look(grows, false)
		look(rests, false)
		time.Sleep(strengthSettles - time.Second)
		look(rests, false)
		look(grows, false)
		time.Sleep(time.Minute)
		look(rests, false)
		time.Sleep(strengthSettles)
		look(later, false)
		look(rests, false)
		time.Sleep(strengthSettles)
		if r := look(rests, true); !strings.Contains(r.why, "there is no free host") || !strings.Contains(r.why, "0 of 3 voters are up") {
			t.Error(r.why)
		}
	})
}
