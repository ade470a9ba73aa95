package cluster

import (
	"fmt"
	"slices"
	"time"
)

// condition is the seat's. Facts that no restart mends come before those of the process,
// and what its host says of itself before what others say.
func (o *Observation) condition(s *Seat, view *MemberView) Condition {
	h, m := s.Host, o.Memory.Member(s.ID)
	voters := 0
	for _, m := range view.Members {
		if !m.Learner {
			voters++
		}
	}
	alone := voters == 0 || voters == 1 && !s.Learner
	differs := !m.CorruptSince.IsZero() && !alone
	switch {
	case h == nil && o.neverStarted(s, view):
		return ConditionNeverStarted
	case h == nil && s.wiped():
		return ConditionWiped
	case differs && voters >= 3: // there are enough to have told
		return ConditionDiffering
	case h == nil && s.Owner != nil:
		return ConditionUncarried
	case h == nil:
		return ConditionAway
	case !h.UnderFence:
		return ConditionUnpromised
	case h.Local.State == MemberRemoved:
		return ConditionGivenUp
	case h.Vanished() && !alone: // what nobody else has is all that is left
		return ConditionVanished
	}
	c := o.processCondition(s, view)
	if differs && (c == ConditionUp || c == ConditionLeaderless || c == ConditionUnread) {
		return ConditionDiffering
	}
	return c
}

// processCondition is that of a member whose host carries it and speaks for it.
func (o *Observation) processCondition(s *Seat, view *MemberView) Condition {
	p, st := s.Host.Process, s.Host.Status
	//exhaustive:enforce
	switch p.State {
	case ProcessForeign:
		return ConditionForeign
	case ProcessStopped, ProcessBackoff:
		switch {
		case p.Damaged != "":
			return ConditionDamaged
		case s.Host.Local.State == MemberStarting && !s.Host.Local.HasData:
			return ConditionUnwritten
		case p.State == ProcessStopped:
			return ConditionStopped
		}
		return ConditionCrashing
	case ProcessSilent, ProcessRunning:
	}
	switch {
	case (st == nil || !st.Healthy) && o.rejectedWords(s.ID) != "":
		return ConditionRejected
	case st == nil && p.State == ProcessRunning && p.Uptime < SettlingIn && o.Memory.Member(s.ID).CrashLoops(p): // later it hangs
		return ConditionCrashing
	case st == nil && p.State == ProcessRunning && p.Uptime > 0 && p.Uptime < SettlingIn:
		return ConditionStarting
	case st == nil || p.State == ProcessSilent:
		return ConditionHung
	case st.Member != s.ID || st.Cluster != view.Cluster:
		return ConditionImpostor
	case st.Healthy:
		return ConditionUp
	case st.Leader == 0:
		return ConditionLeaderless
	}
	return ConditionUnread
}

// conditionWords say in words why the seat does not count as up; empty: it does.
func (o *Observation) conditionWords(s *Seat) string {
	//exhaustive:enforce
	switch s.Condition {
	case ConditionUp:
		return ""
	case ConditionAway:
		if g, ok := o.HostGap(s.HostID); ok && g.Detail != "" {
			return gapWords(g) + o.answersElse(s.ID)
		}
		return "its host is unreachable"
	case ConditionNeverStarted, ConditionWiped, ConditionUncarried:
		return fmt.Sprintf("no member data on host %s", s.Owner.Host)
	case ConditionUnpromised:
		return fmt.Sprintf("host %s has not accepted fence %s yet", s.Host.Host, o.Fence)
	case ConditionDiffering:
		return "its keys differ from the other voters'"
	case ConditionVanished:
		return "it serves from memory only: its data is gone from the disk"
	case ConditionDamaged, ConditionGivenUp, ConditionUnwritten, ConditionForeign, ConditionStopped:
		return "its process is " + describeProcess(s.Host.Process)
	case ConditionCrashing:
		if s.Host.Process.State == ProcessRunning {
			return "it does not answer its host"
		}
		return "its process is " + describeProcess(s.Host.Process)
	case ConditionRejected:
		return o.rejectedWords(s.ID)
	case ConditionStarting:
		return "it does not answer its host"
	case ConditionHung:
		if s.Host.Process.State == ProcessSilent {
			return "its process is " + describeProcess(s.Host.Process)
		}
		return "it does not answer its host"
	case ConditionImpostor:
		return fmt.Sprintf("member %s of cluster %s answers in its place", s.Host.Status.Member, s.Host.Status.Cluster)
	case ConditionLeaderless, ConditionUnread:
		return "it serves no quorum reads"
	}
	return ""
}

// neverStarted: the member never ran, and its owner in sight holds the evidence that lets
// it start that very member: the intent names its disk as the founder, or it wrote down,
// before the member was added, which members existed.
func (o *Observation) neverStarted(s *Seat, view *MemberView) bool {
	h, in := s.Owner, o.Intent()
	if h == nil || in == nil {
		return false
	}
	if f, ok := in.Founder(h.Host, h.Disk); ok && f.Member == s.ID && h.UnderFence {
		return true
	}
	return h.MayStart(s.Member, view.Cluster, in.Generation)
}

// MayStart reports whether the host holds a preparation, written before the member was
// added, that lets it start that member (SAFETY.md, rule 8b), and nothing that it would
// refuse that for.
func (h *HostReport) MayStart(m Member, c ClusterID, generation uint64) bool {
	unfit := slices.ContainsFunc(h.Problems, func(p Problem) bool { return p.Unfit })
	return h.UnderFence && h.Local.State == MemberPrepared && h.Local.Cluster == c && h.Local.Generation == generation && h.LowestGeneration <= generation &&
		!slices.Contains(h.Local.Known, m.ID) && !slices.Contains(h.GaveUp, m.ID) && !h.Carries() && len(h.Foreign) == 0 && !unfit && sameSet(h.URLs.Peer, m.PeerURLs)
}

func sameSet(a, b []string) bool {
	if slices.Equal(a, b) {
		return true
	}
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Since is since when the seat's condition has lasted, as far as that is remembered; zero:
// it is not.
func (m MemberMemory) Since(c Condition) time.Time {
	//exhaustive:enforce
	switch c {
	case ConditionUp:
		return m.HealthySince
	case ConditionAway, ConditionNeverStarted, ConditionUncarried:
		return m.HostlessSince
	case ConditionVanished:
		return m.VanishedSince
	case ConditionDamaged:
		return m.DamagedSince
	case ConditionDiffering:
		return m.CorruptSince
	case ConditionHung, ConditionLeaderless:
		return m.LeaderlessSince
	case ConditionWiped, ConditionCrashing, ConditionStopped, ConditionUnwritten, ConditionGivenUp, ConditionForeign, ConditionRejected:
		return m.SilentSince
	case ConditionUnpromised, ConditionStarting, ConditionImpostor, ConditionUnread:
	}
	return time.Time{}
}
