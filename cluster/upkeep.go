package cluster

import (
	"slices"
	"strings"
	"time"
)

// Alarms of etcd.
const (
	// AlarmNoSpace: a member's database is at its quota, and the members refuse
	// writes that add something, until it is disarmed.
	AlarmNoSpace = "NOSPACE"
	// AlarmCorrupt: members were found to differ, and they refuse writes.
	AlarmCorrupt = "CORRUPT"
)

// Alarm is one that a member has raised, or that was raised about it.
type Alarm struct {
	Kind   string
	Member MemberID // zero: about all of them
}

// ParseAlarm reads an alarm as a [MemberStatus] has it.
func ParseAlarm(s string) Alarm {
	kind, id, _ := strings.Cut(s, " ")
	a := Alarm{Kind: kind}
	a.Member, _ = ParseMemberID(id) // zero where there is none
	return a
}

// Alarms are those of a kind that a voter of the roster tells of, by member.
// Alarms are part of what raft has members agree on; a member that is behind may
// tell of one that is over, so one that is well counts for more.
func (r Roster) Alarms(kind string) []Alarm {
	var furthest *MemberStatus
	for _, s := range r.Seats {
		if s.Host == nil || s.Host.Status == nil || s.Host.Status.Cluster != r.Cluster || s.Learner {
			continue
		}
		if st := s.Host.Status; furthest == nil || st.Applied > furthest.Applied {
			furthest = st
		}
	}
	var out []Alarm
	if furthest == nil {
		return nil
	}
	for _, text := range furthest.Alarms {
		if a := ParseAlarm(text); a.Kind == kind && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b Alarm) int {
		if a.Member < b.Member {
			return -1
		}
		return 1
	})
	return out
}

// DefaultQuota is the size in bytes that etcd holds a database to by itself.
// Source: DefaultQuotaBytes in storage/quota.go of 3.5.35, 3.6.16 and 3.7.3.
const DefaultQuota = 2 << 30

// Capacity is how large the database may grow, in bytes; zero: there is none.
func (s MemberStatus) Capacity() int64 {
	switch {
	case s.Quota < 0:
		return 0
	case s.Quota == 0:
		return DefaultQuota
	}
	return s.Quota
}

// Limit is how large the database may be, in bytes, so that a member that has
// just been cured does not raise NOSPACE at the next write: nine tenths of its
// quota. Zero: there is no quota.
func (s MemberStatus) Limit() int64 { return s.Capacity() / 10 * 9 }

// Comparison is what the hashes of the voters say about each other.
type Comparison struct {
	Revision  int64
	Compacted int64
	At        time.Time // when the last of the hashes was there, by the leader's clock
	Began     time.Time // when the first of them was begun, by the leader's clock
	// Odd are the voters whose keys are not those of the majority, sorted.
	Odd []MemberID
	// Undecided: they differ, and there is no majority.
	Undecided bool
}

// Compare compares the hashes that the voters' hosts hold; false: not all of them
// have one of the same revision and the same compaction.
func (o *Observation) Compare(r Roster) (c Comparison, ok bool) {
	voters := r.Voters()
	sets := map[uint32]int{}
	for i, s := range voters {
		if s.Host == nil || s.Host.Hash == nil {
			return Comparison{}, false
		}
		h := s.Host.Hash
		if h.Running || h.Error != "" || h.Member != s.ID || h.Cluster != r.Cluster || s.Host.WentBack(h.Ended) {
			return Comparison{}, false
		}
		if i == 0 {
			c.Revision, c.Compacted = h.Asked, h.Compacted
		} else if h.Asked != c.Revision || h.Compacted != c.Compacted {
			return Comparison{}, false
		}
		ahead := s.Host.Clock.Sub(o.At)
		if at := h.Ended.Add(-ahead); at.After(c.At) {
			c.At = at
		}
		if began := h.Began.Add(-ahead); i == 0 || began.Before(c.Began) {
			c.Began = began
		}
		sets[h.Hash]++
	}
	if len(sets) <= 1 {
		return c, len(voters) > 0
	}
	c.Undecided = true
	for _, s := range voters {
		if sets[s.Host.Hash.Hash] >= Quorum(len(voters)) {
			c.Undecided = false
		} else {
			c.Odd = append(c.Odd, s.ID)
		}
	}
	if c.Undecided {
		c.Odd = nil
	}
	return c, true
}

// Explains reports whether the last comparison that was counted is of hashes that were
// all begun after etcd raised CORRUPT. An older one of them may be of a revision from
// before the keys came apart.
func (m UpkeepMemory) Explains() bool {
	return !m.ComparedFrom.IsZero() && !m.ComparedFrom.Before(m.CorruptSince)
}

const (
	// FullAgain is how long after a NOSPACE alarm another one counts as the same
	// trouble again.
	FullAgain = time.Hour
	// KeptHistory is how much of the past a first compaction for the sake of room
	// leaves, as far as it was watched. Source: kube-apiserver compacts every five
	// minutes to the revision of five minutes before.
	KeptHistory = 5 * time.Minute

	sampleEvery = 20 * time.Second
	mostSamples = 16 // one more than KeptHistory needs
	// OddTimes is how many comparisons in a row, each of hashes of its own, have to
	// find that a member's keys differ.
	OddTimes = 2
)

// Past is the newest revision that is at least KeptHistory old; else the oldest
// that was watched. Zero: none was.
func (m UpkeepMemory) Past(now time.Time) int64 {
	if len(m.Revisions) == 0 {
		return 0
	}
	past := m.Revisions[0].Revision
	for _, r := range m.Revisions {
		if now.Sub(r.At) >= KeptHistory {
			past = r.Revision
		}
	}
	return past
}

// foldUpkeep carries what is remembered of etcd's own ills, and counts a
// comparison that was not counted yet against the members.
func foldUpkeep(before UpkeepMemory, members []MemberMemory, past []MemberMemory, o *Observation, r Roster, listed bool) UpkeepMemory {
	m := before
	if !listed {
		return m
	}
	full := len(r.Alarms(AlarmNoSpace)) > 0
	switch {
	case full && m.FullSince.IsZero():
		if m.FullEnded.IsZero() || o.At.Sub(m.FullEnded) > FullAgain {
			m.FullTimes = 0
		}
		m.FullSince = o.At
		m.FullTimes++
	case !full && !m.FullSince.IsZero():
		m.FullSince, m.FullEnded = time.Time{}, o.At
	}
	corrupt := r.Alarms(AlarmCorrupt)
	m.CorruptSince = since(m.CorruptSince, len(corrupt) > 0, o.At)
	m.Revisions = foldRevisions(m.Revisions, r, o.At)
	c, complete := o.Compare(r)
	for i := range members {
		x := &members[i]
		if p := slices.IndexFunc(past, func(b MemberMemory) bool { return b.Member == x.Member }); p >= 0 {
			x.Odd, x.Hashed, x.CorruptSince = past[p].Odd, past[p].Hashed, past[p].CorruptSince
		}
	}
	fresh := complete && !slices.ContainsFunc(r.Voters(), func(s Seat) bool { return !uncounted(s, members) })
	if fresh {
		m.Compared, m.ComparedAt, m.ComparedFrom, m.Compacted = c.Revision, c.At, c.Began, c.Compacted
		m.Undecided++
		if !c.Undecided {
			m.Undecided = 0
		}
	}
	for i := range members {
		x := &members[i]
		if s, _ := r.Seat(x.Member); fresh && !s.Learner {
			x.Odd++
			x.Hashed = s.Host.Hash.Ended
			if !slices.Contains(c.Odd, x.Member) {
				x.Odd = 0
			}
		}
		x.CorruptSince = since(x.CorruptSince, x.Odd >= OddTimes || m.accused(r, corrupt, c, complete, x.Member), o.At)
	}
	return m
}

// uncounted: the voter's hash is another one than the last that was counted, so
// that each comparison that counts is made of hashes of its own.
func uncounted(s Seat, members []MemberMemory) bool {
	at := slices.IndexFunc(members, func(m MemberMemory) bool { return m.Member == s.ID })
	return at < 0 || s.Host.Hash.Ended != members[at].Hashed
}

// accused: etcd itself says that the member's keys differ, it says so of a
// minority that leaves a quorum, and a comparison begun since then finds no other
// one that differs. A leader of raft that is itself wrong accuses others (Source:
// PeriodicCheck in etcdserver/corrupt.go), so the alarm alone is not enough.
func (m UpkeepMemory) accused(r Roster, alarms []Alarm, c Comparison, complete bool, id MemberID) bool {
	voters := len(r.Voters())
	if !complete || m.CorruptSince.IsZero() || c.Began.Before(m.CorruptSince) || c.Undecided || voters < 3 || voters-len(alarms) < Quorum(voters) {
		return false
	}
	named := func(id MemberID) bool {
		return slices.ContainsFunc(alarms, func(a Alarm) bool { return a.Member == id })
	}
	return named(id) && !named(0) && !slices.ContainsFunc(c.Odd, func(x MemberID) bool { return !named(x) })
}

func foldRevisions(before []RevisionAt, r Roster, now time.Time) []RevisionAt {
	var top int64
	for _, s := range r.Up() {
		top = max(top, s.Host.Status.Revision)
	}
	if n := len(before); top == 0 || n > 0 && now.Sub(before[n-1].At) < sampleEvery {
		return before
	}
	out := append(slices.Clone(before), RevisionAt{At: now, Revision: top})
	return out[max(0, len(out)-mostSamples):]
}
