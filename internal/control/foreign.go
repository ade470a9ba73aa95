package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// MarkForeign makes the store one of a cluster that another program founded, as
// etcd-manager leaves it: a marker with nothing but a time in it, and a spec, where
// there is none. The marker comes first: daemons of ours that run already would found
// a cluster of their own on a spec without one. What is there stays as it is, the
// marker of etcd-manager included.
//
// Errors: ErrConflict (there is a record of ours), what the store says.
func (f *Folder) MarkForeign(ctx context.Context, spec cluster.Spec, at time.Time) error {
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("mark the store: %w", err)
	}
	if err := f.putMarker(ctx, fmt.Appendf(nil, `{"timestamp":%d}`, at.UnixNano())); err != nil {
		return fmt.Errorf("mark the store: %w", err)
	}
	_, err := blob.PutBytes(ctx, f.store, keySpec, formatSpec(spec), blob.IfAbsent)
	if err != nil && !errors.Is(err, blob.ErrPreconditionFailed) {
		return fmt.Errorf("mark the store: write the spec: %w", err)
	}
	return nil
}

// MarkToJoin makes the store one of a cluster that hosts of ours are to join, and of which nothing is known yet: in the face of its
// marker no daemon founds. Releases that do not know what the marker says take it for etcd-manager's, and found as little.
//
// Errors: ErrConflict (there is a record of ours), what the store says.
func (f *Folder) MarkToJoin(ctx context.Context, at time.Time) error {
	if err := f.putMarker(ctx, fmt.Appendf(nil, `{"timestamp":%d,"joins":true}`, at.UnixNano())); err != nil {
		return fmt.Errorf("mark the store: %w", err)
	}
	return nil
}

func (f *Folder) putMarker(ctx context.Context, marker []byte) error {
	_, err := blob.PutBytes(ctx, f.store, KeyIntent, marker, blob.IfAbsent)
	if err == nil {
		return nil
	}
	in, _, _, readErr := f.ReadIntent(ctx)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case in.Adopted():
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConflict, err)
}
