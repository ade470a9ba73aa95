package sources

import (
	"context"
	"errors"
	"slices"
	"sync"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
)

// View is what the leader is told of the backups. It keeps what the last
// List found, so that nothing else about it lists the store again.
type View struct {
	Catalogue *backupstore.Catalogue

	mu      sync.Mutex
	entries []backupstore.Entry // of the last List, the newest first
}

func (v *View) listed() []backupstore.Entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.entries
}

// List implements manager.Catalogue: the newest few are described.
func (v *View) List(ctx context.Context) ([]cluster.Backup, error) {
	entries, err := v.Catalogue.List(ctx)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	v.entries = entries
	v.mu.Unlock()
	described, err := v.Catalogue.Describe(ctx, entries[:min(len(entries), 3)])
	if err != nil {
		return nil, err
	}
	var out []cluster.Backup
	for _, b := range described {
		out = append(out, AsBackup(b))
	}
	return out, nil
}

// provenAmong is how many of the newest backups are looked at for a proven one.
const provenAmong = 24

// Proven implements manager.Catalogue.
func (v *View) Proven(ctx context.Context) (cluster.Backup, bool, error) {
	entries := v.listed()
	for some := range slices.Chunk(entries[:min(len(entries), provenAmong)], 8) {
		described, err := v.Catalogue.Describe(ctx, some)
		if err != nil {
			return cluster.Backup{}, false, err
		}
		for _, b := range described {
			if b.Proven() {
				return AsBackup(b), true, nil
			}
		}
	}
	return cluster.Backup{}, false, nil
}

// Encrypted implements manager.Catalogue.
func (v *View) Encrypted() (cluster.Backup, bool) {
	for _, e := range v.listed() {
		if e.Encoding.Encrypted {
			return AsBackup(backupstore.Backup{Entry: e}), true
		}
	}
	return cluster.Backup{}, false
}

// Listed implements manager.Catalogue.
func (v *View) Listed(ctx context.Context, name string) (cluster.Backup, bool, error) {
	entries := v.listed()
	i := slices.IndexFunc(entries, func(e backupstore.Entry) bool { return e.Name.String() == name })
	if i < 0 {
		return cluster.Backup{}, false, nil
	}
	described, err := v.Catalogue.Describe(ctx, entries[i:i+1])
	if err != nil || len(described) == 0 {
		return cluster.Backup{}, false, err
	}
	return AsBackup(described[0]), true, nil
}

// Find implements manager.Catalogue.
func (v *View) Find(ctx context.Context, name string) (cluster.Backup, bool, error) {
	n, err := backup.ParseName(name)
	if err != nil {
		return cluster.Backup{}, false, nil //nolint:nilerr // there is no backup of a name that is none
	}
	b, err := v.Catalogue.Get(ctx, n)
	switch {
	case errors.Is(err, backupstore.ErrNoBackup):
		return cluster.Backup{}, false, nil
	case err != nil:
		return cluster.Backup{}, false, err
	}
	return AsBackup(b), true, nil
}

// AsBackup is what an observation tells of a backup.
func AsBackup(b backupstore.Backup) cluster.Backup {
	out := cluster.Backup{Name: b.Name.String(), At: b.Name.Time(), Version: b.Version(), Doubt: b.Doubt(), Encrypted: b.Encoding.Encrypted}
	if m := b.Manifest; m != nil {
		out.Cluster, out.Term, out.Index = m.ClusterID, m.Position.Term, m.Position.Index
		out.Revision, _ = m.Revision()
		out.Bytes, out.Reason, out.Proven = m.Snapshot.Size, string(m.Reason), b.Proven()
		for _, v := range m.Verifications {
			if v.Depth == backup.DepthDrilled && v.OK {
				out.Drilled = v.At
			}
		}
	}
	return out
}
