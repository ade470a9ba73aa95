package snapshot

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// V2InLog reports whether the log in a member's data directory holds requests of
// version 2 of the API behind its newest raft snapshot. Releases up to 3.5 write
// them even where no client does, to publish a member; 3.7 ends at its start when
// it comes across one. It changes nothing and takes no lock, so the member may be
// running.
func V2InLog(ctx context.Context, dataDir string) (bool, error) {
	dir := filepath.Join(dataDir, "member", "wal")
	names, first, err := logFiles(dir)
	if err != nil {
		return false, fmt.Errorf("look for requests of version 2: %w", err)
	}
	shape := newLogReader(first, math.MaxUint64)
	torn, err := eachRecord(dir, names, untilEnded(ctx, shape.record))
	if err != nil {
		return false, fmt.Errorf("look for requests of version 2: read the log in %s: %w", dir, err)
	}
	log, err := shape.end(torn)
	if err != nil {
		return false, fmt.Errorf("look for requests of version 2: read the log in %s: %w", dir, err)
	}
	found := false
	_, err = eachRecord(dir, names, untilEnded(ctx, func(rec *walpb.Record) error {
		if found || rec.GetType() != wal.EntryType {
			return nil
		}
		var e raftpb.Entry
		if err := proto.Unmarshal(rec.Data, &e); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		found = e.GetIndex() > log.start.Index && e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 && requestOfV2(e.GetData())
		return nil
	}))
	if err != nil {
		return false, fmt.Errorf("look for requests of version 2: %w", err)
	}
	return found, nil
}

// untilEnded is visit, until ctx ends, which is looked at now and then.
func untilEnded(ctx context.Context, visit func(*walpb.Record) error) func(*walpb.Record) error {
	records, bytes := 0, 0
	return func(rec *walpb.Record) error {
		records++
		bytes += len(rec.Data)
		if records >= lookEvery || bytes >= lookEveryBytes {
			records, bytes = 0, 0
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return visit(rec)
	}
}

// requestOfV2: the entry is not a request that 3.7 reads, or it carries one of
// version 2 in the field that 3.7 has no name for any more.
func requestOfV2(data []byte) bool {
	const fieldV2 = 2 // of InternalRaftRequest, until 3.6
	var r etcdserverpb.InternalRaftRequest
	if proto.Unmarshal(data, &r) != nil {
		return true
	}
	for unknown := []byte(r.ProtoReflect().GetUnknown()); len(unknown) > 0; {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 || number == fieldV2 {
			return true
		}
		unknown = unknown[n:]
	}
	return false
}
