// Package sight is what a planner knows: one observation with its members, hosts and
// record matched, and the questions that rules ask about them. It decides nothing and
// tells nobody anything; who asks it does. What may be taken away is asked in one place,
// [Sight.MayBeAway].
package sight

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Sight is one observation, and what is asked about it. Nothing changes it.
type Sight struct {
	Goal decision.Goal
	Obs  *cluster.Observation
	Spec *cluster.Spec // nil: none, or one that is refused
	// Standing is what repairs go by where the spec is refused; nil: there is a spec, or
	// nothing can be repaired.
	Standing *cluster.Standing
	Intent   *cluster.Intent
	Roster   cluster.Roster
	Seen     bool // a member list is in sight
	// Strange is the cluster of members in sight that are none of the founding's; they are
	// left alone. Zero: there are none.
	Strange cluster.ClusterID
}

// New makes a sight of an observation, and of what is wanted.
func New(goal decision.Goal, o *cluster.Observation) *Sight {
	v := &Sight{Goal: goal, Obs: o, Intent: o.Intent()}
	if s := o.Wanted(); s != nil && s.Validate() == nil {
		v.Spec = s
	}
	v.Roster, v.Seen = o.Roster()
	if v.Seen && v.Intent != nil && v.Intent.State == cluster.IntentFounding && !foundersListed(v) {
		if v.SupersededCluster(v.Roster.Cluster) {
			v.Roster, v.Seen = cluster.Roster{}, false // its hosts are about to stop it
			return v
		}
		v.Strange = v.Roster.Cluster
		v.Roster, v.Seen = cluster.Roster{}, false
	}
	if v.Spec == nil && o.Store.Read && v.Seen && !v.Roster.Running().Downgrade { // while that is under way etcd takes no joiner
		v.Standing = o.Standing
	}
	return v
}

// SupersededCluster reports whether the history of the intent has the cluster.
func (v *Sight) SupersededCluster(id cluster.ClusterID) bool {
	return id != 0 && slices.ContainsFunc(v.Intent.History, func(g cluster.PastGeneration) bool { return g.Cluster == id })
}

// foundersListed: the member list in sight is that of the founding. Member
// IDs come from its token, so that no other cluster has them.
func foundersListed(v *Sight) bool {
	return slices.ContainsFunc(v.Intent.Founders, func(f cluster.Founder) bool {
		_, ok := v.Roster.Seat(f.Member)
		return ok
	})
}
