package keycopy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// MostRaised is the largest gap that [RaiseTo] closes. Each revision is a write
// of its own: some thousand in a second (2500 to 4000 on two busy cores), and
// about 200 bytes of database each until it is compacted and defragmented.
const MostRaised = 200_000

// ErrGapTooLarge says that the revision is to be raised by more than [MostRaised].
var ErrGapTooLarge = errors.New("the revision is too far away to be raised by writes")

// raiseKeys are the keys that are written to raise the revision, and deleted by
// the last write. They begin with a byte that clients do not use.
const raiseKeys = "\x00etcdadm-raise/"

// raiseWriters is how many such writes are under way.
const raiseWriters = 64

// RaiseTo raises the revision of an etcd of version 3 to at least the given one,
// by writes, and returns what it is then. It is for targets that nobody uses yet
// and for small gaps; a restore that bumps revisions, or internal/snapshot's own
// way, takes no time whatever the gap. A target that is there already is left
// alone. The revisions in between are not compacted here: a watch from one of
// them sees the writes. Errors: [ErrGapTooLarge], [ErrNotEmpty] where the keys to
// write are in use.
func RaiseTo(ctx context.Context, target Endpoint, revision int64) (int64, error) {
	at, err := raised(ctx, target, revision)
	if err != nil {
		return at, fmt.Errorf("raise the revision to %d: %w", revision, err)
	}
	return at, nil
}

func raised(ctx context.Context, target Endpoint, revision int64) (int64, error) {
	to, err := open(ctx, target)
	if err != nil {
		return 0, err
	}
	defer to.close()
	s, is := to.(*v3)
	if !is {
		return 0, fmt.Errorf("%w: the index of version 2 is not a revision", ErrUnsupported)
	}
	at, err := s.position(ctx)
	gap := revision - at
	switch {
	case err != nil || gap <= 0:
		return at, err
	case gap > MostRaised:
		return at, fmt.Errorf("%w: %d revisions", ErrGapTooLarge, gap)
	}
	end := []byte(raiseKeys)
	end[len(end)-1]++
	used, err := s.rangeOnce(ctx, &pb.RangeRequest{Key: []byte(raiseKeys), RangeEnd: end, CountOnly: true})
	if err != nil {
		return at, err
	}
	if used.Count > 0 {
		return at, fmt.Errorf("%w: keys that begin with %q are in use", ErrNotEmpty, raiseKeys)
	}
	// One write at least, so that there is something for the last one to delete.
	if err := s.writeOften(ctx, max(1, gap-1)); err != nil {
		return at, err
	}
	err = s.call(ctx, "delete what was written", func(ctx context.Context) error {
		_, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(raiseKeys), RangeEnd: end})
		return err
	})
	if err != nil {
		return at, err
	}
	return s.position(ctx)
}

// writeOften makes so many writes.
func (s *v3) writeOften(ctx context.Context, times int64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var left atomic.Int64
	left.Store(times)
	var wg sync.WaitGroup
	for i := range int(min(raiseWriters, times)) {
		wg.Go(func() {
			key := fmt.Appendf(nil, "%s%02d", raiseKeys, i)
			for left.Add(-1) >= 0 {
				if err := s.writeOnce(ctx, key); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (s *v3) writeOnce(ctx context.Context, key []byte) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return s.call(ctx, "write a key", func(ctx context.Context) error {
		_, err := s.kv.Put(ctx, &pb.PutRequest{Key: key})
		return err
	})
}
