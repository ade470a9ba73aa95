package backupstore

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
)

// mostTries bounds how often a change of a manifest is tried against others.
const mostTries = 10

// Record adds a verification to a backup's manifest. A backup of another program
// gets a manifest that holds nothing else. Errors: ErrNoBackup,
// backup.ErrNewer and backup.ErrMalformed about the manifest, and what the
// store says; one that never lets an object be replaced says so here.
func (c *Catalogue) Record(ctx context.Context, name backup.Name, v backup.Verification) error {
	if err := c.change(ctx, name, func(m *backup.Manifest) { m.Add(v) }); err != nil {
		return fmt.Errorf("record verification of backup %s: %w", name, err)
	}
	return nil
}

// Pin keeps a backup from being pruned, for a reason; an empty one ends that.
// Errors are those of Record.
func (c *Catalogue) Pin(ctx context.Context, name backup.Name, reason string) error {
	if err := c.change(ctx, name, func(m *backup.Manifest) { m.Pinned = reason }); err != nil {
		return fmt.Errorf("pin backup %s: %w", name, err)
	}
	return nil
}

// change reads, changes and writes a manifest, on condition that it is what was
// read where the store can keep conditions.
func (c *Catalogue) change(ctx context.Context, name backup.Name, do func(*backup.Manifest)) error {
	f, err := c.folder(ctx, name)
	if err != nil {
		return err
	}
	if !f.has(backup.FileMeta) {
		return f.noBackup(name)
	}
	for range mostTries {
		m, tag, err := c.manifest(ctx, name)
		condition := blob.IfMatch(tag)
		if errors.Is(err, blob.ErrNotFound) {
			condition, err = blob.IfAbsent, nil
		}
		if err != nil {
			return err
		}
		do(&m)
		err = c.replace(ctx, name, m.Encode(), condition)
		if !errors.Is(err, blob.ErrPreconditionFailed) {
			return err
		}
	}
	return fmt.Errorf("the manifest was changed by others, %d times", mostTries)
}

func (c *Catalogue) replace(ctx context.Context, name backup.Name, data []byte, condition blob.Condition) error {
	ctx, cancel := context.WithTimeout(ctx, ObjectTimeout)
	defer cancel()
	_, err := blob.PutBytes(ctx, c.store, key(name, backup.FileManifest), data, condition)
	if errors.Is(err, blob.ErrUnsupported) {
		_, err = blob.PutBytes(ctx, c.store, key(name, backup.FileManifest), data, blob.Any)
	}
	return err
}
