package moving

import (
	"context"
	"errors"
	"io"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// ErrOnItsWay says that the record is not in its new place yet, so that what is there says nothing.
var ErrOnItsWay = errors.New("the control record is on its way into this store")

// Notify implements control.Notifier, where the store does.
func (g gate) Notify(ctx context.Context, prefix string) (<-chan struct{}, error) {
	n, ok := g.store.(control.Notifier)
	if !ok || !g.open() {
		return nil, blob.ErrUnsupported
	}
	return n.Notify(ctx, prefix)
}

// Gate is a store of which nothing is read or written until open says so.
func Gate(store blob.Store, open func() bool) blob.Store { return gate{store, open} }

type gate struct {
	store blob.Store
	open  func() bool
}

func (g gate) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if !g.open() {
		return nil, ErrOnItsWay
	}
	return g.store.Get(ctx, key, o)
}

func (g gate) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	if !g.open() {
		return "", ErrOnItsWay
	}
	return g.store.Put(ctx, key, body, c)
}

func (g gate) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	if !g.open() {
		return nil, ErrOnItsWay
	}
	return g.store.List(ctx, prefix)
}

func (g gate) Delete(ctx context.Context, key string) error {
	if !g.open() {
		return ErrOnItsWay
	}
	return g.store.Delete(ctx, key)
}
