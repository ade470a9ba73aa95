package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// defragmentAsked has the voter that a person named, or every voter in turn, write
// its database anew, under the guards of what the daemons do by themselves: the
// others up, raft's leader last, after it has handed over. nil: not now.
func defragmentAsked(v *view) *Decision {
	seats, d := v.defragmentTargets()
	if d != nil {
		return d
	}
	var done []string
	for _, s := range seats {
		w := v.defragmentedSince(s)
		switch {
		case w == nil:
			if v.hindersDefragment(s) != "" {
				return nil
			}
			return v.defragmentSeat(s, fmt.Sprintf("the database of %s has %s, of which %s are in use, as asked", seatName(s), bytesWords(s.Host.Status.DBSize), bytesWords(s.Host.Status.DBInUse)))
		case w.Error != "":
			return refuse("fragmented", "", "the defragmentation of %s failed: %s; the old file is in use", seatName(s), w.Error)
		}
		done = append(done, fmt.Sprintf("%s: %s, before %s", seatName(s), bytesWords(w.After), bytesWords(w.Before)))
	}
	slices.Sort(done)
	return &Decision{Reason: "defragmented " + strings.Join(done, "; "), Done: true}
}

// defragmentWaits says what a defragmentation waits for that a person asked for.
func defragmentWaits(v *view) *Decision {
	seats, d := v.defragmentTargets()
	if d != nil {
		return d
	}
	for _, s := range seats {
		if v.defragmentedSince(s) != nil {
			continue
		}
		if why := v.hindersDefragment(s); why != "" {
			return waitLater("fragmented", "", "%s is not defragmented now: %s", seatName(s), why)
		}
	}
	return &Decision{Reason: "looking again", Again: soon}
}

// defragmentTargets are the voters that are to be defragmented, raft's leader last.
func (v *view) defragmentTargets() ([]cluster.Seat, *Decision) {
	if run := v.roster.Running(); !run.Low.IsZero() && !run.Low.Has(cluster.V3API) {
		return nil, refuse("fragmented", "", "etcd %s has no database that could be defragmented", run.Low)
	}
	if run := v.roster.Running(); run.Mixed() || run.Downgrade {
		return nil, refuse("version", "", "the members' version is being changed (etcd %s to %s), and that would wait as long as this does: no database is defragmented until it is over; ask again then", run.Low, run.High)
	}
	if v.goal.Member == 0 && v.goal.Host == "" {
		seats := slices.Clone(v.roster.Voters())
		slices.SortStableFunc(seats, func(a, b cluster.Seat) int { return leadsLast(a) - leadsLast(b) })
		return seats, nil
	}
	s, d := v.target()
	switch {
	case d != nil:
		return nil, d
	case s.Learner:
		return nil, refuse("not-a-voter", "", "member %s is a learner, which gets a new database anyway", seatName(s))
	}
	return []cluster.Seat{s}, nil
}

// Noted is the goal with what an observation shows for the first time and what later
// ones are judged by: the voter that is to be replaced, and how voters were
// defragmented before it was handed over.
func (g Goal) Noted(o *cluster.Observation) Goal {
	switch g.Kind {
	case Replace:
		return g.notedReplaced(o)
	case Pause:
		return g.notedPause(o)
	}
	if g.Kind != Defragment {
		return g
	}
	before := maps.Clone(g.Before)
	if before == nil {
		before = map[cluster.MemberID]time.Time{}
	}
	r, _ := o.Roster()
	for _, s := range r.Voters() {
		if _, noted := before[s.ID]; s.Host != nil && !noted {
			before[s.ID] = defragmented(s)
		}
	}
	g.Before = before
	return g
}

// defragmented is when the member was defragmented last, by its host's clock; zero:
// not since its daemon started.
func defragmented(s cluster.Seat) time.Time {
	if s.Host == nil || s.Host.Database == nil || s.Host.Database.Member != s.ID {
		return time.Time{}
	}
	return s.Host.Database.Defragmented
}

// defragmentedSince is how the voter was defragmented since it was asked for; nil:
// it was not. That it is another time than before is what counts, and not which: the
// clocks of who asked, who leads and who did it need not agree, nor go on.
func (v *view) defragmentedSince(s cluster.Seat) *cluster.DatabaseWork {
	at := defragmented(s)
	if before, noted := v.goal.Before[s.ID]; at.IsZero() || !noted || at.Equal(before) {
		return nil
	}
	return s.Host.Database
}

// hindersDefragment says what keeps a voter from being defragmented; empty: nothing.
func (v *view) hindersDefragment(s cluster.Seat) string {
	if h := v.mayNotDefragment(s); h != nil {
		return h.why
	}
	if free, _ := v.candidates(); len(free) > 0 && len(v.roster.Voters()) < v.wanted() {
		return fmt.Sprintf("host %s is to carry another voter first", free[0].Host)
	}
	return v.restless()
}
