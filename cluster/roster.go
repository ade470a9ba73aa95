package cluster

import (
	"fmt"
	"slices"
	"time"
)

// Seat is one listed member together with what is known of its host.
type Seat struct {
	Member
	// Host is the host that carries the member by its own durable record; nil
	// when no host in sight does.
	Host *HostReport
	// Owner is the host in sight that has the member's name or one of its
	// peer URLs, whether it carries the member or not.
	Owner *HostReport
	// HostID is who carries or would carry it: from Host, the intent's voter
	// sets, the member's name, the intent's founders or Owner, in this order;
	// it may be empty.
	HostID HostID
	// Condition is what is wrong with the member, and Since is since when, as far as that
	// is remembered.
	Condition Condition
	Since     time.Time
	// Up: the condition is ConditionUp.
	Up bool
	// Why says in words why the member does not count as up.
	Why string
	// RaftLeader: the members in sight name this one as raft leader.
	RaftLeader bool
}

// State is what a person reads of a member that is not up: its condition and why.
func (s Seat) State() string { return string(s.Condition) + ": " + s.Why }

// wiped reports whether the member's owner says that it neither runs the
// member nor holds data of it: the disk is not the one that voted, so the
// member is gone for good, and no waiting brings it back. Any other claim to
// the member, or a process that answers, makes this false (SAFETY.md, rule 4).
func (s Seat) wiped() bool {
	return s.Host == nil && s.Owner != nil && s.Owner.UnderFence &&
		!s.Owner.Carries() && len(s.Owner.Foreign) == 0 && s.Owner.Predecessor == nil && s.Owner.Process.State == ProcessStopped
}

// Roster is the membership of an observation, seat by seat, sorted by member
// ID. The bool is false when no member list is in sight.
func (o *Observation) Roster() (Roster, bool) {
	r, ok := o.seated()
	if ok {
		r.voters, r.learners, r.ups = slices.Clip(r.Voters()), slices.Clip(r.Learners()), slices.Clip(r.Up())
		r.picked = true
	}
	return r, ok
}

// seated is the roster of which nothing was picked yet.
func (o *Observation) seated() (Roster, bool) {
	view, ok := o.Members()
	if !ok {
		return Roster{}, false
	}
	r := Roster{Cluster: view.Cluster, Linearizable: view.Linearizable, Seats: make([]Seat, 0, len(view.Members))}
	leader := o.raftLeader(view.Cluster)
	for _, m := range view.Members {
		s := Seat{Member: m, RaftLeader: leader != 0 && leader == m.ID}
		s.Host = o.carrier(view.Cluster, m.ID)
		s.Owner = o.owner(m)
		s.HostID = o.hostOf(s)
		s.Condition = o.condition(&s, view)
		s.Since = o.Memory.Member(s.ID).Since(s.Condition)
		s.Up, s.Why = s.Condition == ConditionUp, o.conditionWords(&s)
		r.Seats = append(r.Seats, s)
	}
	return r, true
}

func (o *Observation) carrier(c ClusterID, id MemberID) *HostReport {
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if h.Local.Member == id && (h.Local.Cluster == c || h.Local.Cluster == 0) && h.Local.State != MemberNone {
			return h
		}
	}
	return nil
}

// owner prefers the address over the name: a host that came back under
// another name at the same address owns what was there. A member that never
// started has no name; the host that was to start it is in the intent.
func (o *Observation) owner(m Member) *HostReport {
	for i := range o.Hosts {
		if h := &o.Hosts[i]; overlap(h.URLs.Peer, m.PeerURLs) {
			return h
		}
	}
	name := HostID(m.Name)
	if name == "" {
		name = o.recordedHost(m.ID)
	}
	if h, ok := o.Host(name); ok && name != "" {
		return h
	}
	return nil
}

// recordedHost is who carries or is to start a member by the intent.
func (o *Observation) recordedHost(id MemberID) HostID {
	in := o.Intent()
	if in == nil || id == 0 {
		return ""
	}
	if h := in.voterHost(id); h != "" {
		return h
	}
	for i := range in.Founders {
		if f := &in.Founders[i]; f.Member == id {
			return f.Host
		}
	}
	return ""
}

// voterHost is who carries a voter by the record of the voters; empty: nobody.
func (in *Intent) voterHost(id MemberID) HostID {
	for _, set := range [...][]Voter{in.Voters, in.Next} {
		for i := range set {
			if v := &set[i]; v.Member == id && v.Host != "" {
				return v.Host
			}
		}
	}
	return ""
}

func (o *Observation) hostOf(s Seat) HostID {
	if s.Host != nil {
		return s.Host.Host
	}
	if in := o.Intent(); in != nil {
		if h := in.voterHost(s.ID); h != "" {
			return h
		}
	}
	if s.Name != "" {
		return HostID(s.Name)
	}
	if in := o.Intent(); in != nil {
		for _, f := range in.Founders {
			if f.Member == s.ID && f.Member != 0 {
				return f.Host
			}
		}
	}
	if s.Owner != nil {
		return s.Owner.Host
	}
	return ""
}

func gapWords(g Gap) string {
	switch {
	case g.Kind == GapRefused && g.Promised.OutOfReach():
		return fmt.Sprintf("host %s refuses this leader: %s", g.Host, g.Detail)
	case g.Kind == GapRefused:
		return fmt.Sprintf("its host still follows the former leader %s", g.Promised.Host)
	}
	return fmt.Sprintf("host %s is %s: %s", g.Host, g.Kind, g.Detail)
}

// answersElse says that a member whose host is a gap answers others at its peer port.
func (o *Observation) answersElse(id MemberID) string {
	for i := range o.Hosts {
		for _, r := range o.Hosts[i].Reaches {
			if r.Member == id && r.Answers {
				return "; its etcd answers at its peer port"
			}
		}
	}
	return ""
}

func describeProcess(p Process) string {
	if p.State == ProcessStopped {
		return "not running"
	}
	if p.LastExit != "" {
		return fmt.Sprintf("in %s (%s)", p.State, p.LastExit)
	}
	return string(p.State)
}

// raftLeader is the leader that the member with the highest term names.
func (o *Observation) raftLeader(c ClusterID) MemberID {
	var term uint64
	var leader MemberID
	for i := range o.Hosts {
		if st := o.Hosts[i].Status; st != nil && st.Cluster == c && st.Leader != 0 && st.Term > term {
			term, leader = st.Term, st.Leader
		}
	}
	return leader
}

// Roster is a member list with its hosts.
type Roster struct {
	Cluster      ClusterID
	Linearizable bool
	Seats        []Seat

	// What [Observation.Roster] has picked from Seats, since every rule asks for it.
	picked                bool
	voters, learners, ups []Seat
}

// Voters are the seats that vote. The slice is not to be changed.
func (r Roster) Voters() []Seat {
	if r.picked {
		return r.voters
	}
	return r.filter(func(s *Seat) bool { return !s.Learner })
}

// Learners are the seats that do not vote yet. The slice is not to be changed.
func (r Roster) Learners() []Seat {
	if r.picked {
		return r.learners
	}
	return r.filter(func(s *Seat) bool { return s.Learner })
}

// Up are the voters that are up. The slice is not to be changed.
func (r Roster) Up() []Seat {
	if r.picked {
		return r.ups
	}
	return r.filter(func(s *Seat) bool { return !s.Learner && s.Up })
}

// Count is how many seats vote, and how many of these are up.
func (r Roster) Count() (voters, up int) {
	for i := range r.Seats {
		if r.Seats[i].Learner {
			continue
		}
		voters++
		if r.Seats[i].Up {
			up++
		}
	}
	return voters, up
}

// HasQuorum reports whether the voters that are up are a quorum.
func (r Roster) HasQuorum() bool {
	n, up := r.Count()
	return n > 0 && up >= Quorum(n)
}

// Seat finds a member.
func (r Roster) Seat(id MemberID) (Seat, bool) {
	for _, s := range r.Seats {
		if s.ID == id {
			return s, true
		}
	}
	return Seat{}, false
}

// Seated reports whether a host carries or owns a listed member.
func (r Roster) Seated(h HostID) bool {
	return slices.ContainsFunc(r.Seats, func(s Seat) bool {
		return s.HostID == h || s.Host != nil && s.Host.Host == h || s.Owner != nil && s.Owner.Host == h
	})
}

// Guard is the guard of an op that relies on this membership.
func (r Roster) Guard() Guard {
	g := Guard{Cluster: r.Cluster}
	for i := range r.Seats {
		s := &r.Seats[i]
		g.Members = append(g.Members, s.ID)
		if !s.Learner {
			g.Voters = append(g.Voters, s.ID)
		}
	}
	return g
}

// filter shares the seats where all of them are kept.
func (r Roster) filter(keep func(*Seat) bool) []Seat {
	n := 0
	for i := range r.Seats {
		if keep(&r.Seats[i]) {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case len(r.Seats):
		return r.Seats
	}
	out := make([]Seat, 0, n)
	for i := range r.Seats {
		if keep(&r.Seats[i]) {
			out = append(out, r.Seats[i])
		}
	}
	return out
}

// AsVoter is the seat as the intent records it.
func (s Seat) AsVoter() Voter {
	v := Voter{Host: s.HostID, Member: s.ID, PeerURLs: s.PeerURLs}
	if s.Host != nil {
		v.Disk = s.Host.Disk
	}
	return v
}
