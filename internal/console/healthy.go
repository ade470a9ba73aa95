package console

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// Health is how a cluster is, in one word; who has only the store reads it there.
type Health = control.Health

// The cluster's health, the best first.
const (
	Well     = control.Well // [Report.Healthy], and nothing waits for a person
	Degraded = control.Degraded
	NoQuorum = control.NoQuorum
	Unknown  = control.Unknown
)

// Health is how the cluster is as the leading daemon saw it last.
func (r Report) Health() Health {
	switch o := r.Observation; {
	case o == nil:
		return Unknown
	case !serves(o):
		return NoQuorum
	case !r.Healthy() || r.Decision != nil && slices.ContainsFunc(r.Decision.Blockers, forAPerson):
		return Degraded
	}
	return Well
}

// forAPerson reports whether a blocker stays until a person does what it says.
func forAPerson(b plan.Blocker) bool { return b.Command != "" || b.Advice != "" }

// serves reports whether ordinary clients are served: a quorum is up, or has answered a
// read just now although too few of its hosts were heard.
func serves(o *cluster.Observation) bool {
	roster, seen := o.Roster()
	return seen && letsIn(o.Intent()) && (roster.HasQuorum() || roster.Linearizable)
}

// letsIn reports whether the members that were founded let ordinary clients in.
func letsIn(in *cluster.Intent) bool {
	return in != nil && in.State == cluster.IntentFounded && !in.Quarantined && in.Halted() == nil
}

// Healthy reports whether every voter that is wanted is up, a quorum said so, ordinary
// clients are served, and etcd has raised no alarm; of a spec on hold those that there
// are, are wanted. What is not seen is not healthy.
func (r Report) Healthy() bool {
	o := r.Observation
	if o == nil {
		return false
	}
	roster, seen := o.Roster()
	spec := o.Wanted()
	if !seen || !roster.Linearizable || spec == nil || !letsIn(o.Intent()) {
		return false
	}
	voters, up := roster.Count()
	full := voters > 0 && up == voters && (spec.Hold || voters == spec.MemberCount)
	return full && len(roster.Alarms(cluster.AlarmNoSpace)) == 0 && len(roster.Alarms(cluster.AlarmCorrupt)) == 0
}
