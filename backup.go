package etcdadm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/sources"
)

const (
	// storeTimeout bounds the opening of a store, and a question to it.
	storeTimeout = 30 * time.Second
	// usualCommand is how long a command is waited for where the context has no deadline.
	usualCommand = 10 * time.Minute
)

// Backups lists the backups of the cluster, the newest first. A bucket is opened with the credentials that are in this
// program's environment, as the commands do it.
//
// Errors: ErrNoDaemon; ErrNoLeader; the context's; what the store says.
func (c *Client) Backups(ctx context.Context) ([]cluster.Backup, error) {
	store, err := c.store(ctx, cluster.StoreView.BackupsURL)
	if err != nil {
		return nil, err
	}
	catalogue := backupstore.New(store)
	entries, err := catalogue.List(ctx)
	if err != nil {
		return nil, err
	}
	described, err := catalogue.Describe(ctx, entries)
	if err != nil {
		return nil, err
	}
	out := make([]cluster.Backup, 0, len(described))
	for _, b := range described {
		out = append(out, sources.AsBackup(b))
	}
	return out, nil
}

// Backup has the leading daemon take a backup, and waits for its end: until the context's, or ten minutes where it has
// no deadline.
//
// Errors: ErrFailed, with why; ErrWaiting, and the command stays in the queue; as for [Client.Backups].
func (c *Client) Backup(ctx context.Context) (cluster.Backup, error) {
	store, err := c.store(ctx, cluster.StoreView.BackupsURL)
	if err != nil {
		return cluster.Backup{}, err
	}
	record, err := c.store(ctx, recordURL)
	if err != nil {
		return cluster.Backup{}, err
	}
	f := control.New(record, "")
	name, err := within(ctx, func(ctx context.Context) (string, error) {
		return f.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup, By: c.by})
	})
	if err != nil {
		return cluster.Backup{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	end, err := ended(ctx, &control.Wait{Folder: f, Name: name})
	if err != nil {
		return cluster.Backup{}, err
	}
	b, err := find(ctx, store, end.Backup)
	if err != nil {
		return cluster.Backup{}, fmt.Errorf("the backup was taken (%s): %w", end.Reason, err)
	}
	return sources.AsBackup(b), nil
}

func recordURL(v cluster.StoreView) string { return v.URL }

// store is one that the daemons have. What the hosts keep themselves is reached through them.
func (c *Client) store(ctx context.Context, which func(cluster.StoreView) string) (blob.Store, error) {
	r, err := c.led(ctx)
	if err != nil {
		return nil, err
	}
	url := which(r.Observation.Store)
	if _, without := kept.DataDir(url); without {
		return c.console.Kept(), nil
	}
	return within(ctx, func(ctx context.Context) (blob.Store, error) { return open.Open(ctx, url, open.Options{}) })
}

// within bounds a question to the store.
func within[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return ask(ctx)
}

// bounded is for a wait, which has the context's deadline, or the usual one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, usualCommand)
}

// find looks a backup up.
func find(ctx context.Context, store blob.Store, word string) (backupstore.Backup, error) {
	name, err := backup.ParseName(word)
	if err != nil {
		return backupstore.Backup{}, sorted(ErrNoBackup, err)
	}
	return within(ctx, func(ctx context.Context) (backupstore.Backup, error) { return backupstore.New(store).Get(ctx, name) })
}

// ended waits for the end of a command that was queued.
func ended(ctx context.Context, w *control.Wait) (control.Ended, error) {
	end, err := w.End(ctx)
	switch {
	case err != nil:
		return end, stillWaiting(ctx, w, "has not ended", err)
	case end.Result == "rejected":
		return end, sorted(ErrRefused, errors.New(end.Reason))
	case end.Result != "done":
		return end, sorted(ErrFailed, fmt.Errorf("command %s was %s: %s", w.Name, end.Result, end.Reason))
	}
	return end, nil
}

// stillWaiting is the end of a wait that saw no end of the command.
func stillWaiting(ctx context.Context, w *control.Wait, what string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &waitError{sortedError{fmt.Errorf("command %s %s (%s): %w", w.Name, what, w.Said(), err), ErrWaiting}, w.Name}
}

// waitError is ErrWaiting about a command of the queue.
type waitError struct {
	sortedError
	command string
}

// Hint is where to look.
func (e *waitError) Hint() string {
	return "it goes on without you: etcdadm queue list says what it waits for, etcdadm queue cancel " + e.command + " withdraws it"
}
