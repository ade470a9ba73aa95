package sight

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Presence is how the host stands to this leader.
func (v *Sight) Presence(id cluster.HostID) cluster.Presence {
	p, _ := v.Obs.Presence(id)
	return p
}

// AnyOf reports whether one of the hosts stands so.
func (v *Sight) AnyOf(hosts []cluster.HostID, p cluster.Presence) bool {
	return slices.ContainsFunc(hosts, func(id cluster.HostID) bool { return v.Presence(id) == p })
}

// AnswersSoon reports whether the host carries out an op, or it has begun with one of the looks that it
// begins by itself, which end soon; by the time that a founding has, they did not.
func (v *Sight) AnswersSoon(id cluster.HostID) bool {
	p := v.Presence(id)
	return p == cluster.PresenceBusy || p == cluster.PresenceStarting && !v.Stalled()
}

// BusyWith says what a host is busy with, to put behind its name.
func (v *Sight) BusyWith(id cluster.HostID) string {
	if g, ok := v.Obs.HostGap(id); ok && v.Presence(id).Occupied() {
		return " (busy: " + g.Detail + ")"
	}
	return ""
}

func (v *Sight) AnswersOthers(id cluster.MemberID) bool {
	return slices.ContainsFunc(v.Obs.Hosts, func(h cluster.HostReport) bool {
		return slices.ContainsFunc(h.Reaches, func(r cluster.Reach) bool { return r.Member == id && r.Answers })
	})
}

// OpenToOthers reports whether the member answers others, or hangs and may go on.
func (v *Sight) OpenToOthers(id cluster.MemberID) bool {
	return v.AnswersOthers(id) || slices.ContainsFunc(v.Obs.Hosts, func(h cluster.HostReport) bool {
		return slices.ContainsFunc(h.Reaches, func(r cluster.Reach) bool { return r.Member == id && r.Open })
	})
}

// Voice is the host in sight that can promise for a voter of a set; nil: none.
func (v *Sight) Voice(w cluster.Voter, set []cluster.Voter) *cluster.HostReport {
	return v.Obs.Voice(w, set)
}

// HeardOf reports whether somebody has a record of the host.
func HeardOf(v *Sight, id cluster.HostID) bool {
	if v.Presence(id) != cluster.PresenceUnknown {
		return true
	}
	if v.Intent == nil {
		return false
	}
	sets := v.Intent.VoterSets()
	for _, g := range v.Intent.History {
		sets = append(sets, g.Voters...)
	}
	sets = append(sets, FounderVoters(v.Intent))
	return slices.ContainsFunc(sets, func(set []cluster.Voter) bool {
		return slices.ContainsFunc(set, func(w cluster.Voter) bool { return w.Host == id })
	})
}

// Known reports whether the host is in sight, or somebody has a record of it.
func Known(v *Sight, id cluster.HostID) bool {
	if _, there := v.Obs.Host(id); there || HeardOf(v, id) || v.Roster.Seated(id) {
		return true
	}
	_, seen := v.Obs.Memory.Host(id)
	return seen || slices.ContainsFunc(v.Obs.Incompatible, func(n cluster.Neighbour) bool { return n.Host == id })
}

func Lost(w cluster.Voter, named []cluster.HostID) bool {
	return slices.Contains(named, w.Host) && w.Host != "" || slices.Contains(named, cluster.HostID(w.Member.String()))
}

func NameOf(w cluster.Voter) cluster.HostID {
	if w.Host != "" {
		return w.Host
	}
	return cluster.HostID(w.Member.String())
}

// SilentSince is since when a member's silence counts. That of a member which a person has
// taken out or replaced counts as ever: it is their word, as the pause was. So does that of
// a learner, which has no vote to lose.
func (v *Sight) SilentSince(s cluster.Seat) time.Time {
	since := v.Obs.Memory.Member(s.ID).SilentSince
	if s.Learner {
		return since
	}
	if (v.Goal.Kind == decision.Leave || v.Goal.Kind == decision.Replace) && v.Goal.Names(s) {
		return since
	}
	return v.Obs.Memory.Counts(since, s.HostID)
}

// SilentFor is how long this leader has asked the host without an answer: since it answered
// last, or since this leader began to ask anybody.
func SilentFor(v *Sight, id cluster.HostID) time.Duration {
	if m, known := v.Obs.Memory.Host(id); known {
		if m.GapSince.IsZero() {
			return 0
		}
		return v.Obs.At.Sub(m.GapSince)
	}
	var longest time.Duration
	for _, m := range v.Obs.Memory.Hosts {
		if m.Fence == v.Obs.Fence && !m.FenceSince.IsZero() {
			longest = max(longest, v.Obs.At.Sub(m.FenceSince))
		}
	}
	return longest
}

// Excused are those of the hosts whose silence does not count now.
func Excused(v *Sight, of []cluster.HostID) (out []cluster.HostID) {
	for _, id := range of {
		if _, paused := v.Obs.PauseOf(id); paused || v.Obs.PausesUnread != "" {
			out = append(out, id)
		}
	}
	return out
}
