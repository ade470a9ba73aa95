package snapshot

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/regular"
)

// Buckets and keys of etcd's database. Source: server/storage/schema; the
// names have been the same since 3.0, what is newer says so.
const (
	bucketKey            = "key"
	bucketMeta           = "meta"
	bucketLease          = "lease"
	bucketAlarm          = "alarm"
	bucketCluster        = "cluster"
	bucketMembers        = "members"
	bucketMembersRemoved = "members_removed"
	bucketAuth           = "auth"
	bucketUsers          = "authUsers"
	bucketRoles          = "authRoles"

	metaConsistentIndex  = "consistent_index"
	metaTerm             = "term"           // 3.5
	metaConfState        = "confState"      // 3.5
	metaStorageVersion   = "storageVersion" // 3.6
	metaScheduledCompact = "scheduledCompactRev"
	metaFinishedCompact  = "finishedCompactRev"

	clusterVersionKey = "clusterVersion"
	downgradeKey      = "downgrade" // 3.5
	authEnabledKey    = "authEnabled"
)

// lockWait is how long a database may be locked by somebody else: long enough
// for a process that is just ending.
const lockWait = 2 * time.Second

// ErrDamaged says that a file is not, or no longer, what etcd wrote.
var ErrDamaged = errors.New("damaged")

// ErrRunning says that an etcd has the data directory open.
var ErrRunning = errors.New("an etcd is running on it")

// openDatabase opens etcd's database read-only, under a shared lock, for the buckets
// that will be read. What reads more of the keys than the last one holds their pages
// against each other first; see checkAll.
func openDatabase(ctx context.Context, path string, reads func(bucket string) bool) (*bbolt.DB, error) {
	var db *bbolt.DB
	err := guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait, OpenFile: regular.OpenFile})
		return err
	})
	if err == nil {
		err = guarded(func() error {
			return db.View(func(tx *bbolt.Tx) error { return checkPages(ctx, tx, extent{reads: reads}) })
		})
		if err == nil {
			return db, nil
		}
		return nil, errors.Join(err, db.Close())
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrRunning
	case isFileError(err):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
}

func isFileError(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed)
}

// guarded runs what reads a mapped file. A page that the file does not have, or
// that the disk does not give, is a fault of the memory access, and bbolt
// panics over pages that make no sense: both become [ErrDamaged].
func guarded(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return read()
}

// header is what a database says about itself apart from its keys.
type header struct {
	recorded        int64 // the revision of the newest record; 0: there is none
	revision        int64 // of the newest record; 1 when there is none
	scheduled       int64 // compaction begun up to here; -1 never
	finished        int64 // and done up to here; -1 never
	consistentIndex uint64
	term            uint64
	storageVersion  string
	clusterVersion  string
	authEnabled     bool
	users, roles    int
	leases, alarms  int
	members         []cluster.Member // sorted by ID
	removed         []cluster.MemberID
	voters          []cluster.MemberID // of the raft configuration; nil before 3.5
	learners        []cluster.MemberID
}

// compactRevision is what etcd answers after it has opened the database: it
// takes a compaction that was begun for done. Source: mvcc.store.restore.
func (h *header) compactRevision() int64 { return max(h.scheduled, h.finished) }

// readHeader reads the small buckets.
func readHeader(tx *bbolt.Tx) (*header, error) {
	for _, name := range []string{bucketKey, bucketMeta} {
		if tx.Bucket([]byte(name)) == nil {
			return nil, fmt.Errorf("%w: there is no bucket %q, so this is no database of etcd 3", ErrDamaged, name)
		}
	}
	meta := tx.Bucket([]byte(bucketMeta))
	h := &header{revision: 1, scheduled: -1, finished: -1}
	if last, _ := tx.Bucket([]byte(bucketKey)).Cursor().Last(); last != nil {
		rev, err := parseRevision(last)
		if err != nil {
			return nil, err
		}
		h.revision, h.recorded = rev.main, rev.main
	}
	for name, to := range map[string]*int64{metaScheduledCompact: &h.scheduled, metaFinishedCompact: &h.finished} {
		if v := meta.Get([]byte(name)); v != nil {
			rev, err := parseRevision(v)
			if err != nil {
				return nil, fmt.Errorf("%w (%s)", err, name)
			}
			*to = rev.main
		}
	}
	// What etcd begins with when a compaction took the records above, as that of a
	// raised revision does. Source: mvcc.store.restore.
	h.revision = max(h.revision, h.finished)
	for name, to := range map[string]*uint64{metaConsistentIndex: &h.consistentIndex, metaTerm: &h.term} {
		if v := meta.Get([]byte(name)); len(v) == 8 {
			*to = binary.BigEndian.Uint64(v)
		}
	}
	h.storageVersion = string(meta.Get([]byte(metaStorageVersion)))
	h.clusterVersion = string(get(tx, bucketCluster, clusterVersionKey))
	enabled := get(tx, bucketAuth, authEnabledKey)
	h.authEnabled = len(enabled) == 1 && enabled[0] == 1
	for name, to := range map[string]*int{bucketUsers: &h.users, bucketRoles: &h.roles, bucketLease: &h.leases, bucketAlarm: &h.alarms} {
		if b := tx.Bucket([]byte(name)); b != nil {
			*to = b.Stats().KeyN
		}
	}
	return h, readMembers(tx, h)
}

func get(tx *bbolt.Tx, bucket, key string) []byte {
	if b := tx.Bucket([]byte(bucket)); b != nil {
		return b.Get([]byte(key))
	}
	return nil
}

// storedMember is etcd's JSON of a member; the ID is the bucket's key.
type storedMember struct {
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	IsLearner  bool     `json:"isLearner"`
}

func readMembers(tx *bbolt.Tx, h *header) error {
	if b := tx.Bucket([]byte(bucketMembers)); b != nil {
		err := b.ForEach(func(k, v []byte) error {
			id, err := cluster.ParseMemberID(string(k))
			if err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			var m storedMember
			if err := json.Unmarshal(v, &m); err != nil {
				return fmt.Errorf("%w: read member %s: %w", ErrDamaged, id, err)
			}
			h.members = append(h.members, cluster.Member{
				ID: id, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner,
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(h.members, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	if b := tx.Bucket([]byte(bucketMembersRemoved)); b != nil {
		err := b.ForEach(func(k, _ []byte) error {
			id, err := cluster.ParseMemberID(string(k))
			h.removed = append(h.removed, id)
			return err
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return readConfiguration(tx, h)
}

// readConfiguration reads raft's own list of voters and learners.
func readConfiguration(tx *bbolt.Tx, h *header) error {
	v := get(tx, bucketMeta, metaConfState)
	if v == nil {
		return nil
	}
	var conf raftpb.ConfState
	if err := json.Unmarshal(v, &conf); err != nil {
		return fmt.Errorf("%w: read raft's configuration: %w", ErrDamaged, err)
	}
	for _, id := range conf.GetVoters() {
		h.voters = append(h.voters, cluster.MemberID(id))
	}
	for _, id := range conf.GetLearners() {
		h.learners = append(h.learners, cluster.MemberID(id))
	}
	return nil
}
