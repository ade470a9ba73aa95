package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

const advicePauses = "move control/etcdadm-paused.json away in the store; then pause the hosts again that should be paused"

// ErrNoPauses is returned where the object that holds the pauses is missing: nobody was
// ever paused, or it is lost. Who knew of a pause tells.
var ErrNoPauses = errors.New("control/etcdadm-paused.json is not in the store")

// pausesFile is the object that holds the pauses. Daemons that know of none pass it over.
type pausesFile struct {
	Paused []cluster.Pause `json:"paused"`
}

// ReadPauses reads which hosts are paused, and were.
//
// Errors: ErrNoPauses; ErrMalformed; what the store says.
func (f *Folder) ReadPauses(ctx context.Context) ([]cluster.Pause, error) {
	all, cond, err := f.readPauses(ctx)
	if err == nil && cond == blob.IfAbsent {
		err = ErrNoPauses
	}
	return all, err
}

func (f *Folder) readPauses(ctx context.Context) ([]cluster.Pause, blob.Condition, error) {
	c, err := f.read(ctx, keyPaused, &f.paused)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, blob.IfAbsent, nil
	case err != nil:
		return nil, "", fmt.Errorf("read which hosts are paused: %w", err)
	}
	var p pausesFile
	if err := json.Unmarshal(c.data, &p); err != nil {
		return nil, "", malformed(keyPaused, advicePauses, err)
	}
	return p.Paused, blob.IfMatch(c.tag), nil
}

// WritePauses writes which hosts are paused, if they are those that were seen, or if the
// object is lost.
//
// Errors: ErrConflict when they are not; ErrMalformed; what a gate of ctx says (see
// blob.While); what the store says.
func (f *Folder) WritePauses(ctx context.Context, was, now []cluster.Pause) error {
	is, cond, err := f.readPauses(ctx)
	if err != nil {
		return err
	}
	if cond != blob.IfAbsent && !cluster.SamePauses(is, was) {
		return fmt.Errorf("write which hosts are paused: %w", ErrConflict)
	}
	data, err := json.MarshalIndent(pausesFile{Paused: append([]cluster.Pause{}, now...)}, "", "  ")
	if err != nil {
		return fmt.Errorf("write which hosts are paused: %w", err)
	}
	tag, err := f.putOnCondition(ctx, keyPaused, data, cond)
	switch {
	case errors.Is(err, blob.ErrPreconditionFailed):
		return fmt.Errorf("write which hosts are paused: %w: %w", ErrConflict, err)
	case err != nil:
		return fmt.Errorf("write which hosts are paused: %w", err)
	}
	f.remember(&f.paused, data, tag)
	return nil
}
