package plan

import (
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/step"
)

// refusedSpec is a spec in the store that cannot be followed, with none before it.
func refusedSpec(o *cluster.Observation) {
	o.Spec, o.Standing = nil, &cluster.Standing{}
	o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapSpec, Detail: "a member count of 4 is even"})
}

func inReplacing(r *cluster.Replacing) func(o *cluster.Observation) {
	return inIntent(func(in *cluster.Intent) { in.Replacing = r })
}

// TestConditionsOfRepairs: what is repaired without a spec, and to how many voters.
func TestConditionsOfRepairs(t *testing.T) {
	refused := then(formedSight, refusedSpec)
	repairs := func(v *step.View) bool { return v.Repairs() && !v.Held() }
	member := func(o *cluster.Observation, id cluster.HostID) cluster.MemberID {
		return seatOf(step.Look(decision.Goal{Kind: decision.Converge}, o), id).ID
	}
	removed := then(refused, inReplacing(&cluster.Replacing{Member: 999, Host: "x", Voters: 5}))
	wants := func(n int) func(*step.View) bool { return func(v *step.View) bool { return v.Wanted() == n } }
	left := func(t *testing.T) *cluster.Observation { // three voters where there were to be two
		o := formedSight(t)
		inReplacing(&cluster.Replacing{Member: member(o, "b"), Host: "b", Voters: 2})(o)
		o.Spec.Hold = true
		return o
	}
	checkConditions(t, []condition{
		{"repairs under a refused spec", refused, repairs, []otherwise{
			{"the settings are not known", func(o *cluster.Observation) { o.Standing = nil }},
			{"they hold it", func(o *cluster.Observation) { o.Standing.Hold = true }},
			{"the store is silent", func(o *cluster.Observation) { o.Store.Read = false }},
			{"etcd is being downgraded", of("a", func(h *cluster.HostReport) {
				h.Status.Downgrading = cluster.MustVersion("3.5.35")
			})},
		}, nil},
		{"the count before a repair", removed, wants(5), []otherwise{
			{"there is no spec at all", func(o *cluster.Observation) { o.Standing = nil }},
			{"nothing is under way", inReplacing(nil)},
			{"the member is listed", func(o *cluster.Observation) {
				inReplacing(&cluster.Replacing{Member: member(o, "c"), Voters: 5})(o)
			}},
		}, nil},
		{"never fewer than there are", then(refused, inReplacing(&cluster.Replacing{Member: 999, Voters: 1})), wants(3), nil, nil},
		{"fewer where a successor votes", func(t *testing.T) *cluster.Observation {
			o := refused(t)
			inReplacing(&cluster.Replacing{Member: member(o, "b"), Voters: 2})(o)
			return o
		}, wants(2), nil, nil},
		{"finishes a person's replacement", left, func(v *step.View) bool { return members.FinishReplacing(v) != nil }, []otherwise{
			{"nothing is under way", inReplacing(nil)},
			{"there are no more than there were", func(o *cluster.Observation) {
				inReplacing(&cluster.Replacing{Member: member(o, "b"), Voters: 3})(o)
			}},
			{"the spec asks for as many", func(o *cluster.Observation) { o.Spec.Hold = false }},
			{"the member is gone", inReplacing(&cluster.Replacing{Member: 999, Voters: 2})},
			{"nobody knows what is wanted", func(o *cluster.Observation) { o.Spec = nil }},
		}, nil},
	})
}
