package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/sim/fakeetcd"
)

// simCatalogue is a daemon's manager.Catalogue.
type simCatalogue struct{ d *daemon }

var _ manager.Catalogue = simCatalogue{}

// List implements manager.Catalogue.
func (c simCatalogue) List(ctx context.Context) ([]cluster.Backup, error) {
	infos, err := c.d.store().List(ctx, backupPrefix)
	if err != nil {
		return nil, err
	}
	var out []cluster.Backup
	for _, i := range slices.Backward(infos) {
		name := strings.TrimPrefix(i.Key, backupPrefix)
		at, err := time.Parse(time.RFC3339, name[:len("2006-01-02T15:04:05Z")])
		if err != nil {
			return nil, fmt.Errorf("read the name of backup %s: %w", name, err)
		}
		out = append(out, cluster.Backup{Name: name, At: at})
	}
	for i := range out[:min(len(out), 3)] { // those are described
		b, ok, err := c.Find(ctx, out[i].Name)
		if err != nil {
			return nil, err
		}
		if ok {
			out[i] = b
		}
	}
	return out, nil
}

// Encrypted implements manager.Catalogue: none is.
func (c simCatalogue) Encrypted() (cluster.Backup, bool) { return cluster.Backup{}, false }

// Proven implements manager.Catalogue.
func (c simCatalogue) Proven(ctx context.Context) (b cluster.Backup, ok bool, err error) {
	all, err := c.List(ctx)
	if err != nil {
		return b, false, err
	}
	for _, e := range all {
		if b, ok, err = c.Find(ctx, e.Name); err != nil || ok && b.Proven {
			return b, ok, err
		}
	}
	return cluster.Backup{}, false, nil
}

// Listed implements manager.Catalogue.
func (c simCatalogue) Listed(ctx context.Context, name string) (cluster.Backup, bool, error) {
	return c.Find(ctx, name)
}

// Find implements manager.Catalogue.
func (c simCatalogue) Find(ctx context.Context, name string) (b cluster.Backup, ok bool, err error) {
	o, err := c.d.store().Get(ctx, backupPrefix+name, blob.GetOptions{})
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return b, false, nil
	case err != nil:
		return b, false, err
	}
	defer o.Body.Close()
	data, err := io.ReadAll(o.Body)
	if err != nil {
		return b, false, err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, false, err
	}
	return b, true, nil
}

// keepBackup remembers what is in a backup.
func (w *World) keepBackup(name string, s *fakeetcd.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backups[name] = s
	w.backupNames = append(w.backupNames, name)
}

// backup is what is in a backup; nil: there is none.
func (w *World) backup(name string) (s *fakeetcd.Snapshot, damaged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.backups[name], w.damaged[name]
}

// Damage has a backup's content be other than its hash says.
func (w *World) Damage(name string) {
	w.tracef("", "backup %s is damaged", name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.damaged[name] = true
}
