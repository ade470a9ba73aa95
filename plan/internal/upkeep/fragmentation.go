package upkeep

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

const (
	// LeastFree is how much has to be free in a database before it is worth taking
	// its member away for as long as it takes to write the rest anew.
	LeastFree = 32 << 20 // bytes
	// DefragEvery is how often a member is defragmented at most, and defragRetry
	// the pause after one that failed while etcd refuses writes.
	DefragEvery = time.Hour
	defragRetry = time.Minute
)

// Defragment has one voter write its database anew of which more than the
// threshold is free. It is taken away like a member that is restarted, raft's leader
// last, after it has handed over.
func Defragment(v *step.View) *decision.Decision {
	if v.Obs.Upkeep.DefragThreshold <= 0 || len(v.Roster.Voters()) < 3 {
		return nil
	}
	if why := restless(v); why != "" {
		return nil
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.Roster.Voters() {
			if s.RaftLeader != leading || !fragmented(v, s) {
				continue
			}
			if h := mayNotDefragment(v, s); h != nil {
				v.Notice("fragmented", "", "the database of {member} is fragmented, and is defragmented later: {why}", words.SeatName(s), h.Why)
				return nil
			}
			st := s.Host.Status
			return v.Unasked(defragmentSeat(v, s, words.F("the database of {member} has {free} of its {size} free", words.SeatName(s), words.BytesWords(st.DBSize-st.DBInUse), words.BytesWords(st.DBSize))))
		}
	}
	return nil
}

// fragmented: so much of the voter's database is free that it is worth it.
func fragmented(v *step.View, s cluster.Seat) bool {
	if s.Host == nil || s.Host.Status == nil || s.Host.Status.DBInUse == 0 { // before 3.4 etcd does not tell
		return false
	}
	st := s.Host.Status
	free := st.DBSize - st.DBInUse
	if w := s.Host.Database; w != nil && w.Member == s.ID && v.Ago(s.Host, w.Defragmented) < DefragEvery {
		return false
	}
	return free >= LeastFree && free/100 >= st.DBSize/10000*int64(v.Obs.Upkeep.DefragThreshold)
}

// restless says what is going on that a member is not taken away beside for its
// own good only; empty: nothing.
func restless(v *step.View) string {
	in := v.Intent
	full := v.Goal.Kind != decision.Defragment && len(v.Roster.Alarms(cluster.AlarmNoSpace)) > 0
	switch {
	case in == nil || in.State != cluster.IntentFounded || in.Quarantined || len(in.Next) > 0 || len(in.Pending) > 0:
		return "the membership is being changed"
	case v.Roster.Running().Mixed() || v.Roster.Running().Downgrade:
		return "versions are being changed"
	case full || len(v.Roster.Alarms(cluster.AlarmCorrupt)) > 0:
		return "an alarm is raised"
	case v.BackingUp():
		return "a backup is being taken"
	}
	for _, c := range v.Obs.Commands {
		if c.Kind != cluster.CommandBackup && c.Ended == "" {
			return "a command in the queue comes first"
		}
	}
	return ""
}

// mayNotDefragment says what keeps a voter from being defragmented now; nil: nothing.
// One of two voters is, when etcd refuses writes or a person asks: raft goes on
// meanwhile, and SAFETY.md, rule 1, lets one of two be restarted.
// While etcd writes the database anew it serves nothing, and waits for a learner that
// reads a snapshot of it.
func mayNotDefragment(v *step.View, s cluster.Seat) *sight.Hindrance {
	not := func(template string, facts ...any) *sight.Hindrance {
		return &sight.Hindrance{Why: words.F(template, facts...), Again: decision.Later, Blocks: true}
	}
	voters := len(v.Roster.Voters())
	switch h := s.Host; {
	case !s.Up:
		return not("it is not up: {why}", s.Why)
	case voters == 2 && v.Goal.Kind != decision.Defragment && len(v.Roster.Alarms(cluster.AlarmNoSpace)) == 0:
		return not("with two voters what reads or writes through one of them waits for as long as it takes; with a third it can be done")
	case len(v.Roster.Learners()) > 0:
		return not("a learner is catching up")
	case h.FreeSpace > 0 && h.FreeSpace < h.Status.DBInUse+h.Status.DBInUse/10:
		return not("host {host} has room for {room}, and its database is written anew beside the old one", h.Host, words.BytesWords(h.FreeSpace))
	}
	if w := s.Host.Database; w != nil && w.Member == s.ID && w.Error != "" && v.Ago(s.Host, w.Defragmented) < defragRetry {
		return not("the last try failed: {error}", w.Error)
	}
	return v.MayBeAway(s)
}

func defragmentSeat(v *step.View, s cluster.Seat, reason words.Text) *decision.Decision {
	reason = words.F("{what}: defragment it", reason)
	p := v.Projection(0, -1)
	if s.RaftLeader && p.Voters > 1 {
		return step.HandOver(v, s, reason, nil)
	}
	g := v.Roster.Guard()
	g.NotLeader = p.Voters > 1
	return &decision.Decision{
		Reason: reason,
		Again:  decision.Later,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: "etcdadm defrag " + words.SeatName(s), Ops: []decision.HostOp{
			decision.OnHost(s.Host, g, cluster.Op{Kind: cluster.OpDefragment, Host: s.HostID, Member: s.ID, Cluster: v.Roster.Cluster})}},
	}
}
