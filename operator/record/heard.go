package record

import (
	"context"
	"errors"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// Heard is what a record says of one command.
type Heard struct {
	// Queued: it is in the queue. Running: the daemons are at it.
	Queued, Running bool
	// Backup is what it restores; empty: it restores none.
	Backup string
	// For is what it waits for, in the daemons' words; empty: they have not said.
	For string
	// Ended is how it ended; nil: it has not.
	Ended *control.Ended
	// First is a command in the queue that asks for a new generation, where this one is not there; empty: there is none.
	First string
}

// Hear reads what a record says of a command. told is the daemons' status where it counts; nil: it does not.
func Hear(ctx context.Context, f *control.Folder, command string, told *control.Status) (h Heard, err error) {
	c, gone := f.ReadCommand(ctx, command) // before what ended: that is written before a command leaves the queue
	if gone != nil && !errors.Is(gone, control.ErrNoCommand) {
		return Heard{}, gone
	}
	past, err := control.Past(ctx, f)
	if err != nil {
		return Heard{}, err
	}
	if i := slices.IndexFunc(past, func(e control.Ended) bool { return e.Name == command }); i >= 0 {
		h.Ended = &past[i]
		return h, nil
	}
	in, _, _, err := f.ReadIntent(ctx)
	switch {
	case err != nil:
		return Heard{}, err
	case gone != nil && in.Ran(command): // what is told of its end was lost, and the generation was made
		h.Ended = &control.Ended{Name: command, Result: "done"}
		if in.CommandID == command {
			h.Ended.Backup = in.Source.Backup
		}
		return h, nil
	case gone != nil:
		h.First, err = first(ctx, f)
		return h, err
	}
	h.Queued, h.Running = true, in.Ran(command)
	if c.Restore != nil {
		h.Backup = c.Restore.Backup
	}
	if told != nil {
		for _, c := range told.Commands {
			if c.Command == command {
				h.Running, h.For = h.Running || c.Running, c.For
			}
		}
	}
	return h, nil
}

// first is the first command of the queue that asks for a new generation, or of which nobody knows what it asks for.
func first(ctx context.Context, f *control.Folder) (string, error) {
	queued, err := f.Commands(ctx)
	for _, c := range queued {
		if c.Wish == nil || c.Wish.Kind != cluster.CommandBackup {
			return c.Name, nil
		}
	}
	return "", err
}
