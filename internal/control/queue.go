package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Queued is a command of the queue as people look at it.
type Queued struct {
	Command
	// Begun: the record says that it was run.
	Begun bool
	// Until is when it expires unless something was begun or made ready for it; zero: it
	// does not expire.
	Until time.Time
}

// Kind is what a command asks for; empty: it cannot be read.
func (c Command) Kind() cluster.CommandKind {
	switch {
	case c.Restore != nil:
		return cluster.CommandRestore
	case c.Wish != nil:
		return c.Wish.Kind
	}
	return ""
}

// By is who asked for a command; empty: that was not written down.
func (c Command) By() string {
	switch {
	case c.Restore != nil:
		return c.Restore.By
	case c.Wish != nil:
		return c.Wish.By
	}
	return ""
}

// Queue is [Folder.Commands] with what the record says of each. Where the record cannot be
// understood none is taken for begun.
//
// Errors: what the store says.
func Queue(ctx context.Context, f *Folder) ([]Queued, error) {
	all, err := f.Commands(ctx)
	if err != nil {
		return nil, err
	}
	in, _, _, err := f.ReadIntent(ctx)
	if err != nil && !errors.Is(err, ErrOtherCluster) && !errors.Is(err, ErrMalformed) {
		return nil, err
	}
	out := make([]Queued, 0, len(all))
	for _, c := range all {
		q := Queued{Command: c, Begun: in.Ran(c.Name)}
		if kind := c.Kind(); kind != "" && kind != cluster.CommandBackup {
			q.Until = c.Timestamp.Add(cluster.ConsentLasts)
		}
		out = append(out, q)
	}
	return out, nil
}

// Past lists how commands ended, the last one last: those of the list of ended ones, and
// those that only the record has yet, of which the time is that of their queueing.
//
// Errors: what the store says.
func Past(ctx context.Context, f *Folder) ([]Ended, error) {
	all, err := f.EndedCommands(ctx)
	if err != nil {
		return nil, err
	}
	in, _, _, err := f.ReadIntent(ctx)
	if err != nil && !errors.Is(err, ErrOtherCluster) && !errors.Is(err, ErrMalformed) {
		return nil, err
	}
	if in == nil {
		return all, nil
	}
	for _, e := range in.Ended {
		if slices.ContainsFunc(all, func(o Ended) bool { return o.Name == e.Name }) {
			continue
		}
		stamp, _, _ := strings.Cut(e.Name, "Z-")
		at, _ := time.Parse(time.RFC3339, stamp+"Z") // zero: another writer's name
		all = append(all, Ended{Name: e.Name, Result: e.Result, Reason: e.Reason, At: at})
	}
	slices.SortStableFunc(all, func(a, b Ended) int { return a.At.Compare(b.At) })
	return all, nil
}
