package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// restartAsked is a person's step: a member whose etcd runs with other settings than it
// would be started with is restarted in place, under the guards of options that roll. What
// runs with its settings is left alone, so that the step can be asked for again. A voter
// that is not up may be what the quorum hangs on all the same: it waits for the others as
// one that is up does, and what could not come back is not ended at all.
func restartAsked(v *view) *Decision {
	s, d := v.target()
	if d != nil {
		return d
	}
	switch {
	case s.Host == nil || !s.Host.UnderFence:
		return waitLater("member-silent", "", "the member of %s is not restarted while its host does not answer", seatName(s))
	case len(s.Host.Process.Differs) == 0 && s.Up:
		return &Decision{Reason: fmt.Sprintf("the member of %s runs with the settings that it would be started with", seatName(s)), Done: true}
	case len(s.Host.Process.Differs) == 0:
		return &Decision{Reason: fmt.Sprintf("the member of %s has its settings, and is not up yet: %s", seatName(s), s.Why), Again: soon}
	case v.withoutTLS(s.Host):
		return refuse("members-tls", "", "the member of %s would come back without TLS, which the other members speak with each other; give its daemon https in --peer-urls first", seatName(s))
	}
	if d := v.staysDown(s); d != nil {
		return d
	}
	why := "as asked, so that " + strings.Join(s.Host.Process.Differs, ", ") + " take effect"
	if !s.Learner {
		if d := v.awaitAway(s, fmt.Sprintf("restart the member of %s: %s", seatName(s), why)); d != nil {
			return d
		}
	}
	return v.restartOne(s, why)
}

// staysDown refuses to restart a member that would not come back from it; nil: nothing
// says so.
func (v *view) staysDown(s cluster.Seat) *Decision {
	alarmed := slices.ContainsFunc(v.roster.Alarms(cluster.AlarmCorrupt), func(a cluster.Alarm) bool { return a.Member == s.ID })
	switch {
	case s.Host.Vanished():
		return refuse("data-vanished", "", "the member of %s serves from memory, and its data is gone from the disk: a restart would end the only copy that it has; beside other voters it is replaced by itself once these are up", seatName(s))
	case s.Host.Process.Damaged != "":
		return refuse("data-damaged", "", "the member of %s would not come back, because etcd cannot read its data: %s", seatName(s), s.Host.Process.Damaged)
	case alarmed || !v.obs.Memory.Member(s.ID).CorruptSince.IsZero():
		return refuse("corrupt", "", "the member of %s may not come back: its keys are said to differ from those of the other voters, which etcd checks at a start too", seatName(s))
	}
	return nil
}
