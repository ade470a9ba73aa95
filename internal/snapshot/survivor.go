package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
)

// Survivor is what a stopped member knows.
type Survivor struct {
	Member  cluster.MemberID  `json:"member"`
	Cluster cluster.ClusterID `json:"cluster"`
	// Last is the last entry of its log, committed or not: survivors are chosen by it.
	Last   Position `json:"last"`
	Term   uint64   `json:"term"`   // the highest that it has seen or voted in
	Commit uint64   `json:"commit"` // as recorded; the truth may be higher
	// Torn is how many bytes follow the last whole record of the log: what was
	// being written when it died, or else damage that etcd itself would cut off.
	Torn int64 `json:"torn,omitempty"`

	ConsistentIndex uint64 `json:"consistentIndex"` // the last entry that its database has
	Revision        int64  `json:"revision"`        // of its database; entries after ConsistentIndex may raise it
	StorageVersion  string `json:"storageVersion,omitempty"`
	ClusterVersion  string `json:"clusterVersion,omitempty"`
	AuthEnabled     bool   `json:"authEnabled,omitempty"`

	// Members are those of its membership at Last, sorted by ID. A change that
	// was not committed counts: raft goes by it, too.
	Members []cluster.Member `json:"members"`
	Learner bool             `json:"learner,omitempty"` // it does not vote
	// Removed: the database says that it was removed. Leaving: an entry after
	// ConsistentIndex removes it, which may never have been committed.
	Removed bool `json:"removed,omitempty"`
	Leaving bool `json:"leaving,omitempty"`
}

// ErrNoMember says that a directory holds no member's data.
var ErrNoMember = errors.New("there is no member's data")

// remains are a stopped member's files while the lock of its database is held.
type remains struct {
	Survivor
	log    *raftLog
	head   *header
	walDir string
	snap   string // directory of the database and of raft's snapshots
	db     string // the database that etcd would use
	lock   *bbolt.DB
}

// SurvivorOf looks into the data directory of a stopped member, and changes nothing in it. On a running member it is
// [ErrRunning], without one [ErrNoMember].
func SurvivorOf(ctx context.Context, dataDir string) (Survivor, error) {
	r, err := openRemains(ctx, dataDir)
	if err != nil {
		return Survivor{}, fmt.Errorf("look into %s: %w", dataDir, err)
	}
	defer r.close()
	return r.Survivor, nil
}

func (r *remains) close() { r.lock.Close() }

// openRemains reads the data directory of a stopped member and changes nothing
// in it. On a running member it is [ErrRunning].
func openRemains(ctx context.Context, dataDir string) (*remains, error) {
	member := filepath.Join(dataDir, "member")
	r := &remains{walDir: filepath.Join(member, "wal"), snap: filepath.Join(member, "snap")}
	r.db = filepath.Join(r.snap, "db")
	if _, err := os.Stat(r.db); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoMember
	}
	var err error
	if r.lock, err = openDatabase(ctx, r.db, anyBucket); err != nil {
		return nil, err
	}
	if err := r.read(ctx); err != nil {
		r.lock.Close()
		return nil, err
	}
	return r, nil
}

func (r *remains) read(ctx context.Context) error {
	err := guarded(func() error {
		return r.lock.View(func(tx *bbolt.Tx) (err error) {
			r.head, err = readHeader(tx)
			return err
		})
	})
	if err != nil {
		return err
	}
	if r.log, err = readLog(r.walDir, r.head.consistentIndex); err != nil {
		return err
	}
	if err := r.takeSent(ctx); err != nil {
		return err
	}
	h, l := r.head, r.log
	r.Survivor = Survivor{
		Member: l.member, Cluster: l.cluster, Last: l.last,
		Term: l.state.GetTerm(), Commit: l.state.GetCommit(), Torn: l.torn,
		ConsistentIndex: h.consistentIndex, Revision: h.revision,
		StorageVersion: h.storageVersion, ClusterVersion: h.clusterVersion, AuthEnabled: h.authEnabled,
		Removed: slices.Contains(h.removed, l.member),
	}
	// etcd can apply what others have committed before its own log is on disk. Its term
	// is at least that of the log's last entry, and etcd writes it down from 3.5 on.
	if h.consistentIndex > r.Last.Index {
		r.Last = Position{Term: max(h.term, r.Last.Term), Index: h.consistentIndex}
	}
	return r.membership()
}

// takeSent looks for a database that the leader sent and that was not put in
// place yet. etcd does so at its next start, if the log records it.
// Source: storage.RecoverSnapshotBackend.
func (r *remains) takeSent(ctx context.Context) error {
	index := r.log.start.Index
	if index <= r.head.consistentIndex {
		return nil
	}
	sent := filepath.Join(r.snap, fmt.Sprintf("%016x.snap.db", index))
	h, err := peek(ctx, sent)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the log begins at %d, and the database ends at %d", ErrDamaged, index, r.head.consistentIndex)
	}
	if err != nil {
		return err
	}
	if h.consistentIndex < index {
		return fmt.Errorf("%w: the database that was sent ends at %d before %d", ErrDamaged, h.consistentIndex, index)
	}
	r.db, r.head = sent, h
	r.log, err = readLog(r.walDir, h.consistentIndex)
	return err
}

// membership takes the database's members and the changes in the log after it.
func (r *remains) membership() error {
	members := map[cluster.MemberID]cluster.Member{}
	for _, m := range r.head.members {
		members[m.ID] = m
	}
	if r.head.voters != nil { // raft's own list is right where early releases left members behind
		inRaft := map[cluster.MemberID]cluster.Member{}
		for i, id := range slices.Concat(r.head.voters, r.head.learners) {
			m := members[id]
			m.ID, m.Learner = id, i >= len(r.head.voters)
			inRaft[id] = m
		}
		members = inRaft
	}
	for _, c := range r.log.changes {
		if err := apply(members, c.conf); err != nil {
			return err
		}
		if r.leaves(c.conf) {
			r.Leaving = true
		}
	}
	for _, m := range members {
		r.Members = append(r.Members, m)
		if m.ID == r.Member {
			r.Learner = m.Learner
		}
	}
	slices.SortFunc(r.Members, func(a, b cluster.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return nil
}

func (r *remains) leaves(c *raftpb.ConfChange) bool {
	return c.GetType() == raftpb.ConfChangeRemoveNode && c.GetNodeId() == uint64(r.Member)
}

func apply(members map[cluster.MemberID]cluster.Member, c *raftpb.ConfChange) error {
	id := cluster.MemberID(c.GetNodeId())
	if c.GetType() == raftpb.ConfChangeRemoveNode {
		delete(members, id)
		return nil
	}
	m, known := members[id]
	var said storedMember
	if len(c.GetContext()) > 0 {
		if err := json.Unmarshal(c.GetContext(), &said); err != nil {
			return fmt.Errorf("%w: read a change of member %s: %w", ErrDamaged, id, err)
		}
	}
	if m.ID = id; !known || c.GetType() == raftpb.ConfChangeUpdateNode {
		m.PeerURLs = said.PeerURLs
	}
	switch c.GetType() {
	case raftpb.ConfChangeAddNode:
		m.Learner = false
	case raftpb.ConfChangeAddLearnerNode:
		m.Learner = true
	}
	members[id] = m
	return nil
}
