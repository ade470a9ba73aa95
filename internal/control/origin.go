package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

const adviceOrigin = "move control/etcdadm-origin.json away in the store, then say on the host that begins the cluster what it is to begin with: etcdadm init --from-backup NAME, or etcdadm init --empty"

// originFile is the object that says what the first generation is made from. Daemons that do
// not know it pass it over.
type originFile struct {
	Origin *cluster.Origin `json:"origin"` // null: nothing
}

// ReadOrigin reads what the first generation is to be made from, or was; nil: nothing.
//
// Errors: ErrMalformed; what the store says.
func (f *Folder) ReadOrigin(ctx context.Context) (*cluster.Origin, error) {
	o, _, err := f.readOrigin(ctx)
	return o, err
}

func (f *Folder) readOrigin(ctx context.Context) (*cluster.Origin, blob.Condition, error) {
	c, err := f.read(ctx, keyOrigin, &f.origin)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, blob.IfAbsent, nil
	case err != nil:
		return nil, "", fmt.Errorf("read what the cluster begins with: %w", err)
	}
	var o originFile
	if err := json.Unmarshal(c.data, &o); err != nil {
		return nil, "", malformed(keyOrigin, adviceOrigin, err)
	}
	return o.Origin, blob.IfMatch(c.tag), nil
}

// WriteOrigin writes what the first generation is to be made from, nil for nothing, if it is
// what was seen.
//
// Errors: ErrConflict when it is not; ErrMalformed; what the store says.
func (f *Folder) WriteOrigin(ctx context.Context, was, now *cluster.Origin) error {
	const what = "write what the cluster begins with"
	is, cond, err := f.readOrigin(ctx)
	if err != nil {
		return err
	}
	if !is.Equal(was) {
		return fmt.Errorf("%s: %w", what, ErrConflict)
	}
	data, err := json.MarshalIndent(originFile{now}, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	tag, err := f.putOnCondition(ctx, keyOrigin, data, cond)
	switch {
	case errors.Is(err, blob.ErrPreconditionFailed):
		return fmt.Errorf("%s: %w: %w", what, ErrConflict, err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	f.remember(&f.origin, data, tag)
	return nil
}
