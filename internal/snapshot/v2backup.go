package snapshot

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
)

// backupTries is how often the log of a running member is read anew: until what it
// had told is on its disk, or what it was writing is whole.
const backupTries = 40

// backupPause is between two of these looks: longer than a sync of etcd's log takes.
const backupPause = 50 * time.Millisecond

// ErrBehind says that the log of a member did not come to where it was to.
var ErrBehind = errors.New("the log on the disk does not go as far as the member said")

// BackupV2 makes what `etcdctl backup` of etcd 2 makes: a data directory with raft's
// snapshot and the log behind it, under IDs that nobody ever had, so that only
// --force-new-cluster begins with it. The member may be running.
//
// It ends exactly at an entry that the caller knows to be committed, such as the
// index that a read through a quorum told: no entry up to there is missing, and none
// is in it that may have been dropped later; or at the newest raft snapshot, if that
// is beyond. etcdctl takes whatever the log holds, which on a follower can lack
// what was acknowledged. etcd writes to its log how far it is committed with the next
// entry: push has it write one. Nothing may be at the place of the backup.
func BackupV2(ctx context.Context, dataDir, to string, committed uint64, push func(context.Context) error) (Position, error) {
	fail := func(err error) (Position, error) {
		return Position{}, fmt.Errorf("back up the data of etcd 2 in %s: %w", dataDir, err)
	}
	_, newest, err := sizesV2(dataDir)
	if err == nil {
		err = needSpace(filepath.Dir(to), newest)
	}
	if err != nil {
		return fail(err)
	}
	for range backupTries {
		var at Position
		if at, err = backupV2(ctx, dataDir, to, committed); err == nil {
			return at, nil
		}
		// A file was taken away, a record is not whole yet, or the end is not there yet.
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrBehind) {
			return fail(err)
		}
		if e := os.RemoveAll(to); e != nil { // of this very call
			return fail(e)
		}
		if errors.Is(err, ErrBehind) {
			if e := push(ctx); e != nil {
				return fail(fmt.Errorf("have the member write its log: %w", e))
			}
		}
		if !wake.After(ctx, backupPause) {
			return fail(errors.Join(ctx.Err(), err))
		}
	}
	return fail(err)
}

func backupV2(ctx context.Context, dataDir, to string, committed uint64) (Position, error) {
	from := filepath.Join(dataDir, "member")
	r := &remains{walDir: filepath.Join(from, "wal"), snap: filepath.Join(from, "snap")}
	names, read, err := readFiles(r.walDir)
	if err != nil {
		return Position{}, err
	}
	r.log = &read.raftLog
	// What etcd has written down as committed stands before that in its log, for good.
	if c := r.log.state.GetCommit(); c < committed || r.log.last.Index < committed {
		return Position{}, fmt.Errorf("%w: to entry %d, committed to %d, of %d", ErrBehind, r.log.last.Index, c, committed)
	}
	r.Survivor = Survivor{Member: r.log.member, Cluster: r.log.cluster, Term: r.log.state.GetTerm()}
	snaps, log := filepath.Join(to, "member", "snap"), filepath.Join(to, "member", "wal")
	if err := errors.Join(os.MkdirAll(snaps, 0o700), os.Mkdir(log, 0o700)); err != nil {
		return Position{}, err
	}
	if err := r.copySnapshotV2(ctx, snaps); err != nil {
		return Position{}, err
	}
	r.Last.Index = max(committed, r.log.start.Index)
	if err := rewriteLogV2(ctx, r, names, log, newIdentity(r)); err != nil {
		return Position{}, err
	}
	return VerifyV2(to)
}

// newIdentity is one that nobody ever had.
func newIdentity(r *remains) *etcdserverpb.Metadata {
	return &etcdserverpb.Metadata{NodeID: new(unusedMemberID(r.Member)), ClusterID: new(uint64(unusedClusterID(r.Cluster)))}
}

func unusedMemberID(not cluster.MemberID) uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := binary.BigEndian.Uint64(b[:]); id != 0 && id != uint64(not) {
			return id
		}
	}
}

// VerifyV2 reads a backup directory of etcd 2 to its end, and tells where that is:
// the raft snapshot is there that the log goes on from, it agrees with its checksum,
// and so does each record of the log, in which no entry behind it is missing. Errors
// wrap [ErrDamaged]. It does not look at what the entries ask for: an etcd does.
func VerifyV2(dir string) (Position, error) {
	at, err := verifyV2(filepath.Join(dir, "member"))
	if err != nil {
		return Position{}, fmt.Errorf("verify a backup of etcd 2: %w", err)
	}
	return at, nil
}

func verifyV2(member string) (Position, error) {
	_, log, err := readFiles(filepath.Join(member, "wal"))
	if errors.Is(err, os.ErrNotExist) {
		return Position{}, fmt.Errorf("%w: there is no log", ErrDamaged)
	}
	if err != nil {
		return Position{}, err
	}
	start := log.start.Position
	if len(log.runs) > 0 && log.runs[0].first > start.Index+1 {
		return Position{}, fmt.Errorf("%w: its log begins with entry %d, and its snapshot ends with %d", ErrDamaged, log.runs[0].first, start.Index)
	}
	if start.Index == 0 {
		return log.last, nil
	}
	err = verifyRaft(filepath.Join(member, "snap", raftFile(start)), start)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Position{}, err
	}
	return log.last, nil
}

// readFiles reads a log, and tells of which files it was.
func readFiles(dir string) ([]string, *logReader, error) {
	names, first, err := logFiles(dir)
	if err != nil {
		return nil, nil, err
	}
	r := newLogReader(first, 0)
	torn, err := eachRecord(dir, names, r.record)
	if err != nil {
		return nil, nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	_, err = r.end(torn)
	return names, r, err
}
