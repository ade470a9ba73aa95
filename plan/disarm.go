package plan

import (
	"fmt"
	"strings"

	"etcdadm.io/cluster"
)

// disarmAsked takes back the alarms that a person named, one at a time, each only
// where what it is about is over: etcd asks nothing, and writes would go on into a
// full database, or on top of different keys.
func disarmAsked(v *view) *Decision {
	if !v.seen {
		return wait(true, "no-quorum", "", "no member answers")
	}
	for _, kind := range []string{cluster.AlarmNoSpace, cluster.AlarmCorrupt} {
		if v.goal.Alarm != "" && v.goal.Alarm != kind {
			continue
		}
		alarms := v.roster.Alarms(kind)
		if len(alarms) == 0 {
			continue
		}
		if d := v.mayNotDisarm(kind, alarms); d != nil {
			return d
		}
		a := alarms[0]
		of := "member " + a.Member.String()
		if a.Member == 0 {
			of = "all members"
		}
		return v.membership(v.projection(0, 0), cluster.Op{Kind: cluster.OpDisarm, Alarm: a.Kind, Member: a.Member}, 0,
			strings.TrimSpace("etcdadm alarm disarm "+kind), fmt.Sprintf("take the %s alarm of %s back, as asked", kind, of))
	}
	if v.goal.Acted {
		return &Decision{Reason: "the alarm is taken back", Done: true}
	}
	return &Decision{Reason: "no such alarm is raised", Done: true}
}

func (v *view) mayNotDisarm(kind string, alarms []cluster.Alarm) *Decision {
	if kind == cluster.AlarmNoSpace {
		for _, s := range v.overLimit() {
			st := s.Host.Status
			if st.DBSize < st.Room() { // a person may want the last tenth
				continue
			}
			return refuse("no-space", "", "the database of %s has %s of a quota of %s, so the alarm would be back with the next write; the leading daemon compacts and defragments first, and takes it back then, or says what helps", seatName(s), bytesWords(st.DBSize), bytesWords(st.Room()))
		}
		return nil
	}
	m := v.obs.Memory.Upkeep
	equal := m.Undecided == 0 && !v.suspects(1) && m.Explains()
	if equal || v.goal.AcceptDifference || len(v.roster.Voters()) == 1 {
		return nil
	}
	return refuse("corrupt", "etcdadm alarm disarm CORRUPT --accept-difference", "nothing shows that the members' keys are equal since etcd raised CORRUPT (of %s): writes would go on, on top of different keys. The leading daemon compares them by itself where three voters are up", alarmWords(alarms))
}
