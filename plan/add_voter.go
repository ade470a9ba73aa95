package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// Releases before 3.4 have no learners: what is added votes at once, before it
// was ever started (docs/adr/020-old-releases.md). So nobody is added unless
// every voter is up, and the host that is to run it has just said, under this
// fence, that it holds a preparation for exactly these members, has the release,
// and reaches each of them. From one voter to two there is no quorum until the
// second one serves; its preparation is its right to start without one.

// addVoter takes a host one step towards being a voter of a release without
// learners.
func (v *view) addVoter(h *cluster.HostReport, reason string) *Decision {
	if !v.acceptsAdd() {
		return v.noAdd(reason)
	}
	if len(v.roster.Voters()) > 1 {
		if d := v.awaitAway(cluster.Seat{}, reason+", which votes at once"); d != nil {
			return d
		}
	}
	if !v.preparedNow(h) {
		return v.prepare(h, v.members(), reason)
	}
	p := v.projection(1, 0)
	next := append(v.votersNow(), cluster.Voter{Host: h.Host, Disk: h.Disk, PeerURLs: slices.Clone(sorted(h.URLs.Peer))})
	op := cluster.Op{Kind: cluster.OpAddVoter, Host: h.Host, PeerURLs: h.URLs.Peer}
	return v.changeVoters(next, p, op, 0, addCommand(h), reason+", which votes at once in the release that the members run")
}

// added are the voters that were added and never started, whose hosts hold what
// they need to start them.
func (v *view) added() (out []cluster.Seat) {
	if v.version().HasLearners() {
		return nil
	}
	for _, s := range v.roster.Voters() {
		if s.Condition == cluster.ConditionNeverStarted && s.Name == "" && s.Owner.MayStart(s.Member, v.roster.Cluster, v.intent.Generation) {
			out = append(out, s)
		}
	}
	return out
}

// startAdded starts a voter that was added, while the others are a quorum.
func (v *view) startAdded() *Decision {
	added := v.added()
	if len(added) == 0 {
		return nil
	}
	if d := v.oldListAt(added[0].Owner, added[0]); d != nil {
		return d
	}
	return v.startJoiner(added[0].Owner, added[0].Member)
}

// startSecond starts the voter that was added to a single one, which has no
// quorum without it. The list of the first is current all the same: what it has
// applied was agreed on by itself alone, and nothing can have been agreed on
// since without the second, which no disk but the prepared one may start.
func startSecond(v *view) *Decision {
	if v.intent == nil || !v.seen || v.roster.HasQuorum() || len(v.roster.Seats) != 2 || v.roster.Cluster != v.intent.Cluster {
		return nil
	}
	for _, s := range v.added() {
		h := s.Owner
		for _, first := range v.roster.Seats {
			written := slices.ContainsFunc(v.intent.Next, func(w cluster.Voter) bool { return w.Host == h.Host && w.Disk == h.Disk })
			if first.ID != s.ID && written && first.Host != nil && first.Host.UnderFence && first.Host.Status != nil && ownList(first.Host, s.ID) &&
				slices.Equal(h.Local.Known, []cluster.MemberID{first.ID}) {
				return v.startJoiner(h, s.Member)
			}
		}
	}
	return v.secondComes()
}

// ownList: the host's member itself lists the other one.
func ownList(h *cluster.HostReport, id cluster.MemberID) bool {
	return h.View != nil && slices.ContainsFunc(h.View.Members, func(m cluster.Member) bool { return m.ID == id })
}

// secondComes waits for the second voter, which was started a moment ago.
func (v *view) secondComes() *Decision {
	if v.version().HasLearners() {
		return nil
	}
	for _, s := range v.roster.Voters() {
		if s.Name == "" && s.Host != nil && s.Host.UnderFence && s.Host.Process.State == cluster.ProcessRunning && s.Host.Process.Uptime < secondPatience {
			return &Decision{Reason: fmt.Sprintf("voter %s was added and is starting; there is no quorum until it serves", seatName(s)), Again: soon}
		}
	}
	return nil
}

// secondPatience is how long the second voter may take before the cluster counts
// as one without a quorum.
const secondPatience = 20 * time.Second
