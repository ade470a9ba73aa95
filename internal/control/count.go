package control

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// AskForMembers is a member count for a command to carry, over the spec as it
// is now: who changes the spec later has the last word.
//
// Errors: cluster.ErrSpec when the count cannot be right for this spec;
// ErrNoSpec; as for ReadSpec.
func (f *Folder) AskForMembers(ctx context.Context, members int) (*cluster.CountChange, error) {
	read, err := f.ReadSpec(ctx)
	switch {
	case err != nil:
		return nil, err
	case read.Spec == nil:
		return nil, fmt.Errorf("ask for %d members: %w", members, ErrNoSpec)
	}
	c := &cluster.CountChange{Members: members, Was: read.Spec.MemberCount, Version: read.Spec.EtcdVersion}
	if err := c.Apply(*read.Spec).Validate(); err != nil {
		return nil, fmt.Errorf("ask for %d members: %w", members, err)
	}
	return c, nil
}

// ErrNoSpec says that the store has no spec.
var ErrNoSpec = errors.New("there is no spec in this store")

// PutCount writes a count that a command asked for into the spec, if that still
// is the one that the count was to change, and lifts the hold on it first: until
// the spec was written the count of the intent is in force. The rest of the spec
// stays as it is.
//
// Errors: ErrConflict, with the spec as it was, when somebody changed it;
// ErrMalformed; what the store says, and then it may have been written.
func (f *Folder) PutCount(ctx context.Context, count *cluster.CountChange) error {
	c, err := f.read(ctx, keySpec, &f.spec)
	if err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	read, err := parseSpec(c.data)
	if err != nil {
		return err
	}
	if !count.Over(read.Spec) {
		return fmt.Errorf("write the member count of a command: %w", ErrConflict)
	}
	if err := f.Settings().Hold(ctx, false); err != nil {
		return err
	}
	_, err = f.putOnCondition(ctx, keySpec, formatSpec(count.Apply(*read.Spec)), blob.IfMatch(c.tag))
	if errors.Is(err, blob.ErrPreconditionFailed) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("write the member count of a command: %w", err)
	}
	return nil
}
