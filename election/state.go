package election

import (
	"cmp"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

const (
	// PeerTimeout is how long a peer counts as live after it was heard: one
	// pause between pings, a second for one that is lost, and the next one.
	PeerTimeout = 3500 * time.Millisecond
	// SettleSoon is how long a daemon listens after its start when it has
	// heard every daemon that it was told of.
	SettleSoon = 300 * time.Millisecond
	// SettleLate is how long it listens otherwise.
	SettleLate = time.Second
)

// Reasons against a host that leads all the same where no better one is in
// sight. Any other reason is final.
const (
	// UnfitDisk is that of a host whose disk is not confirmed, or is behind what others
	// remember of it: where the hosts keep the record it writes nothing (SAFETY.md, rule
	// 29), so another host has to lead.
	UnfitDisk = "its disk is not confirmed, or is behind what other hosts remember of it"
	// UnfitStoreSilent is that of a host which cannot read the backup store
	// while another can. Without the store little is mended.
	UnfitStoreSilent = "it cannot read the backup store, which another host can"
	// UnfitUnanswered is that of a host whose own calls reach too few of the voters'
	// hosts to lead them, while another host reaches enough: it may hear all of them,
	// and have none of them do anything. It comes after the store: who leads without
	// the store mends at least what needs none.
	UnfitUnanswered = "its calls are not answered by a quorum of the members' hosts, which another host reaches"
	// UnfitStore is that of a host whose store lacks what the voters remember:
	// it would act on another history (SAFETY.md, rule 19).
	UnfitStore = "its backup store lacks the intent that the members' hosts remember"
)

// excuses are the reasons of hosts that may lead, from the best host on.
var excuses = []string{"", UnfitDisk, UnfitStoreSilent, UnfitUnanswered, UnfitStore}

// Unheard is the number of seeds not heard yet while discovery has not said
// how many there are.
const Unheard = -1

// Peer is another daemon, as it was heard last.
type Peer struct {
	Host  cluster.HostID
	Heard time.Time // the last time
	// Leader is whom the peer named; empty while it settles.
	Leader  cluster.HostID
	Unfit   string
	Leaving bool
	// Fence is what its host promised last, and Well: it leads, and its last
	// look found a quorum.
	Fence cluster.Fence
	Well  bool
}

// State is everything that the state machine remembers. It is a value: Step
// never changes the one that it was given.
type State struct {
	Self    cluster.HostID
	Started time.Time
	// Missing is how many seeds were not heard yet; Unheard: not known.
	Missing int
	Settled bool
	Unfit   string // why this host must not lead; empty: it may
	Leaving bool
	Fence   cluster.Fence // what this host promised last
	Well    bool          // it leads, and its last look found a quorum
	Peers   []Peer        // sorted by host; silent ones stay until they are heard again or forgotten
	// Leader is who leads in this host's view; empty: nobody, or not settled.
	Leader cluster.HostID
}

// New is the state of a daemon that starts now.
func New(self cluster.HostID, now time.Time) State {
	return State{Self: self, Started: now, Missing: Unheard}
}

// Leading reports whether this host leads.
func (s State) Leading() bool { return s.Leader != "" && s.Leader == s.Self }

// Live reports whether a peer was heard within PeerTimeout.
func (s State) Live(h cluster.HostID, now time.Time) bool {
	i, ok := s.find(h)
	return ok && s.Peers[i].live(now)
}

// Stand fills in what this host's pings say about leadership.
func (s State) Stand(p *cluster.Ping) {
	p.Leader, p.Unfit, p.Leaving, p.LeadsWell = s.Leader, s.Unfit, s.Leaving, s.Well
}

// Next is the earliest time at which the passing of time alone could change
// the state; zero when nothing is pending.
func (s State) Next() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if !s.Settled {
		sooner(s.settles())
	}
	for _, p := range s.Peers {
		// A peer that is dead already changes nothing more; one that leaves or
		// cannot lead is not waited for either, but its next words are. One with
		// an excuse leads where no better one is, and is missed then.
		if (!p.Leaving && slices.Contains(excuses, p.Unfit) || p.Leader != "") && !p.Heard.IsZero() {
			sooner(p.Heard.Add(PeerTimeout))
		}
	}
	return next
}

func (s State) settles() time.Time {
	if s.Missing == 0 {
		return s.Started.Add(SettleSoon)
	}
	return s.Started.Add(SettleLate)
}

func (p Peer) live(now time.Time) bool {
	return !p.Heard.IsZero() && now.Sub(p.Heard) < PeerTimeout
}

func (s State) find(h cluster.HostID) (int, bool) {
	return slices.BinarySearchFunc(s.Peers, h, func(p Peer, h cluster.HostID) int { return cmp.Compare(p.Host, h) })
}
