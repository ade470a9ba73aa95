package upkeep

import (
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// DisarmAsked takes back the alarms that a person named, one at a time, each only
// where what it is about is over: etcd asks nothing, and writes would go on into a
// full database, or on top of different keys.
func DisarmAsked(v *step.View) *decision.Decision {
	if !v.Seen {
		return decision.Wait(true, "no-quorum", "", "no member answers")
	}
	for _, kind := range []string{cluster.AlarmNoSpace, cluster.AlarmCorrupt} {
		if v.Goal.Alarm != "" && v.Goal.Alarm != kind {
			continue
		}
		alarms := v.Roster.Alarms(kind)
		if len(alarms) == 0 {
			continue
		}
		if d := mayNotDisarm(v, kind, alarms); d != nil {
			return d
		}
		a := alarms[0]
		of := "member " + a.Member.String()
		if a.Member == 0 {
			of = "all members"
		}
		return step.Membership(v, v.Projection(0, 0), cluster.Op{Kind: cluster.OpDisarm, Alarm: a.Kind, Member: a.Member}, 0,
			strings.TrimSpace("etcdadm alarm disarm "+kind), words.F("disarm the {kind} alarm of {of}, as asked", kind, of))
	}
	if v.Goal.Acted {
		return &decision.Decision{Reason: words.F("the alarm is taken back"), Done: true}
	}
	return &decision.Decision{Reason: words.F("no such alarm is raised"), Done: true}
}

func mayNotDisarm(v *step.View, kind string, alarms []cluster.Alarm) *decision.Decision {
	if kind == cluster.AlarmNoSpace {
		for _, s := range overLimit(v) {
			st := s.Host.Status
			if st.DBSize < st.Capacity() { // a person may want the last tenth
				continue
			}
			return decision.Refuse("no-space", "", "the database of {member} has {dBSize} of a quota of {room}: the alarm would be back with the next write. The leading daemon compacts and defragments first, then disarms it", words.SeatName(s), words.BytesWords(st.DBSize), words.BytesWords(st.Capacity()))
		}
		return nil
	}
	m := v.Obs.Memory.Upkeep
	equal := m.Undecided == 0 && !suspects(v, 1) && m.Explains()
	if equal || v.Goal.AcceptDifference || len(v.Roster.Voters()) == 1 {
		return nil
	}
	return decision.Refuse("corrupt", "etcdadm alarm disarm CORRUPT --accept-difference", "nothing shows that the members' keys are equal since CORRUPT (raised by {alarm}): writes would go on over different keys. The leading daemon compares them where three voters are up", words.AlarmWords(alarms))
}
