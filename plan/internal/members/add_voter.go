package members

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// added are the voters that were added and never started, whose hosts hold what
// they need to start them.
func added(v *step.View) (out []cluster.Seat) {
	if v.Version().HasLearners() {
		return nil
	}
	for _, s := range v.Roster.Voters() {
		if s.Condition == cluster.ConditionNeverStarted && s.Name == "" && s.Owner.MayStart(s.Member, v.Roster.Cluster, v.Intent.Generation) {
			out = append(out, s)
		}
	}
	return out
}

// startAdded starts a voter that was added, while the others are a quorum.
func startAdded(v *step.View) *decision.Decision {
	added := added(v)
	if len(added) == 0 {
		return nil
	}
	if d := oldListAt(v, added[0].Owner, added[0]); d != nil {
		return d
	}
	return step.StartJoiner(v, added[0].Owner, added[0].Member)
}

// StartSecond starts the voter that was added to a single one, which has no
// quorum without it. The list of the first is current all the same: what it has
// applied was agreed on by itself alone, and nothing can have been agreed on
// since without the second, which no disk but the prepared one may start.
func StartSecond(v *step.View) *decision.Decision {
	if v.Intent == nil || !v.Seen || v.Roster.HasQuorum() || len(v.Roster.Seats) != 2 || v.Roster.Cluster != v.Intent.Cluster {
		return nil
	}
	for _, s := range added(v) {
		h := s.Owner
		for _, first := range v.Roster.Seats {
			written := slices.ContainsFunc(v.Intent.Next, func(w cluster.Voter) bool { return w.Host == h.Host && w.Disk == h.Disk })
			if first.ID != s.ID && written && first.Host != nil && first.Host.UnderFence && first.Host.Status != nil && ownList(first.Host, s.ID) &&
				slices.Equal(h.Local.Known, []cluster.MemberID{first.ID}) {
				return step.StartJoiner(v, h, s.Member)
			}
		}
	}
	return SecondComes(v)
}

// ownList: the host's member itself lists the other one.
func ownList(h *cluster.HostReport, id cluster.MemberID) bool {
	return h.View != nil && slices.ContainsFunc(h.View.Members, func(m cluster.Member) bool { return m.ID == id })
}

// SecondComes waits for the second voter, which was started a moment ago.
func SecondComes(v *step.View) *decision.Decision {
	if v.Version().HasLearners() {
		return nil
	}
	for _, s := range v.Roster.Voters() {
		if s.Name == "" && s.Host != nil && s.Host.UnderFence && s.Host.Process.State == cluster.ProcessRunning && s.Host.Process.Uptime < SecondPatience {
			return &decision.Decision{Reason: words.F("voter {voter} was added and is starting; there is no quorum until it serves", words.SeatName(s)), Again: decision.Soon}
		}
	}
	return nil
}

// SecondPatience is how long the second voter may take before the cluster counts
// as one without a quorum.
const SecondPatience = 20 * time.Second
