package kept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// maxWhole bounds a file that is compared between hosts, in bytes: manifests and metas are far smaller.
const maxWhole = 4 << 20

// getWhole gives a small file of a backup that a majority of the voters have alike. A writer finds out by it whether a
// write of unknown outcome is there: any one host's copy would also be found after a write that failed.
func (s *Store) getWhole(ctx context.Context, key string) (*blob.Object, error) {
	voters := s.opt.Voters()
	var mu sync.Mutex
	var copies [][]byte
	var tags []blob.ETag
	absent := 0
	note := func(ctx context.Context, store blob.Store) error {
		data, tag, err := blob.ReadAll(ctx, store, key, maxWhole)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			copies, tags = append(copies, data), append(tags, tag)
		case errors.Is(err, blob.ErrNotFound):
			absent++
		default:
			return err
		}
		return nil
	}
	var failed error
	if slices.Contains(voters, s.opt.Self()) {
		failed = note(ctx, s.opt.Own)
	}
	others := without(voters, s.opt.Self())
	_, silent := s.each(ctx, others, otherTimeout, func(ctx context.Context, _ cluster.HostID, r Remote) error {
		return note(ctx, r)
	})
	for i, data := range copies {
		alike := 0
		for _, other := range copies {
			if bytes.Equal(data, other) {
				alike++
			}
		}
		if most(alike, len(voters)) {
			return &blob.Object{Body: io.NopCloser(bytes.NewReader(data)), ETag: tags[i], Size: int64(len(data))}, nil
		}
	}
	if most(absent, len(voters)) {
		return nil, fmt.Errorf("read %q: %w", key, blob.ErrNotFound)
	}
	return nil, fmt.Errorf("read %q: %d of %d hosts have it and %d lack it, and a backup needs a majority: %w",
		key, len(copies), len(voters), absent, errors.Join(append(silent, failed)...))
}
