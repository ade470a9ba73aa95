package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
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

// DeleteCommand takes a command out of the queue when a person asks for it. One that asks for a
// generation and was not run is cancelled in the record first: a leader that has decided to
// run it finds that there, and a store that goes back does not bring it to life again.
//
// Errors: ErrNoCommand when it is not in the queue; ErrConflict when the record was written
// again and again meanwhile, and then nothing was deleted; what the store says.
func (f *Folder) DeleteCommand(ctx context.Context, name string) error {
	c, err := queue{f}.known(ctx, name)
	if err != nil {
		return err
	}
	if c.Wish == nil || c.Wish.Kind != cluster.CommandBackup {
		if err := (queue{f}).cancel(ctx, name); err != nil {
			return fmt.Errorf("delete command %q: cancel it in the record of the cluster: %w", name, err)
		}
	}
	return queue{f}.remove(ctx, name)
}

// known is a command that is in the queue, whatever is wrong with it.
func (f queue) known(ctx context.Context, name string) (Command, error) {
	if !commandName.MatchString(name) {
		return Command{}, fmt.Errorf("delete command %q: %w: names look like 2026-11-20T23:17:07Z-000000, see list-commands", name, ErrNoCommand)
	}
	c, err := f.ReadCommand(ctx, name)
	if errors.Is(err, ErrNoCommand) {
		if left, err := f.store.List(ctx, Prefix+name+"/"); err != nil || len(left) == 0 {
			return Command{}, fmt.Errorf("delete command %q: %w", name, cmp.Or(err, ErrNoCommand))
		}
	}
	return c, nil // what cannot be read, or is half there, can be deleted
}

// remove deletes the objects of a command, as many as it can. One that is not there is no error.
func (f queue) remove(ctx context.Context, name string) (err error) {
	for _, file := range []string{fileCommand, fileWish, fileExtra} {
		err = errors.Join(err, f.store.Delete(ctx, Prefix+name+"/"+file))
	}
	if err != nil {
		return fmt.Errorf("delete command %q: %w", name, err)
	}
	return nil
}

// cancel notes in the record that a command is not to be run. Where there is no record
// of ours, or one that this release does not understand, there is nothing to note it in.
func (f queue) cancel(ctx context.Context, name string) error {
	if can, err := f.Probe(ctx); err == nil && !can.Conditional {
		return nil // a write that is not conditional could undo a leader's
	}
	for range cancelTries {
		data, tag, err := blob.ReadAll(ctx, f.store, KeyIntent, maxObject)
		switch {
		case errors.Is(err, blob.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		if err := elsewhere(data); err != nil {
			return err
		}
		in, err := parseIntent(data)
		if err != nil || in.Adopted() || in.Ran(name) {
			return nil
		}
		if _, ended := in.EndOf(name); ended {
			return nil
		}
		in.NoteEnd(cluster.EndedCommand{Name: name, Result: ResultCancelled, Reason: "it was taken out of the queue"})
		in.Write++
		if data, err = json.MarshalIndent(in, "", "  "); err != nil {
			return err
		}
		_, err = f.putOnCondition(ctx, KeyIntent, data, blob.IfMatch(tag))
		switch {
		case err == nil, errors.Is(err, blob.ErrUnsupported):
			return nil
		case errors.Is(err, blob.ErrPreconditionFailed):
			continue
		}
		return err
	}
	return ErrConflict
}

// ResultCancelled is how a command ended that a person took out of the queue.
const ResultCancelled = "cancelled"
