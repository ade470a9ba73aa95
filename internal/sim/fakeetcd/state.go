package fakeetcd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// Sizes of the model's database, in bytes. Only their proportion to a quota
// matters.
const (
	emptyDB   = 20 << 10
	entryCost = 256
)

type opKind string

const (
	opPut         opKind = "put"
	opPublish     opKind = "publish"
	opVersion     opKind = "version"
	opAlarm       opKind = "alarm"
	opDisarm      opKind = "disarm"
	opLeaseGrant  opKind = "lease grant"
	opLeaseRevoke opKind = "lease revoke"
	opRestore     opKind = "restore"
	opCompact     opKind = "compact"
	opDowngrade   opKind = "downgrade" // to Version; zero: none, or not any more
)

// op is the payload of an ordinary log entry.
type op struct {
	Request uint64           `json:"r,omitempty"`
	Kind    opKind           `json:"k"`
	Key     string           `json:"key,omitempty"`
	Value   string           `json:"v,omitempty"`
	Lease   int64            `json:"l,omitempty"`
	TTL     int64            `json:"ttl,omitempty"` // seconds
	Member  cluster.MemberID `json:"m,omitempty"`
	Name    string           `json:"n,omitempty"`
	URLs    []string         `json:"u,omitempty"`
	Alarm   string           `json:"a,omitempty"`
	Version cluster.Version  `json:"ver,omitzero"`
	V2      bool             `json:"v2,omitempty"` // a request of version 2 of the API
	// Of what a restored cluster begins with.
	Snapshot int   `json:"snap,omitempty"`
	Revision int64 `json:"rev,omitempty"`
}

func (o op) marshal() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("fakeetcd: marshal %s: %v", o.Kind, err))
	}
	return b
}

// confContext travels in a configuration change.
type confContext struct {
	Member  cluster.Member `json:"m"`
	Promote bool           `json:"p,omitempty"`
}

type keyValue struct {
	value string
	lease int64
	mod   int64
}

type lease struct {
	id  int64
	ttl int64 // seconds
}

type alarm struct {
	kind   string
	member cluster.MemberID
}

// state is the applied state of one member, a function of its committed log.
type state struct {
	applied   uint64
	members   map[cluster.MemberID]*cluster.Member
	removed   map[cluster.MemberID]bool
	kv        map[string]keyValue
	rev       int64
	size      int64  // in use
	history   []past // by revision
	compacted int64
	leases    map[int64]lease
	alarms    []alarm         // sorted
	version   cluster.Version // the cluster's; patch is always 0
	down      cluster.Version // the target of a downgrade that is enabled; zero: none
}

func newState() *state {
	return &state{
		members: make(map[cluster.MemberID]*cluster.Member),
		removed: make(map[cluster.MemberID]bool),
		kv:      make(map[string]keyValue),
		leases:  make(map[int64]lease),
		rev:     1,
		size:    emptyDB,
	}
}

// list returns the members sorted by ID.
func (s *state) list() []cluster.Member {
	out := make([]cluster.Member, 0, len(s.members))
	for _, m := range s.members {
		c := *m
		c.PeerURLs, c.ClientURLs = slices.Clone(m.PeerURLs), slices.Clone(m.ClientURLs)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// voters returns the voting members sorted by ID.
func (s *state) voters() []cluster.Member {
	return slices.DeleteFunc(s.list(), func(m cluster.Member) bool { return m.Learner })
}

func (s *state) learners() int { return len(s.members) - len(s.voters()) }

func (s *state) alarmed(kind string) bool {
	return slices.ContainsFunc(s.alarms, func(a alarm) bool { return a.kind == kind })
}

// validate is what etcd checks when a configuration change is applied, on every
// member alike. Source: RaftCluster.ValidateConfigurationChange.
func (s *state) validate(cc *raftpb.ConfChange, c confContext, maxLearners int) error {
	id := cluster.MemberID(cc.GetNodeId())
	if s.removed[id] {
		return etcd.ErrMemberNotFound
	}
	known := s.members[id]
	switch cc.GetType() {
	case raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode:
		if c.Promote {
			if known == nil {
				return etcd.ErrMemberNotFound
			}
			if !known.Learner {
				return etcd.ErrNotLearner
			}
			return nil
		}
		if known != nil {
			return etcd.ErrMemberExists
		}
		if s.taken(c.Member.PeerURLs, 0) {
			return etcd.ErrPeerURLExists
		}
		if c.Member.Learner && s.learners()+1 > maxLearners {
			return etcd.ErrTooManyLearners
		}
	case raftpb.ConfChangeRemoveNode:
		if known == nil {
			return etcd.ErrMemberNotFound
		}
	case raftpb.ConfChangeUpdateNode:
		if known == nil {
			return etcd.ErrMemberNotFound
		}
		if s.taken(c.Member.PeerURLs, id) {
			return etcd.ErrPeerURLExists
		}
	}
	return nil
}

// taken reports whether a member other than but has one of the peer URLs.
func (s *state) taken(urls []string, but cluster.MemberID) bool {
	for id, m := range s.members {
		if id == but {
			continue
		}
		for _, u := range m.PeerURLs {
			if slices.Contains(urls, u) {
				return true
			}
		}
	}
	return false
}

// change applies a configuration change that validate let through.
func (s *state) change(cc *raftpb.ConfChange, c confContext) {
	id := cluster.MemberID(cc.GetNodeId())
	switch cc.GetType() {
	case raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode:
		if c.Promote {
			s.members[id].Learner = false
			return
		}
		m := c.Member
		m.ID = id
		s.members[id] = &m
	case raftpb.ConfChangeRemoveNode:
		delete(s.members, id)
		s.removed[id] = true
	case raftpb.ConfChangeUpdateNode:
		s.members[id].PeerURLs = slices.Clone(c.Member.PeerURLs)
	}
}

// apply applies an ordinary entry. The error is the refusal that the caller
// gets; the state is unchanged then.
func (s *state) apply(o op) (result int64, err error) {
	switch o.Kind {
	case opPut:
		return s.put(o)
	case opPublish:
		if m := s.members[o.Member]; m != nil {
			m.Name, m.ClientURLs = o.Name, slices.Clone(o.URLs)
		}
	case opVersion:
		s.version = o.Version
	case opDowngrade:
		s.down = o.Version
	case opCompact:
		if err := s.compact(o.Revision); err != nil {
			return 0, err
		}
	case opAlarm, opDisarm:
		s.alarm(o)
	case opLeaseGrant:
		if err := s.capped(); err != nil {
			return 0, err
		}
		if _, taken := s.leases[o.Lease]; taken {
			return 0, ErrLeaseExists
		}
		s.leases[o.Lease] = lease{id: o.Lease, ttl: o.TTL}
	case opLeaseRevoke:
		if s.alarmed("CORRUPT") {
			return 0, etcd.ErrCorrupt
		}
		if _, ok := s.leases[o.Lease]; !ok {
			return 0, ErrLeaseNotFound
		}
		s.revoke(o.Lease)
	}
	return s.rev, nil
}

// capped is the refusal of writes under an alarm. Source: the capped and corrupt
// appliers of etcdserver/apply.
func (s *state) capped() error {
	switch {
	case s.alarmed("CORRUPT"):
		return etcd.ErrCorrupt
	case s.alarmed("NOSPACE"):
		return etcd.ErrNoSpace
	}
	return nil
}

func putCost(key, value string) int64 { return int64(len(key)+len(value)) + entryCost }

func (s *state) put(o op) (int64, error) {
	if err := s.capped(); err != nil {
		return 0, err
	}
	if o.Lease != 0 {
		if _, ok := s.leases[o.Lease]; !ok {
			return 0, ErrLeaseNotFound
		}
	}
	s.rev++
	cost := putCost(o.Key, o.Value)
	s.size += cost
	s.history = append(s.history, past{o.Key, o.Value, s.rev, cost})
	s.kv[o.Key] = keyValue{value: o.Value, lease: o.Lease, mod: s.rev}
	return s.rev, nil
}

func (s *state) alarm(o op) {
	a := alarm{kind: o.Alarm, member: o.Member}
	at := slices.Index(s.alarms, a)
	switch {
	case o.Kind == opAlarm && at < 0:
		s.alarms = append(s.alarms, a)
		slices.SortFunc(s.alarms, func(a, b alarm) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.member, b.member))
		})
	case o.Kind == opDisarm && at >= 0:
		s.alarms = slices.Delete(s.alarms, at, at+1)
	}
}

// revoke ends a lease with its keys.
func (s *state) revoke(id int64) {
	delete(s.leases, id)
	var gone bool
	for k, v := range s.kv {
		if v.lease == id {
			delete(s.kv, k)
			gone = true
		}
	}
	if gone {
		s.rev++
	}
}
