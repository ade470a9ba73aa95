package snapshot

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/release"
)

// ExtractOptions say whose data become a snapshot.
type ExtractOptions struct {
	DataDir string          // of the stopped member; is not changed
	File    string          // the snapshot to be made; its parent is there and nothing has its name
	Release release.Release // the version that the member ran

	files durable.Files // for tests; nil: this machine's
}

// Extracted is the snapshot of a survivor.
type Extracted struct {
	Survivor Survivor `json:"survivor"` // as it was found
	Info     Info     `json:"info"`     // of the snapshot
	// Applied is the number of entries that the log had and the database had not.
	Applied uint64 `json:"applied"`
	Again   bool   `json:"again,omitempty"` // the file was there, from the same survivor
}

// Extract makes a snapshot of all that a survivor has: every entry of its log
// counts as committed (SAFETY.md, rule 15). Nobody can know which of the last
// ones were acknowledged, and an entry that is applied without need does no
// harm, while one that is dropped may have been promised to a client.
//
// The entries are applied by an etcd of the survivor's version, on a copy: the
// database, raft's snapshots, and a log that is written anew with the commit
// raised to its last entry. That log names a cluster ID that was never used, so
// members of the old cluster that are still alive somewhere refuse the copy, and
// it cannot acknowledge anything in the survivor's name. As everything is
// committed already, no election is needed, nothing is decided, and no lease
// ends. When etcd has cut a raft snapshot behind the last entry, its database
// has all of them on disk (it says so in EtcdServer.snapshot); it is killed, and the
// database with its hash behind it is the snapshot.
func Extract(ctx context.Context, o ExtractOptions) (Extracted, error) {
	e, err := extract(ctx, o)
	if err != nil {
		return Extracted{}, fmt.Errorf("extract a snapshot from %s: %w", o.DataDir, err)
	}
	return e, nil
}

func extract(ctx context.Context, o ExtractOptions) (e Extracted, err error) {
	if o.File, err = filepath.Abs(o.File); err != nil {
		return Extracted{}, err
	}
	r, err := openRemains(ctx, o.DataDir)
	if err != nil {
		return Extracted{}, err
	}
	defer r.close()
	if _, err := os.Lstat(o.File); !errors.Is(err, fs.ErrNotExist) {
		return extractedBefore(ctx, r, o.File)
	}
	s, err := openSite(ctx, o.File+".extracting")
	if err != nil {
		return Extracted{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	e.Survivor = r.Survivor
	db := s.path("db")
	// What comes in the log after its own removal is not this member's.
	if r.Removed || r.ConsistentIndex >= r.Last.Index {
		err = copyDatabase(ctx, r, db)
	} else {
		e.Applied = r.Last.Index - r.ConsistentIndex
		db, err = applyRest(ctx, r, s, o.Release)
	}
	if err != nil {
		return Extracted{}, err
	}
	if err := appendHash(ctx, db); err != nil {
		return Extracted{}, err
	}
	if e.Info, err = Verify(ctx, db); err != nil {
		return Extracted{}, err
	}
	return e, publish(durable.On(o.files), db, o.File)
}

// extractedBefore looks whether a file that is there is what would be made. It
// appears whole only, so an earlier call may have got that far.
func extractedBefore(ctx context.Context, r *remains, file string) (Extracted, error) {
	info, err := Verify(ctx, file)
	if err != nil {
		return Extracted{}, errors.Join(ErrExists, err)
	}
	own := slices.ContainsFunc(info.Members, func(m cluster.Member) bool { return m.ID == r.Member })
	end := r.Last.Index
	if r.Removed {
		end = r.ConsistentIndex // nothing of its log is applied
	}
	if !own && !r.Removed || info.ConsistentIndex < end || info.ConsistentIndex > end+padding || info.Revision < r.Revision {
		return Extracted{}, fmt.Errorf("%w: a snapshot that was not made of this member's data", ErrExists)
	}
	return Extracted{Survivor: r.Survivor, Info: info, Again: true}, nil
}

func copyDatabase(ctx context.Context, r *remains, to string) error {
	info, err := os.Stat(r.db)
	if err != nil {
		return err
	}
	if err := needSpace(filepath.Dir(to), info.Size()+sector); err != nil {
		return err
	}
	return copyFile(ctx, r.db, to)
}

// copyFile makes a real copy; the kernel shares the blocks where the file
// system can, and parts them again at the first write.
func copyFile(ctx context.Context, from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copyAll(ctx, dst, src, nil), dst.Close())
}

// applyRest returns the path of the copied database after etcd has applied all.
func applyRest(ctx context.Context, r *remains, s *site, rel release.Release) (string, error) {
	data := s.path("data")
	if err := copyRemains(ctx, r, data); err != nil {
		return "", err
	}
	if err := rewriteLog(ctx, r, filepath.Join(data, "member", "wal")); err != nil {
		return "", err
	}
	// It is to apply what it has, not to look for others: the first election
	// lies beyond the time that this takes.
	flags := []string{"--heartbeat-interval=500", "--election-timeout=50000", "--snapshot-count=1"}
	srv, err := startServer(rel, s, data, append(flags, learnersFlag(rel)...)...)
	if err != nil {
		return "", err
	}
	defer srv.kill()
	snap := filepath.Join(data, "member", "snap")
	if err := srv.applied(ctx, snap, r.Last.Index, ServesWithin(data)); err != nil {
		return "", err
	}
	srv.kill()
	db := filepath.Join(snap, "db")
	h, err := peek(ctx, db)
	if err != nil {
		return "", err
	}
	if h.consistentIndex < r.Last.Index {
		return "", fmt.Errorf("the throw-away etcd stopped at entry %d before %d", h.consistentIndex, r.Last.Index)
	}
	return db, nil
}

// learnersFlag has etcd accept as many learners as the member did: it judges the
// changes of membership in the log anew, and one that it refuses, though members
// began on it, ends it at the next entry about that member. Source: etcd's
// RaftCluster.ValidateConfigurationChange, which is asked while entries are applied.
func learnersFlag(r release.Release) []string {
	if v, err := cluster.ParseVersion(r.Version); err == nil && v.Has(cluster.MaxLearnersFlag) {
		return []string{fmt.Sprintf("%s=%d", cluster.MaxLearnersFlag, v.MaxLearners())}
	}
	return nil
}

// newestSnapshot is the highest index of raft's snapshots in a directory.
func newestSnapshot(dir string) (newest uint64, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.snap"))
	for _, name := range names {
		var term, index uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "%016x-%016x.snap", &term, &index); err == nil {
			newest = max(newest, index)
		}
	}
	return newest, err
}

// copyRemains copies what etcd reads at its start, except for the log.
func copyRemains(ctx context.Context, r *remains, data string) error {
	snap := filepath.Join(data, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		return err
	}
	// r.db is put where it belongs, so a database that was sent needs no step of etcd's.
	files := map[string]string{filepath.Join(snap, "db"): r.db}
	marks, err := filepath.Glob(filepath.Join(r.snap, "*.snap"))
	if err != nil {
		return err
	}
	for _, m := range marks {
		files[filepath.Join(snap, filepath.Base(m))] = m
	}
	need := int64(spareSpace)
	for _, from := range files { // any order: a sum
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		need += info.Size()
	}
	if err := needSpace(data, need); err != nil {
		return err
	}
	for to, from := range files { // any order: all are copied
		if err := copyFile(ctx, from, to); err != nil {
			return err
		}
	}
	return nil
}

// padding is the number of empty entries behind the last one. etcd cuts a raft
// snapshot when it has applied more than --snapshot-count entries since the last,
// and that is at least 1: two more make sure that one is cut behind the last.
const padding = 2

// Entries are written to the new log in batches of about this size.
const (
	batchBytes   = 4 << 20
	batchEntries = 4096
)

// rewriteLog writes a log with the survivor's entries since its newest raft
// snapshot, under another cluster ID, with the last one committed.
func rewriteLog(ctx context.Context, r *remains, dir string) error {
	owner, err := proto.Marshal(&etcdserverpb.Metadata{
		NodeID: new(uint64(r.Member)), ClusterID: new(uint64(unusedClusterID(r.Cluster))),
	})
	if err != nil {
		return err
	}
	w, err := wal.Create(nil, dir, owner)
	if err != nil {
		return err
	}
	w.SetUnsafeNoFsync() // thrown away
	err = writeEntries(ctx, r, w)
	return errors.Join(err, w.Close())
}

func unusedClusterID(not cluster.ClusterID) cluster.ClusterID {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := cluster.ClusterID(binary.BigEndian.Uint64(b[:])); id != 0 && id != not {
			return id
		}
	}
}

func writeEntries(ctx context.Context, r *remains, w *wal.WAL) error {
	start := r.log.start
	if start.record != nil && start.Index > 0 {
		if start.record.ConfState == nil { // before 3.5; not read by such an etcd either, but required by the writer
			start.record.ConfState = &raftpb.ConfState{Voters: []uint64{uint64(r.Member)}}
		}
		if err := w.SaveSnapshot(start.record); err != nil {
			return err
		}
	}
	names, _, err := logFiles(r.walDir)
	if err != nil {
		return err
	}
	c := entryCopier{r: r, w: w}
	if _, err := eachRecord(r.walDir, names, func(rec *walpb.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.record(rec)
	}); err != nil {
		return err
	}
	for n := range uint64(padding) {
		c.batch = append(c.batch, &raftpb.Entry{
			Type: raftpb.EntryNormal.Enum(), Term: new(r.Last.Term), Index: new(r.Last.Index + 1 + n),
		})
	}
	return w.Save(&raftpb.HardState{
		Term: new(max(r.Term, r.Last.Term)), Vote: new(r.log.state.GetVote()), Commit: new(r.Last.Index + padding),
	}, c.batch)
}

// entryCopier copies the entries that are part of the log, in the order in which
// they were written; later ones replace earlier ones in the new log, too.
type entryCopier struct {
	r     *remains
	w     *wal.WAL
	count int
	batch []*raftpb.Entry
	bytes int
}

func (c *entryCopier) record(rec *walpb.Record) error {
	if c.count++; rec.GetType() != wal.EntryType || c.count <= c.r.log.fresh {
		return nil
	}
	e := &raftpb.Entry{}
	if err := proto.Unmarshal(rec.Data, e); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if e.GetIndex() <= c.r.log.start.Index {
		return nil
	}
	if err := c.stay(e); err != nil {
		return err
	}
	c.batch, c.bytes = append(c.batch, e), c.bytes+len(rec.Data)
	if c.bytes < batchBytes && len(c.batch) < batchEntries {
		return nil
	}
	err := c.w.Save(&raftpb.HardState{}, c.batch)
	c.batch, c.bytes = c.batch[:0], 0
	return err
}

// stay empties an entry that removes the survivor itself. It may never have
// been committed, and an etcd that applies it stops before what comes after.
func (c *entryCopier) stay(e *raftpb.Entry) error {
	if e.GetType() != raftpb.EntryConfChange || e.GetIndex() <= c.r.ConsistentIndex {
		return nil
	}
	var conf raftpb.ConfChange
	if err := proto.Unmarshal(e.GetData(), &conf); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if c.r.leaves(&conf) {
		e.Type, e.Data = raftpb.EntryNormal.Enum(), nil
	}
	return nil
}

// appendHash makes a snapshot of a database as the Snapshot call would send it. It
// syncs nothing: see publish.
func appendHash(ctx context.Context, db string) error {
	f, err := os.OpenFile(db, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size()%sector != 0 {
		return fmt.Errorf("%w: a database of %d bytes", ErrDamaged, info.Size())
	}
	sum, err := hash(ctx, f, nil)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(sum, info.Size())
	return err
}
