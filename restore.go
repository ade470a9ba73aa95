package etcdadm

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// Restoring is how a backup is restored. The zero value is good for most.
type Restoring struct {
	Version cluster.Version // of etcd that the restored cluster runs; zero: the one that the spec asks for
	Members int             // how many are wanted from then on; zero: as many as now
	// NoBackup: the running cluster is not backed up before.
	NoBackup bool
	// AcceptDamage allows a backup that something speaks against (see [cluster.Backup]); its snapshot is checked against
	// its own checksum first.
	AcceptDamage bool
	// Say is told what is waited for, when that changes; nil: nobody is.
	Say func(sentence string)
}

// Restore makes the cluster what it was in a backup, and waits until clients are served from it by every member: until
// the context's end, or ten minutes where it has no deadline. The leading daemon checks the backup first, backs up the
// running cluster, stops it, and begins a new generation. What was written since the backup is not in it; the replaced
// data is set aside, and "etcdadm restore --undo" goes back to it. A cluster of which hosts are lost is not restored by
// this package: a person names them.
//
// Errors: ErrNoBackup and ErrRefused, and nothing was changed; ErrFailed, with why; ErrWaiting, and the command goes on,
// or stays in the queue; as for [Client.Backups].
func (c *Client) Restore(ctx context.Context, name string, r Restoring) error {
	store, err := c.store(ctx, cluster.StoreView.BackupsURL)
	if err != nil {
		return err
	}
	b, err := find(ctx, store, name)
	if err != nil {
		return err
	}
	if err := r.check(b); err != nil {
		return err
	}
	record, err := c.store(ctx, recordURL)
	if err != nil {
		return err
	}
	f := control.New(record, "")
	command, err := within(ctx, func(ctx context.Context) (string, error) { return c.queueRestore(ctx, f, b, r) })
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	w := &control.Wait{Folder: f, Name: command, Say: r.Say}
	if _, err := ended(ctx, w); err != nil {
		return err
	}
	if _, err := w.Open(ctx); err != nil {
		return stillWaiting(ctx, w, "was run, and not every member serves clients yet", err)
	}
	return nil
}

// check refuses what the daemons would refuse later.
func (r Restoring) check(b backupstore.Backup) error {
	doubt := b.Doubt()
	switch {
	case b.File == "", doubt != "" && !r.AcceptDamage:
		return sorted(ErrRefused, fmt.Errorf("backup %s is damaged: %s", b.Name, doubt))
	case r.Version.IsZero():
		return nil
	}
	if why := plan.RestoresTo(b.Version(), r.Version); why != "" {
		return sorted(ErrRefused, errors.New(why))
	}
	return nil
}

func (c *Client) queueRestore(ctx context.Context, f *control.Folder, b backupstore.Backup, r Restoring) (string, error) {
	spec, err := control.RestoredSpec(ctx, f, b.Meta)
	if err != nil {
		return "", err
	}
	asked := control.RestoreBackup{Backup: b.Name.String(), Spec: spec, By: c.by}
	if r.Members != 0 {
		asked.Count, err = f.AskForMembers(ctx, r.Members)
	}
	switch {
	case errors.Is(err, cluster.ErrSpec), errors.Is(err, control.ErrNoSpec):
		return "", sorted(ErrRefused, err)
	case err != nil:
		return "", err
	}
	if r.NoBackup {
		asked.Flags = append(asked.Flags, control.FlagNoBackup)
	}
	if !r.Version.IsZero() {
		asked.Flags = append(asked.Flags, control.VersionFlag(r.Version))
	}
	return f.AddRestore(ctx, asked)
}
