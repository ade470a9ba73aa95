package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"etcdadm.io/cluster"
)

// Memory is what a host has learned of others, of the spec and of how far its member got,
// newer than its state has it: it is written along with the next epoch. What it says is a
// lower bound. Its methods may be called at any time and from any goroutine, and never wait.
type Memory struct {
	keeper *Keeper
	notes  *Notes

	mu        sync.Mutex
	highest   cluster.Progress
	highestOf cluster.ClusterID
	peers     []Peer
	spec      *cluster.Spec
	standing  *cluster.Standing // what a leader told of a spec that is refused
	disk      disk
}

// NewMemory knows nothing yet.
func NewMemory(k *Keeper, n *Notes) *Memory { return &Memory{keeper: k, notes: n} }

// Loaded takes in what the disk has, and then what was told before it was read.
func (m *Memory) Loaded(s State) {
	m.mu.Lock()
	m.peers, m.spec, m.highest, m.highestOf = s.Peers, s.Spec, s.Highest, s.HighestOf
	early := m.disk.read()
	m.mu.Unlock()
	m.Remember(early)
}

// Put is what makes it part of a state that is about to be written. The epoch goes on with a confirmed disk only: any
// other would catch up with what others remember of it, and pass (SAFETY.md, rule 9). The launch under which it is
// confirmed goes with it; see Runs.
func (m *Memory) Put() func(*State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	peers, spec, highest, of, confirmed := slices.Clone(m.peers), m.spec, m.highest, m.highestOf, m.disk.word == DiskConfirmed
	return func(s *State) {
		s.Peers, s.Spec, s.Highest, s.HighestOf = peers, spec, highest, of
		s.Confirmed = ""
		if confirmed {
			s.Epoch++
		}
		if confirmed && s.Launch != nil {
			s.Confirmed = s.Launch.Nonce
		}
	}
}

// Remember takes in what other hosts told in their pings: their epochs, to be
// told back to them, and what they remember of this one.
func (m *Memory) Remember(pings []cluster.Ping) {
	behind := cluster.Ping{}
	m.mu.Lock()
	known := m.disk.word == DiskBehind
	s := m.keeper.Now() // under the lock, as NewDisk is: a ping about the disk before says nothing about the new one
	if !m.disk.isRead {
		m.disk.keep(pings)
		pings = nil
	}
	for _, p := range pings {
		if p.Cluster != s.Cluster || p.Host == "" || p.Host == s.Host {
			continue
		}
		if p.RememberedDisk == s.Disk && s.Disk != "" {
			if p.Remembered > s.Epoch {
				behind = p
			}
			m.disk.heard(p.Host, p.Remembered, s)
		}
		if p.Disk != "" && (p.Refused == "" || slices.ContainsFunc(m.peers, func(k Peer) bool { return k.Host == p.Host })) { // who is refused is no newcomer
			m.peers = Remember(m.peers, Peer{Host: p.Host, Disk: p.Disk, Address: p.Endpoint, Epoch: p.Epoch})
		}
	}
	m.mu.Unlock()
	if behind.Host != "" && !known {
		m.notes.Note(cluster.Problem{
			Code: "disk-went-back",
			Sentence: fmt.Sprintf("host %s has seen epoch %d of this disk, and the disk is at %d: it was rolled back, and its member may have lost acknowledged writes",
				behind.Host, behind.Remembered, s.Epoch),
			Hint:  "once every other voter is up: etcdadm member replace, or end the agent and etcd of this host and start the agent",
			Unfit: true,
		})
	}
}

// Remembered is the epoch that this host remembers of a disk of another one, to
// be told to it; of the one that it had last, where disk is empty. Nothing is
// remembered of a disk where the epoch is 0.
func (m *Memory) Remembered(id cluster.HostID, disk cluster.DiskID) (cluster.DiskID, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		switch {
		case p.Host != id:
		case disk == "":
			return p.Disk, p.Epoch
		default:
			return disk, p.EpochOf(disk)
		}
	}
	return "", 0
}

// Peers are the other hosts that are remembered.
func (m *Memory) Peers() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.peers)
	for i := range out {
		out[i].Past = slices.Clone(out[i].Past)
	}
	return out
}

// ErrCountedOn is returned for a host that the cluster counts on.
var ErrCountedOn = errors.New("the host is not forgotten")

// Forget drops what is remembered of another host: where it was, its disks and
// their epochs. It is refused while the record of the cluster or the spec names
// the host. It is durable with the next epoch.
//
// Errors: ErrCountedOn.
func (m *Memory) Forget(id cluster.HostID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.keeper.Now().Intent
	if why := countsOn(in, m.spec, id); why != "" {
		return fmt.Errorf("%w: %s names %s", ErrCountedOn, why, id)
	}
	m.peers = slices.DeleteFunc(slices.Clone(m.peers), func(p Peer) bool { return p.Host == id })
	return nil
}

// countsOn says what names a host; empty: nothing.
func countsOn(in *cluster.Intent, spec *cluster.Spec, id cluster.HostID) string {
	if in != nil {
		voter := func(v cluster.Voter) bool { return v.Host == id }
		switch {
		case slices.ContainsFunc(in.Voters, voter), slices.ContainsFunc(in.Next, voter):
			return "the record of the voters"
		case in.State == cluster.IntentFounding && slices.ContainsFunc(in.Founders, func(f cluster.Founder) bool { return f.Host == id }):
			return "the founding"
		}
	}
	if spec != nil && slices.Contains(spec.Hosts, id) {
		return "the spec"
	}
	return ""
}

// RememberSpec keeps the last spec that was seen. It is used for repairs only.
func (m *Memory) RememberSpec(s cluster.Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spec == nil || !m.spec.Equal(s) {
		m.spec = CopySpec(s)
	}
}

// Spec is the last spec that was seen; nil: none ever.
func (m *Memory) Spec() *cluster.Spec {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spec == nil {
		return nil
	}
	return CopySpec(*m.spec)
}

// RememberStanding keeps what the leader told is left of a spec that is refused; nil:
// none is. It is not durable, as a leader tells it with every look.
func (m *Memory) RememberStanding(s *cluster.Standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.standing = s
}

// AskedOptions are etcd's options as the last spec that was seen has them, or else the
// settings beside one that is refused; false: nobody told any.
func (m *Memory) AskedOptions() (map[string]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.spec != nil:
		return maps.Clone(m.spec.Options), true
	case m.standing != nil:
		return maps.Clone(m.standing.Options), true
	}
	return nil, false
}

// Highest is the furthest that a member of this host is known to have got.
func (m *Memory) Highest() cluster.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highest
}

// Reached folds in how far the own member got.
func (m *Memory) Reached(st cluster.MemberStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.highest.Revision = max(m.highest.Revision, st.Revision)
	if st.Cluster != 0 && st.Cluster != m.highestOf {
		// Terms and indexes compare only within one cluster ID; after a restore
		// those of the generation before would stand above every later one.
		if m.highestOf != 0 {
			m.highest.Term, m.highest.Index = 0, 0
		}
		m.highestOf = st.Cluster
	}
	if c := cmp.Or(cmp.Compare(st.Term, m.highest.Term), cmp.Compare(st.Index, m.highest.Index)); c > 0 {
		m.highest.Term, m.highest.Index = st.Term, st.Index
	}
}
