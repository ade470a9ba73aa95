package control

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
)

// BegunError says that a command was run before it could be withdrawn.
type BegunError struct {
	Name string
	// Generation is the one that was written down for the command; zero: the cluster has
	// gone on to another one since.
	Generation uint64
}

func (e *BegunError) Error() string {
	if e.Generation == 0 {
		return fmt.Sprintf("command %s has begun already, and another generation was made since", e.Name)
	}
	return fmt.Sprintf("command %s has begun already: generation %d was written down for it", e.Name, e.Generation)
}

// Hint is the way back, which is a command of its own.
func (e *BegunError) Hint() string {
	return "etcdadm status tells how far it is; etcdadm restore --undo goes back to what it sets aside"
}

// Withdraw is [Folder.DeleteCommand] for a command that has not begun: one that has stays
// as it is, and so does one of which that is not known. A backup that a host takes already
// goes on. What was withdrawn is returned.
//
// Errors: ErrNoCommand when it is not in the queue; [*BegunError]; ErrConflict when the
// record was written again and again meanwhile; ErrMalformed when the record cannot be
// understood; what the store says.
func Withdraw(ctx context.Context, f *Folder, name string) (Command, error) {
	c, err := queue{f}.known(ctx, name)
	if err != nil {
		return c, err
	}
	if err := begun(ctx, f, name); err != nil {
		return c, err
	}
	if c.Wish == nil || c.Wish.Kind != cluster.CommandBackup {
		if err := (queue{f}).cancel(ctx, name); err != nil {
			return c, fmt.Errorf("withdraw command %q: cancel it in the record of the cluster: %w", name, err)
		}
		// The leader may have written its generation between the look and the cancellation,
		// which notes nothing then.
		if err := begun(ctx, f, name); err != nil {
			return c, err
		}
	}
	return c, queue{f}.remove(ctx, name)
}

// begun says whether the record has it that a command was run, or why that is not known.
func begun(ctx context.Context, f *Folder, name string) error {
	in, _, _, err := f.ReadIntent(ctx)
	switch {
	case err != nil && !errors.Is(err, ErrOtherCluster):
		return fmt.Errorf("withdraw command %q: whether it has begun is not known: %w", name, err)
	case !in.Ran(name):
		return nil
	case in.CommandID == name:
		return &BegunError{Name: name, Generation: in.Generation}
	}
	return &BegunError{Name: name}
}
