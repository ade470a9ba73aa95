package sight

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

const (
	// Settled is how long every other voter's process has to have run before a member is
	// taken away: what began a moment ago, with another release, other options or other
	// certificates, may end again. Source: etcd's HealthInterval, after which it counts a
	// member as connected and accepts removals.
	Settled = 5 * time.Second
)

// Hindrance is what keeps a member from being taken away now.
type Hindrance struct {
	Why    words.Text
	Again  time.Duration // when to look again
	Blocks bool          // it may last, and whoever is on call has to know
	Settle bool          // a process has run for less than [Settled], which is over soon
	Paused bool          // another host may go at any moment; the rules that do not take anybody away go on
}

// MayBeAway says what keeps a member from being taken away, for a moment or for good:
// restarted, defragmented, removed (SAFETY.md, rules 1 and 3). Nil: nothing does. It is the
// one gate for all of these. What a step needs beside it, such as room on the disk, it asks
// itself.
//
// Without a member, it says whether every voter can be counted on.
func (v *Sight) MayBeAway(s cluster.Seat) *Hindrance {
	for _, o := range v.Roster.Voters() {
		if o.ID != s.ID && !o.Up {
			return &Hindrance{Why: words.F("every other voter has to be up ({member}: {why})", words.SeatName(o), o.Why), Again: decision.Later, Blocks: true}
		}
	}
	if h := PausedBeside(&v.Roster, s); h != nil {
		return h
	}
	top := v.Furthest()
	for _, o := range v.Roster.Voters() {
		if o.ID == s.ID {
			continue
		}
		if left := unsettled(v, o); left > 0 && !servesNobody(s) {
			return &Hindrance{Why: words.F("{member} has to be up for {settled} first", words.SeatName(o), Settled), Again: max(decision.Soon, left), Settle: true}
		}
		if at := o.Host.Status.Applied; at+NearEntries+writtenWithin(v, looksApart) < top {
			return &Hindrance{Why: words.F("{member} has to catch up first: it has applied {at} of {top} entries", words.SeatName(o), at, top), Again: decision.Later, Blocks: true}
		}
	}
	return readThrough(v, s)
}

// PausedBeside is the hindrance that another voter's host says that it may go at any moment;
// nil: none does. It is asked also for what does not count as up and may still run: raft's
// quorum may hang on it by then.
func PausedBeside(r *cluster.Roster, s cluster.Seat) *Hindrance {
	for _, o := range r.Voters() {
		if o.ID != s.ID && o.Host != nil && len(o.Host.Paused) > 0 {
			p := o.Host.Paused[0]
			return &Hindrance{Why: words.F("host {host} is paused and may go at any moment ({reason}; {command} ends that)", p.Host, p.Reason, "etcdadm host resume "+cluster.ShellWord(string(p.Host))), Again: decision.Later, Paused: true}
		}
	}
	return nil
}

// unsettled is how long the voter's process still has to run before the voter is counted
// on; zero: it is. Where nobody knows when it began, or this leader has seen the voter not
// to be up since, the time counts from when it was up again.
func unsettled(v *Sight, o cluster.Seat) time.Duration {
	lasted := o.Host.Process.Uptime
	host, _ := v.Obs.Memory.Host(o.HostID)
	since := v.Obs.Memory.Member(o.ID).HealthySince
	wasNot := !host.FenceSince.IsZero() && since.After(host.FenceSince)
	if (lasted == 0 || wasNot) && !since.IsZero() {
		lasted = v.Obs.At.Sub(since)
	}
	return max(min(Settled-lasted, Settled), 0)
}

// servesNobody: the member listens on the quarantine's URLs only, so that no client
// notices when it is away.
func servesNobody(s cluster.Seat) bool { return s.Host != nil && s.Host.Local.Quarantined }

// readThrough says what is being read through the member and would break off.
func readThrough(v *Sight, s cluster.Seat) *Hindrance {
	if s.Host == nil || !s.Up {
		return nil
	}
	switch h := s.Host; {
	case h.Taken != nil && h.Taken.Running && v.Obs.At.Sub(v.LeadersTime(h, h.Taken.Began)) < BackupTry:
		return &Hindrance{Why: words.F("the backup that host {host} takes has to end first", words.SeatName(s)), Again: decision.Soon}
	case h.Hash != nil && h.Hash.Running:
		return &Hindrance{Why: words.F("the hash that host {host} makes has to end first", words.SeatName(s)), Again: decision.Soon}
	}
	return nil
}
