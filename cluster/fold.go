package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Fold carries the memory of the observation before into a new one. It is a
// pure function: "unhealthy since" lives in data and not in a loop, so that a
// decision can be replayed from its observation (DESIGN.md, law 5).
//
// What lasted is only what was watched: after a pause longer than
// [MaxUnwatched], or when the clock went back, every duration begins anew, so
// that a leader that slept, or whose clock jumped, does not take a member for
// dead that was silent just before and just after.
func Fold(before Memory, o *Observation) Memory {
	if passed := o.At.Sub(before.At); passed < 0 || passed > MaxUnwatched {
		before = Memory{Hosts: forgetFences(before.Hosts)}
	}
	m := Memory{At: o.At}
	r, listed := o.Roster()
	m.Hosts = foldHosts(before.Hosts, o)
	m.Members = foldMembers(before.Members, o, r, listed)
	m.EnoughSince = foldEnough(before.EnoughSince, o)
	m.QuorumlessSince = since(before.QuorumlessSince, o.quorumless(r, listed), o.At)
	m.Quiet = foldQuiet(before.Quiet, o, r, listed)
	m.Halting = foldHalting(before.Halting, o)
	m.Founding = foldFounding(before.Founding, o, r, listed)
	m.Asked = foldAsked(before.Asked, o)
	m.Excused = foldExcused(before.Excused, o)
	m.Upkeep = foldUpkeep(before.Upkeep, m.Members, before.Members, o, r, listed)
	return m
}

// quorumless: the intent says that there is a cluster, and no quorum of it is
// in sight. While its members answer a read through raft a quorum serves, whatever
// daemons are silent or busy; and a voter that is being defragmented is back within
// minutes, so that those do not count either.
func (o *Observation) quorumless(r Roster, listed bool) bool {
	in := o.Intent()
	switch {
	case in == nil, in.State != IntentFounded, o.defragmented(in):
		return false
	case !listed:
		return true
	}
	return !r.HasQuorum() && (!r.Linearizable || r.Cluster != in.Cluster)
}

// defragmented: a voter's host says that it is at that.
func (o *Observation) defragmented(in *Intent) bool {
	return slices.ContainsFunc(o.Gaps, func(g Gap) bool {
		return g.Defragments() && slices.ContainsFunc(in.Voters, func(w Voter) bool { return w.Host == g.Host })
	})
}

// MaxUnwatched is the longest time between two observations over which what
// both show is taken to have lasted. A leader looks several times as often.
const MaxUnwatched = time.Minute

// MaxUnseen is how long a host that nobody counts on is remembered without a
// sign of it.
const MaxUnseen = 24 * time.Hour

func forgetFences(before []HostMemory) []HostMemory {
	out := slices.Clone(before)
	for i := range out {
		out[i].Fence, out[i].FenceSince, out[i].GapSince = Fence{}, time.Time{}, time.Time{}
	}
	return out
}

func foldHosts(before []HostMemory, o *Observation) []HostMemory {
	out := make([]HostMemory, 0, max(len(before), len(o.Hosts))) // nearly always the same hosts
	for _, h := range o.Hosts {
		seen := HostMemory{Host: h.Host, Disk: h.Disk, LastSeen: o.At}
		if h.UnderFence {
			seen.Fence, seen.FenceSince = o.Fence, o.At
			if i := slices.IndexFunc(before, func(b HostMemory) bool { return b.Host == h.Host && b.Disk == h.Disk }); i >= 0 && before[i].Fence == o.Fence {
				seen.FenceSince = before[i].FenceSince
			}
		}
		if o.StoreOdds(h.Host) != "" {
			i := slices.IndexFunc(before, func(b HostMemory) bool { return b.Host == h.Host })
			if seen.StoreSince = o.At; i >= 0 && !before[i].StoreSince.IsZero() {
				seen.StoreSince = before[i].StoreSince
			}
		}
		out = append(out, seen)
	}
	for _, b := range before {
		if slices.ContainsFunc(out, func(h HostMemory) bool { return h.Host == b.Host }) {
			continue
		}
		if b.GapSince.IsZero() {
			b.GapSince = o.At
		}
		if o.At.Sub(b.GapSince) <= MaxUnseen {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b HostMemory) int { return strings.Compare(string(a.Host), string(b.Host)) })
	return out
}

func foldMembers(before []MemberMemory, o *Observation, r Roster, listed bool) []MemberMemory {
	if !listed {
		return foldUnlisted(before, o)
	}
	out := make([]MemberMemory, 0, len(r.Seats))
	for _, s := range r.Seats {
		var prev MemberMemory
		for i := range before {
			if before[i].Member == s.ID {
				prev = before[i]
				break
			}
		}
		if s.Host != nil && (prev.Member == 0 || !prev.HostlessSince.IsZero()) {
			prev.Answered = s.Host.Process.Restarts // what died before it was watched does not count
		}
		now := MemberMemory{
			Member:       s.ID,
			SilentSince:  since(prev.SilentSince, o.silent(s, prev), o.At),
			Answered:     answered(prev, s.Host),
			HealthySince: since(prev.HealthySince, s.Up, o.At),
			JoiningSince: since(prev.JoiningSince, s.Learner, o.At),

			HostlessSince: since(prev.HostlessSince, s.Host == nil, o.At),
			VanishedSince: since(prev.VanishedSince, s.Host != nil && s.Host.Vanished(), o.At),
			DamagedSince:  since(prev.DamagedSince, s.Host != nil && s.Host.Process.Damaged != "", o.At),
		}
		foldLeaderless(&now, prev, s.Host, o.At)
		out = append(out, now)
	}
	return out
}

// foldUnlisted keeps what is known while no member list is in sight. Nobody
// is asked about anybody then, so no silence lasts.
func foldUnlisted(before []MemberMemory, o *Observation) []MemberMemory {
	out := slices.Clone(before)
	for i := range out {
		out[i].SilentSince, out[i].HealthySince = time.Time{}, time.Time{}
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if h.Local.Member == 0 {
			continue
		}
		at := slices.IndexFunc(out, func(m MemberMemory) bool { return m.Member == h.Local.Member })
		if at < 0 {
			out = append(out, MemberMemory{Member: h.Local.Member})
			at = len(out) - 1
		}
		foldLeaderless(&out[at], out[at], h, o.At)
	}
	slices.SortFunc(out, func(a, b MemberMemory) int { return cmp.Compare(a.Member, b.Member) })
	return out
}

// foldLeaderless notes since when a member answers and sees no raft leader.
// One that does not answer at all counts too as long as its process runs, also
// one that was adopted and is silent: a member restarted without a quorum
// answers nothing.
func foldLeaderless(now *MemberMemory, prev MemberMemory, h *HostReport, at time.Time) {
	if h == nil || !h.Process.Runs() || h.Status != nil && h.Status.Leader != 0 {
		now.LeaderlessSince, now.Revived, now.PID = time.Time{}, 0, 0
		return
	}
	now.PID, now.Revived, now.LeaderlessSince = h.Process.PID, prev.Revived, prev.LeaderlessSince
	switch {
	case prev.LeaderlessSince.IsZero():
		now.LeaderlessSince = at
	case prev.PID != h.Process.PID:
		now.LeaderlessSince, now.Revived = at, prev.Revived+1
	}
}

const (
	// CrashLoop is how many restarts without an answer make a process one that
	// dies again and again.
	CrashLoop = 3
	// SettlingIn is how long a process that was just restarted is not taken
	// for alive because its port answers.
	SettlingIn = 10 * time.Second
)

// answered is how often the process had been restarted when the member
// answered last. A daemon counts from its own start, and so do we then.
func answered(prev MemberMemory, h *HostReport) int {
	switch {
	case h == nil:
		return prev.Answered
	case h.Status != nil:
		return h.Process.Restarts
	}
	return min(prev.Answered, h.Process.Restarts)
}

// CrashLoops reports whether the member's process died again and again without
// an answer in between, by its own host's word.
func (m MemberMemory) CrashLoops(p Process) bool {
	return (p.State == ProcessBackoff || p.State == ProcessRunning) && p.Restarts-m.Answered >= CrashLoop
}

// silent reports whether every host that could be asked says that the member
// does not answer, and at least a quorum of the voters' hosts could be asked.
// A host that carries the member speaks by its own observation, and better
// than an open port: a process that dies again and again opens it each time,
// and so the silence lasts until the member answers. One that was restarted
// once may need its time, and counts as alive again while its port is open.
func (o *Observation) silent(s Seat, prev MemberMemory) bool {
	if s.Up || s.Host != nil && s.Host.Status != nil {
		return false
	}
	if s.Host != nil {
		p := s.Host.Process
		switch {
		case p.State == ProcessBackoff && p.Restarts > 0, prev.CrashLoops(p):
			return true
		case p.State == ProcessRunning && p.Restarts > prev.Answered && p.Uptime > 0 && p.Uptime < SettlingIn && !prev.SilentSince.IsZero():
			return true
		}
	}
	asked := 0
	for i := range o.Hosts {
		for _, r := range o.Hosts[i].Reaches {
			if r.Member != s.ID {
				continue
			}
			if r.Answers || r.Open && s.Host != nil { // one that starts accepts long before it answers, and its host tells of the rest
				return false
			}
			asked++
		}
	}
	view, _ := o.Members()
	voters := 0
	for _, m := range view.Members {
		if !m.Learner {
			voters++
		}
	}
	return asked >= min(Quorum(voters), max(1, voters-1))
}

// foldEnough notes since when a majority of the wanted members could be
// founded on the hosts in sight.
func foldEnough(before time.Time, o *Observation) time.Time {
	if o.Spec == nil {
		return time.Time{}
	}
	free := 0
	for i := range o.Hosts {
		if h := &o.Hosts[i]; h.UnderFence && h.Free() {
			free++
		}
	}
	return since(before, free >= Quorum(o.Spec.MemberCount), o.At)
}

// foldFounding notes since when a founding has been watched that has no quorum.
func foldFounding(before Founding, o *Observation, r Roster, listed bool) Founding {
	in := o.Intent()
	if in == nil || in.State != IntentFounding {
		return Founding{}
	}
	if before.Generation != in.Generation {
		before = Founding{}
	}
	serves := listed && r.Linearizable && r.HasQuorum()
	return Founding{Since: since(before.Since, !serves, o.At), Seen: since(before.Seen, true, o.At), Generation: in.Generation}
}

// foldQuiet notes since when no voter's host carries out an op of anybody else
// and nobody has written the intent. A host is not under a fence while it is
// busy, and takes no op of a lower one afterwards.
func foldQuiet(before Quiet, o *Observation, r Roster, listed bool) Quiet {
	in := o.Intent()
	if !listed || in == nil || slices.ContainsFunc(r.Voters(), func(s Seat) bool { return s.Host == nil || !s.Host.UnderFence }) {
		return Quiet{}
	}
	now := Quiet{Since: o.At, Fence: o.Fence, Generation: in.Generation, Write: in.Write}
	if before.Fence == now.Fence && before.Generation == now.Generation && before.Write == now.Write && !before.Since.IsZero() {
		now.Since = before.Since
	}
	return now
}

// Suspects are the listed members that are not up and of which their own hosts, if these
// are in sight, have no answer: hosts are asked to try their peer URLs in the next
// observation, so that a member is called silent on every host's word and not on one gap.
func (o *Observation) Suspects() []Member {
	if o == nil {
		return nil
	}
	r, _ := o.seated()
	var out []Member
	for i := range r.Seats {
		if s := &r.Seats[i]; !s.Up && (s.Host == nil || s.Host.Status == nil) {
			out = append(out, s.Member)
		}
	}
	return out
}
