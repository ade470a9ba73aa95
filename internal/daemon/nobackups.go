package daemon

import (
	"context"
	"fmt"
	"io"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/sources"
)

// noBackups is the store of a cluster that has none for backups.
type noBackups struct{}

// Get implements blob.Store.
func (noBackups) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) {
	return nil, fmt.Errorf("this cluster has no backups: %w", blob.ErrNotFound)
}

// Put implements blob.Store.
func (noBackups) Put(context.Context, string, io.Reader, blob.Condition) (blob.ETag, error) {
	return "", &blob.Error{
		Op: "write", Object: "a backup", Err: fmt.Errorf("%w: this cluster has no store for backups", blob.ErrUnsupported),
		Advice: "restart the daemons with --backup-store",
	}
}

// List implements blob.Store.
func (noBackups) List(context.Context, string) ([]blob.Info, error) { return nil, nil }

// Delete implements blob.Store.
func (noBackups) Delete(context.Context, string) error { return nil }

// withBackups has a manager know of the backups. Where there is no store for them none is taken by the clock.
func withBackups(d *daemon, o manager.Options) manager.Options {
	o.Catalogue = &sources.View{Catalogue: d.catalogue}
	if _, none := d.backups.(noBackups); !none {
		o.BackupInterval, o.DrillInterval = d.cfg.BackupInterval, d.cfg.DrillInterval
	}
	return o
}
