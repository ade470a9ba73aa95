package console

import "etcdadm.io/cluster"

// Healthy reports whether every voter that is wanted is up, a quorum said so, ordinary
// clients are served, and etcd has raised no alarm; of a spec on hold those that there
// are, are wanted. What is not seen is not healthy.
func (r Report) Healthy() bool {
	o := r.Observation
	if o == nil {
		return false
	}
	roster, seen := o.Roster()
	spec, in := o.Wanted(), o.Intent()
	if !seen || !roster.Linearizable || spec == nil || in == nil {
		return false
	}
	voters, up := roster.Count()
	full := voters > 0 && up == voters && (spec.Hold || voters == spec.MemberCount)
	served := in.State == cluster.IntentFounded && !in.Quarantined && in.Halted() == nil
	return full && served && len(roster.Alarms(cluster.AlarmNoSpace)) == 0 && len(roster.Alarms(cluster.AlarmCorrupt)) == 0
}
