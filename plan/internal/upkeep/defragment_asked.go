package upkeep

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// DefragmentAsked has the voter that a person named, or every voter in turn, write
// its database anew, under the guards of what the daemons do by themselves: the
// others up, raft's leader last, after it has handed over. nil: not now.
func DefragmentAsked(v *step.View) *decision.Decision {
	seats, d := defragmentTargets(v)
	if d != nil {
		return d
	}
	var done []string
	for _, s := range seats {
		w := defragmentedSince(v, s)
		switch {
		case w == nil:
			if hindersDefragment(v, s) != "" {
				return nil
			}
			return defragmentSeat(v, s, words.F("the database of {member} has {dBSize}, of which {dBInUse} are in use, as asked", words.SeatName(s), words.BytesWords(s.Host.Status.DBSize), words.BytesWords(s.Host.Status.DBInUse)))
		case w.Error != "":
			return decision.Refuse("fragmented", "", "the defragmentation of {member} failed: {error}; the old file is in use", words.SeatName(s), w.Error)
		}
		done = append(done, fmt.Sprintf("%s: %s, before %s", words.SeatName(s), words.BytesWords(w.After), words.BytesWords(w.Before)))
	}
	slices.Sort(done)
	return &decision.Decision{Reason: words.F("defragmented {done}", strings.Join(done, "; ")), Done: true}
}

// DefragmentWaits says what a defragmentation waits for that a person asked for.
func DefragmentWaits(v *step.View) *decision.Decision {
	seats, d := defragmentTargets(v)
	if d != nil {
		return d
	}
	for _, s := range seats {
		if defragmentedSince(v, s) != nil {
			continue
		}
		if why := hindersDefragment(v, s); why != "" {
			return decision.WaitLater("fragmented", "", "{member} is not defragmented now: {why}", words.SeatName(s), why)
		}
	}
	return &decision.Decision{Reason: words.F("looking again"), Again: decision.Soon}
}

// defragmentTargets are the voters that are to be defragmented, raft's leader last.
func defragmentTargets(v *step.View) ([]cluster.Seat, *decision.Decision) {
	if run := v.Roster.Running(); !run.Low.IsZero() && !run.Low.Has(cluster.V3API) {
		return nil, decision.Refuse("fragmented", "", "etcd {release} has no database to defragment", run.Low)
	}
	if run := v.Roster.Running(); run.Mixed() || run.Downgrade {
		return nil, decision.Refuse("version", "", "a version change is under way (etcd {release} to {high}), and a defragmentation would hold it up; ask again when it is done", run.Low, run.High)
	}
	if v.Goal.Member == 0 && v.Goal.Host == "" {
		seats := slices.Clone(v.Roster.Voters())
		slices.SortStableFunc(seats, func(a, b cluster.Seat) int { return sight.LeadsLast(a) - sight.LeadsLast(b) })
		return seats, nil
	}
	s, d := step.Target(v)
	switch {
	case d != nil:
		return nil, d
	case s.Learner:
		return nil, decision.Refuse("not-a-voter", "", "member {member} is a learner, which gets a new database anyway", words.SeatName(s))
	}
	return []cluster.Seat{s}, nil
}

// defragmentedSince is how the voter was defragmented since it was asked for; nil:
// it was not. That it is another time than before is what counts, and not which: the
// clocks of who asked, who leads and who did it need not agree, nor go on.
func defragmentedSince(v *step.View, s cluster.Seat) *cluster.DatabaseWork {
	at := decision.Defragmented(s)
	if before, noted := v.Goal.Before[s.ID]; at.IsZero() || !noted || at.Equal(before) {
		return nil
	}
	return s.Host.Database
}

// hindersDefragment says what keeps a voter from being defragmented; empty: nothing.
func hindersDefragment(v *step.View, s cluster.Seat) string {
	if h := mayNotDefragment(v, s); h != nil {
		return h.Why.String()
	}
	if free, _ := v.Candidates(); len(free) > 0 && len(v.Roster.Voters()) < v.Wanted() {
		return fmt.Sprintf("host %s is to carry another voter first", free[0].Host)
	}
	return restless(v)
}
