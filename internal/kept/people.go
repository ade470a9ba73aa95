package kept

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// People is the store as people look at it: of what each host says for itself, such as the leading daemon's status, it gives
// what was said last by the hosts' clocks, on any host that answers.
type People struct{ *Store }

// Get implements blob.Store.
func (p People) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if !own(key) {
		return p.Store.Get(ctx, key, o)
	}
	newest, err := p.opt.Own.Get(ctx, key, blob.GetOptions{})
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return nil, err
	}
	var mu sync.Mutex
	p.each(ctx, p.others(), otherTimeout, func(ctx context.Context, _ cluster.HostID, r Remote) error {
		object, failed := r.Get(ctx, key, blob.GetOptions{})
		if failed != nil {
			return failed
		}
		mu.Lock()
		defer mu.Unlock()
		if newest != nil && !object.Modified.After(newest.Modified) {
			return object.Body.Close()
		}
		before := newest
		newest = object
		if before == nil {
			return nil
		}
		return before.Body.Close()
	})
	switch {
	case newest == nil:
		return nil, err
	case o.IfNoneMatch != "" && newest.ETag == o.IfNoneMatch:
		return nil, errors.Join(fmt.Errorf("read %q: %w", key, blob.ErrNotModified), newest.Body.Close())
	}
	return newest, nil
}
