package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/internal/blob"
)

// object is one of the folder's objects that change by compare-and-swap alone. T is what is in it; absent, it is T's zero value.
// Daemons that do not know the object pass it over.
type object[T any] struct {
	key, what, advice string // what is in it, after "read" and "write"; what a person does where it is damaged
	cache             func(*Folder) *cached
	same              func(a, b T) bool
	lost              bool // an object that is gone is written whatever was seen of it
}

// read gives what is there, and the condition to write it anew on.
//
// Errors: ErrMalformed; what the store says.
func (o object[T]) read(ctx context.Context, f *Folder) (T, blob.Condition, error) {
	var is, none T
	c, err := f.read(ctx, o.key, o.cache(f))
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return none, blob.IfAbsent, nil
	case err != nil:
		return none, "", fmt.Errorf("read %s: %w", o.what, err)
	}
	if err := json.Unmarshal(c.data, &is); err != nil {
		return none, "", malformed(o.key, o.advice, err)
	}
	return is, blob.IfMatch(c.tag), nil
}

// write replaces what was seen.
//
// Errors: ErrConflict where it is another by now; ErrMalformed; what a gate of ctx says (see blob.While); what the store says.
func (o object[T]) write(ctx context.Context, f *Folder, was, now T) error {
	is, on, err := o.read(ctx, f)
	if err != nil {
		return err
	}
	if (on != blob.IfAbsent || !o.lost) && !o.same(is, was) {
		return fmt.Errorf("write %s: %w", o.what, ErrConflict)
	}
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", o.what, err)
	}
	tag, err := f.putOnCondition(ctx, o.key, data, on)
	switch {
	case errors.Is(err, blob.ErrPreconditionFailed):
		return fmt.Errorf("write %s: %w: %w", o.what, ErrConflict, err)
	case err != nil:
		return fmt.Errorf("write %s: %w", o.what, err)
	}
	f.remember(o.cache(f), data, tag)
	return nil
}
