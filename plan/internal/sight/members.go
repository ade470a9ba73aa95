package sight

import (
	"fmt"
	"math"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

// Voters is the membership as the intent records it, with what it already
// knew of members whose hosts are out of sight now.
func (v *Sight) Voters(keep func(cluster.Seat) bool) []cluster.Voter {
	var out []cluster.Voter
	for _, s := range v.Roster.Seats {
		if !keep(s) {
			continue
		}
		w := s.AsVoter()
		if s.Host == nil && v.Intent != nil {
			w = recorded(v, w)
		}
		if out == nil {
			out = make([]cluster.Voter, 0, len(v.Roster.Seats)+1) // mostly one comes or goes
		}
		out = append(out, w)
	}
	return out
}

// recorded is what the intent knows of a member whose host is out of sight:
// the disk of an unstarted founder too, since it may start late.
func recorded(v *Sight, w cluster.Voter) cluster.Voter {
	for _, old := range slices.Concat(v.Intent.Voters, v.Intent.Next) {
		if old.Member == w.Member {
			old.PeerURLs = w.PeerURLs
			return old
		}
	}
	for _, f := range v.Intent.Founders {
		if f.Member == w.Member {
			w.Host, w.Disk = f.Host, f.Disk
		}
	}
	return w
}

func (v *Sight) VotersNow() []cluster.Voter {
	return v.Voters(func(s cluster.Seat) bool { return !s.Learner })
}

func (v *Sight) Members() []cluster.Member {
	var out []cluster.Member
	for _, s := range v.Roster.Seats {
		out = append(out, s.Member)
	}
	return out
}

// Projection is what a change of the voters does.
func (v *Sight) Projection(voters, up int) cluster.Projection {
	n, u := v.Roster.Count()
	return cluster.Projection{Voters: n, Up: u, VotersAfter: n + voters, UpAfter: u + up}
}

// Speaker is the host through whose member membership calls are made: the
// raft leader's when it is up, because it knows who is connected, else the
// first voter's that is up. One that refused such a call is asked again after
// the others: each judges by its own connections, and can be wrong for good.
// except is not asked to act on itself.
func (v *Sight) Speaker(except cluster.MemberID) (cluster.Seat, bool) {
	var best cluster.Seat
	found := false
	for _, s := range v.Roster.Up() {
		if s.ID == except {
			continue
		}
		if age, than := refusedFor(s.Host), refusedFor(best.Host); !found || age > than || age == than && s.RaftLeader {
			best, found = s, true
		}
	}
	return best, found
}

// refusedFor is how long ago a host's member refused a membership call, by the
// host's own clock. A refusal of before the last minute does not count: most
// are over after 5 s, and a daemon of an earlier release tells of none.
func refusedFor(h *cluster.HostReport) time.Duration {
	const counts = time.Minute
	if h == nil || h.Refused.IsZero() || h.Clock.Before(h.Refused) || h.Clock.Sub(h.Refused) > counts {
		return math.MaxInt64
	}
	return h.Clock.Sub(h.Refused)
}

func (v *Sight) DownVoters() []string {
	var out []string
	for _, s := range v.Roster.Voters() {
		if !s.Up {
			out = append(out, fmt.Sprintf("%s: %s", words.SeatName(s), s.Why))
		}
	}
	return out
}

// Version is the release that a joining member is started with: the one that
// the voters run. When voters differ it is the lowest, which every one of
// them can talk to.
func (v *Sight) Version() cluster.Version {
	var low cluster.Version
	for _, s := range v.Roster.Voters() {
		if s.Host == nil {
			continue
		}
		r := s.Host.Local.Version
		if r.IsZero() && s.Host.Status != nil {
			r = s.Host.Status.Version
		}
		if !r.IsZero() && (low.IsZero() || r.Compare(low) < 0) {
			low = r
		}
	}
	if low.IsZero() && v.Intent != nil {
		low = v.Intent.Version
	}
	return low
}

// VersionFor is the release that a given host would join with: the voters'
// own, or the spec's when that is a patch of the same minor.
func (v *Sight) VersionFor(h *cluster.HostReport) (cluster.Version, bool) {
	run := v.Version()
	if h.CanRun(run) {
		return run, true
	}
	if v.Spec != nil && v.Spec.EtcdVersion.SameMinor(run) && h.CanRun(v.Spec.EtcdVersion) {
		return v.Spec.EtcdVersion, true
	}
	return run, false
}

// StartingLearner names the host of a learner that was started and does not
// serve yet.
func (v *Sight) StartingLearner() cluster.HostID {
	for _, s := range v.Roster.Learners() {
		if s.Host != nil && s.Host.Process.State == cluster.ProcessRunning && s.Host.Status == nil {
			return s.Host.Host
		}
	}
	return ""
}

func LeadsLast(s cluster.Seat) int {
	if s.RaftLeader {
		return 1
	}
	return 0
}

// HandsOver reports whether a member can be told to hand raft's leadership over.
// One of an older release is stopped as it is: 3.2 hands over when it ends, and
// 2.3 leaves the others to elect.
func HandsOver(s cluster.Seat) bool {
	return s.Release().IsZero() || s.Release().Has(cluster.MoveLeader)
}

// AcceptsAdd predicts etcd's answer to an add: with one voter always yes,
// otherwise a quorum of one more has to be connected.
func (v *Sight) AcceptsAdd() bool {
	n := len(v.Roster.Voters())
	if !v.Version().HasLearners() { // what is added has a vote at once
		return len(v.DownVoters()) == 0
	}
	return n == 1 || len(v.Roster.Up()) >= cluster.Quorum(n+1)
}

// MostLearners is how many learners every member accepts at a time. Each applies
// an add by its own limit, so that members with different ones end up with
// different lists; where nobody knows what a voter runs, it may have the lowest.
func (v *Sight) MostLearners() int {
	for _, s := range v.Roster.Voters() {
		if s.Release().IsZero() || s.Host.Local.Adopted {
			return 1
		}
	}
	return v.Roster.Running().Low.MaxLearners()
}

// Superseded reports whether the history lists the very cluster of the host's member as
// closed. Its generation alone says nothing, since another founding under the
// same name counts from one as well.
func Superseded(v *Sight, h *cluster.HostReport) bool {
	return h.Local.Generation < v.Intent.Generation && v.Intent.ClosedCluster(h.Local.Cluster)
}

// Awaited is when to look again at voters that are down: soon at one that has
// just been started, because whatever comes next waits for it.
func Awaited(v *Sight) time.Duration {
	for _, s := range v.Roster.Voters() {
		if s.Up || s.Host == nil {
			continue
		}
		if p := s.Host.Process; p.State == cluster.ProcessRunning && p.Uptime > 0 && p.Uptime < StartingFor {
			return decision.Soon
		}
	}
	return decision.Later
}

// StartingFor is how long a process that does not answer yet is looked at often.
// Source: members of 3.4 to 3.7 with little data serve within a second.
const StartingFor = 3 * time.Second

const (
	// JoinPatience is how long a learner may be without a host in sight that carries it
	// before it is removed again.
	JoinPatience = 20 * time.Second
)
