package plan

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// odd: two comparisons, or etcd and one, found that its keys are not those of the
// majority.
func (l *laws) odd(id cluster.MemberID) bool {
	m := l.o.Memory.Member(id)
	return !m.CorruptSince.IsZero() && (m.Odd >= 2 || !l.o.Memory.Upkeep.CorruptSince.IsZero())
}

// upkeepOp: a member is taken away for its own good only while all the others are
// up, and a single one only when it refuses writes anyway.
func (l *laws) upkeepOp(x decision.HostOp, h *cluster.HostReport) bool {
	switch x.Op.Kind {
	case cluster.OpHash:
		l.must(x.Op.Revision > 0 && x.Op.Member == h.Local.Member && h.Status != nil && h.Status.Revision >= x.Op.Revision, "a hash at a revision that host %s has not", h.Host)
		for _, o := range l.o.Hosts {
			l.must(o.Hash == nil || !o.Hash.Running, "two hashes at a time")
		}
	case cluster.OpDefragment:
		s, listed := l.roster.Seat(x.Op.Member)
		if !l.must(listed && s.Up && !s.Learner && s.Host.Host == h.Host && l.roster.Linearizable, "a defragmentation of what is no voter that is up") {
			return true
		}
		voters := len(l.roster.Voters())
		asked := l.goal.Kind == decision.Defragment
		full := len(l.roster.Alarms(cluster.AlarmNoSpace)) > 0
		l.must(len(l.roster.Up()) == voters && (voters != 2 || full || asked), "a defragmentation that takes the margin")
		l.must(voters > 1 || full || asked, "the only voter defragmented without need")
		l.must(voters == 1 || !s.RaftLeader && x.Guard.NotLeader, "raft's leader defragmented")
		l.must(len(l.roster.Learners()) == 0, "a defragmentation beside a learner")
		l.must(h.Taken == nil || !h.Taken.Running, "a defragmentation under a backup")
		for _, o := range l.roster.Up() {
			l.must(o.Host.Status.Applied+5000 > h.Status.Index, "a defragmentation while %s catches up", o.HostID)
		}
		w := h.Database
		l.must(full || asked || w == nil || w.Defragmented.IsZero() || h.Clock.Sub(w.Defragmented) >= time.Hour, "a defragmentation right after another one")
		l.must(full || l.in.State == cluster.IntentFounded && !l.in.Quarantined && len(l.in.Next) == 0, "a defragmentation while the membership changes")
		p := l.d.Action.Projection
		l.must(p.VotersAfter == voters && p.UpAfter == p.Up-1, "a defragmentation that claims to take nobody down")
	default:
		return false
	}
	return true
}

// databaseOp: the past is forgotten only for room that is needed, and an alarm is
// taken back only when what it is about is over.
func (l *laws) databaseOp(x decision.HostOp) {
	switch x.Op.Kind {
	case cluster.OpCompact:
		l.must(len(l.roster.Alarms(cluster.AlarmNoSpace)) > 0 && !l.o.Upkeep.KeepHistory, "a compaction without need")
		for _, s := range l.roster.Up() {
			l.must(x.Op.Revision > 0 && x.Op.Revision <= s.Host.Status.Revision+5000, "a compaction of what is to come")
		}
	case cluster.OpDisarm:
		if m := l.o.Memory.Upkeep; l.goal.Kind == decision.Disarm && x.Op.Alarm == cluster.AlarmCorrupt && len(l.roster.Voters()) > 1 {
			l.must(l.goal.AcceptDifference || m.Undecided == 0 && !m.ComparedAt.IsZero(), "a CORRUPT alarm taken back that nothing speaks against")
		}
		for _, s := range l.roster.Up() {
			st := s.Host.Status
			most := st.Limit()
			if l.goal.Kind == decision.Disarm {
				most = st.Capacity() - 1
			}
			l.must(x.Op.Alarm != cluster.AlarmNoSpace || st.Limit() == 0 || st.DBSize <= most, "a NOSPACE alarm taken back while %s is beyond its limit", s.HostID)
		}
		for _, s := range l.roster.Voters() {
			if m := l.o.Memory.Upkeep; x.Op.Alarm != cluster.AlarmCorrupt || l.goal.AcceptDifference || s.Host == nil || s.Host.Hash == nil || len(l.roster.Voters()) == 1 {
				continue
			} else if h := s.Host.Hash; h.Ended.Equal(l.o.Memory.Member(s.ID).Hashed) { // the last comparison counted it
				l.must(l.o.At.Sub(m.CorruptSince) >= s.Host.Clock.Sub(h.Began), "a CORRUPT alarm taken back on a hash of %s from before it", s.HostID)
			}
		}
		_, listed := l.roster.Seat(x.Op.Member)
		l.must(x.Op.Alarm != cluster.AlarmCorrupt || !listed || l.goal.Kind == decision.Disarm, "a CORRUPT alarm taken back of a member that is there")
	}
}
