package snapshot

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
)

// ReviveV2 copies what a stopped member of etcd 2 left, so that an etcd of its
// version, started on the copy as a cluster of one (--force-new-cluster), has every
// entry of its log, for the reason of [Extract]: the log is written anew, with its
// last entry committed, under a cluster ID that was never used. The source is not
// changed; on a running member it is [ErrRunning].
func ReviveV2(ctx context.Context, dataDir, to string) (Position, error) {
	last, err := reviveV2(ctx, dataDir, to)
	if err != nil {
		return Position{}, fmt.Errorf("revive the data of etcd 2 in %s: %w", dataDir, err)
	}
	return last, nil
}

func reviveV2(ctx context.Context, dataDir, to string) (Position, error) {
	from := filepath.Join(dataDir, "member")
	r := &remains{walDir: filepath.Join(from, "wal"), snap: filepath.Join(from, "snap")}
	if _, err := os.Stat(r.walDir); errors.Is(err, os.ErrNotExist) {
		return Position{}, ErrNoMember
	}
	names, _, err := logFiles(r.walDir)
	if err != nil {
		return Position{}, err
	}
	held, err := holdV2(r.walDir, names)
	if err != nil {
		return Position{}, err
	}
	defer held.Close()
	if r.log, err = readLog(r.walDir, 0); err != nil {
		return Position{}, err
	}
	r.Survivor = Survivor{Member: r.log.member, Cluster: r.log.cluster, Last: r.log.last, Term: r.log.state.GetTerm()}
	snap, log := filepath.Join(to, "member", "snap"), filepath.Join(to, "member", "wal")
	if err := errors.Join(os.MkdirAll(snap, 0o700), os.Mkdir(log, 0o700)); err != nil {
		return Position{}, err
	}
	if err := r.copySnapshotV2(ctx, snap); err != nil {
		return Position{}, err
	}
	owner := &etcdserverpb.Metadata{NodeID: new(uint64(r.Member)), ClusterID: new(uint64(unusedClusterID(r.Cluster)))}
	return r.Last, rewriteLogV2(ctx, r, names, log, owner)
}

// holdV2 takes the lock that a running etcd has on the newest file of its log.
func holdV2(dir string, names []string) (*os.File, error) {
	if len(names) == 0 {
		return nil, ErrNoMember
	}
	f, err := os.Open(filepath.Join(dir, names[len(names)-1]))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %w", ErrRunning, err)
	}
	return f, nil
}

// copySnapshotV2 copies raft's snapshot, in which etcd 2 keeps its keys, from
// which the log is to go on. etcd records one in the log before it writes it, and
// writes it under its name, so the newest may be missing, or be half a file; then it
// is the one before, if the log goes back that far. Source: storage.SaveSnap and
// Snapshotter.save of 2.3.8.
func (r *remains) copySnapshotV2(ctx context.Context, to string) error {
	files, err := filepath.Glob(filepath.Join(r.snap, "*.snap"))
	if err != nil {
		return err
	}
	var found []Position
	for _, f := range files {
		var p Position
		if _, err := fmt.Sscanf(filepath.Base(f), "%016x-%016x.snap", &p.Term, &p.Index); err == nil && p.Index > 0 && p.Index <= r.log.start.Index {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Position) int { return cmp.Compare(b.Index, a.Index) })
	var damaged error
	for _, p := range found {
		name := raftFile(p)
		err := verifyRaft(filepath.Join(r.snap, name), p)
		if errors.Is(err, ErrDamaged) {
			damaged = errors.Join(damaged, err)
			continue
		}
		if err == nil {
			err = r.beginAt(p, damaged)
		}
		if err != nil {
			return err
		}
		return copyFile(ctx, filepath.Join(r.snap, name), filepath.Join(to, name))
	}
	return r.beginAt(Position{}, damaged)
}

// beginAt has the log go on from a raft snapshot, if it has every entry behind it.
func (r *remains) beginAt(p Position, damaged error) error {
	if p.Index < r.log.start.Index && p.Index+1 < r.log.first {
		return errors.Join(fmt.Errorf("%w: its log begins with entry %d, and the newest raft snapshot that is whole ends with %d", ErrDamaged, r.log.first, p.Index), damaged)
	}
	r.log.start = position{Position: p}
	return nil
}

// rewriteLogV2 writes one file with the entries since the newest raft snapshot up to
// the last one, which is committed in it.
func rewriteLogV2(ctx context.Context, r *remains, names []string, dir string, owner *etcdserverpb.Metadata) error {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%016x-%016x.wal", 0, 0)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := &v2Log{w: f}
	if err := w.copy(ctx, r, names, owner); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// v2Log writes records as etcd 2 reads them: the length in eight bytes, and the
// record, without the padding that etcd 3 puts behind it. Source: wal/encoder.go
// and wal/decoder.go of 2.3.8.
type v2Log struct {
	w   io.Writer
	crc uint32 // of all data so far
	buf []byte
}

func (w *v2Log) record(kind int64, data []byte) error {
	w.crc = crc32.Update(w.crc, crc32.MakeTable(crc32.Castagnoli), data)
	rec := &walpb.Record{Type: &kind, Crc: new(w.crc), Data: data}
	b, err := proto.Marshal(rec)
	if err != nil {
		return err
	}
	w.buf = append(binary.LittleEndian.AppendUint64(w.buf[:0], uint64(len(b))), b...)
	_, err = w.w.Write(w.buf)
	return err
}

func (w *v2Log) message(kind int64, m proto.Message) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return w.record(kind, data)
}

func (w *v2Log) copy(ctx context.Context, r *remains, names []string, owner *etcdserverpb.Metadata) error {
	start := r.log.start
	err := errors.Join(
		w.record(wal.CrcType, nil),
		w.message(wal.MetadataType, owner),
		w.message(wal.SnapshotType, &walpb.Snapshot{Index: new(start.Index), Term: new(start.Term)}),
	)
	if err != nil {
		return err
	}
	count := 0
	_, err = eachRecord(r.walDir, names, func(rec *walpb.Record) error {
		if count++; rec.GetType() != wal.EntryType || count <= r.log.fresh {
			return ctx.Err()
		}
		var e raftpb.Entry
		if err := proto.Unmarshal(rec.Data, &e); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if e.GetIndex() <= start.Index || e.GetIndex() > r.Last.Index {
			return nil
		}
		if e.GetType() == raftpb.EntryConfChange && removes(&e, cluster.MemberID(owner.GetNodeID())) {
			return w.message(wal.EntryType, &raftpb.Entry{Type: raftpb.EntryNormal.Enum(), Term: e.Term, Index: e.Index})
		}
		return w.record(wal.EntryType, rec.Data)
	})
	if err != nil {
		return err
	}
	return w.message(wal.StateType, &raftpb.HardState{
		Term: new(max(r.Term, r.Last.Term)), Vote: new(r.log.state.GetVote()), Commit: new(r.Last.Index),
	})
}

// removes says whether an entry removes a member: then it may never have been
// committed, and an etcd that applies it stops before what comes after.
func removes(e *raftpb.Entry, id cluster.MemberID) bool {
	var conf raftpb.ConfChange
	return proto.Unmarshal(e.GetData(), &conf) == nil &&
		conf.GetType() == raftpb.ConfChangeRemoveNode && conf.GetNodeId() == uint64(id)
}
