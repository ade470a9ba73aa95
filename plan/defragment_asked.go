package plan

import (
	"fmt"
	"slices"
	"strings"

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

// defragmentedSince is how the voter was defragmented since it was asked for; nil:
// it was not.
func (v *view) defragmentedSince(s cluster.Seat) *cluster.DatabaseWork {
	if s.Host == nil || s.Host.Database == nil {
		return nil
	}
	w := s.Host.Database
	if w.Member != s.ID || w.Defragmented.IsZero() || v.leadersTime(s.Host, w.Defragmented).Before(v.goal.Since) {
		return nil
	}
	return w
}

// hindersDefragment says what keeps a voter from being defragmented; empty: nothing.
func (v *view) hindersDefragment(s cluster.Seat) string {
	if why := v.mayNotDefragment(s); why != "" {
		return why
	}
	if free, _ := v.candidates(); len(free) > 0 && len(v.roster.Voters()) < v.wanted() {
		return fmt.Sprintf("host %s is to carry another voter first", free[0].Host)
	}
	return v.restless()
}
