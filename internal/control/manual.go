package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

const adviceManual = "move control/etcdadm-manual.json away in the store; then say again what is wanted: etcdadm auto-manage on, or off"

// ErrNoManual is returned where the object is missing that tells whether self-management is
// off: nobody ever turned it off, or it is lost. Who knew tells.
var ErrNoManual = errors.New("control/etcdadm-manual.json is not in the store")

// manualFile is that object. Daemons that do not know it pass it over.
type manualFile struct {
	Manual *cluster.Manual `json:"manual"` // null: self-management is on
}

// ReadManual reads whether a person has turned self-management off; nil: it is on.
//
// Errors: ErrNoManual; ErrMalformed; what the store says.
func (f *Folder) ReadManual(ctx context.Context) (*cluster.Manual, error) {
	m, cond, err := f.readManual(ctx)
	if err == nil && cond == blob.IfAbsent {
		err = ErrNoManual
	}
	return m, err
}

func (f *Folder) readManual(ctx context.Context) (*cluster.Manual, blob.Condition, error) {
	c, err := f.read(ctx, keyManual, &f.manual)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, blob.IfAbsent, nil
	case err != nil:
		return nil, "", fmt.Errorf("read whether self-management is off: %w", err)
	}
	var m manualFile
	if err := json.Unmarshal(c.data, &m); err != nil {
		return nil, "", malformed(keyManual, adviceManual, err)
	}
	return m.Manual, blob.IfMatch(c.tag), nil
}

// WriteManual turns self-management off, or on with nil, if it is as it was seen, or if the
// object is lost.
//
// Errors: ErrConflict when it is not; ErrMalformed; what a gate of ctx says (see
// blob.While); what the store says.
func (f *Folder) WriteManual(ctx context.Context, was, now *cluster.Manual) error {
	const what = "write whether self-management is off"
	is, cond, err := f.readManual(ctx)
	if err != nil {
		return err
	}
	if cond != blob.IfAbsent && !is.Equal(was) {
		return fmt.Errorf("%s: %w", what, ErrConflict)
	}
	data, err := json.MarshalIndent(manualFile{now}, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	tag, err := f.putOnCondition(ctx, keyManual, data, cond)
	switch {
	case errors.Is(err, blob.ErrPreconditionFailed):
		return fmt.Errorf("%s: %w: %w", what, ErrConflict, err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	f.remember(&f.manual, data, tag)
	return nil
}
