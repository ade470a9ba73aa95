package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
)

// catalogueView is what the leader is told of the backups. It keeps what the last
// List found, so that nothing else about it lists the store again.
type catalogueView struct {
	catalogue *backupstore.Catalogue

	mu      sync.Mutex
	entries []backupstore.Entry // of the last List, the newest first
}

func (v *catalogueView) listed() []backupstore.Entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.entries
}

// List implements manager.Catalogue: the newest few are described.
func (v *catalogueView) List(ctx context.Context) ([]cluster.Backup, error) {
	entries, err := v.catalogue.List(ctx)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	v.entries = entries
	v.mu.Unlock()
	described, err := v.catalogue.Describe(ctx, entries[:min(len(entries), 3)])
	if err != nil {
		return nil, err
	}
	var out []cluster.Backup
	for _, b := range described {
		out = append(out, asBackup(b))
	}
	return out, nil
}

// provenAmong is how many of the newest backups are looked at for a proven one.
const provenAmong = 24

// Proven implements manager.Catalogue.
func (v *catalogueView) Proven(ctx context.Context) (cluster.Backup, bool, error) {
	entries := v.listed()
	for some := range slices.Chunk(entries[:min(len(entries), provenAmong)], 8) {
		described, err := v.catalogue.Describe(ctx, some)
		if err != nil {
			return cluster.Backup{}, false, err
		}
		for _, b := range described {
			if b.Proven() {
				return asBackup(b), true, nil
			}
		}
	}
	return cluster.Backup{}, false, nil
}

// Encrypted implements manager.Catalogue.
func (v *catalogueView) Encrypted() (cluster.Backup, bool) {
	for _, e := range v.listed() {
		if e.Encoding.Encrypted {
			return asBackup(backupstore.Backup{Entry: e}), true
		}
	}
	return cluster.Backup{}, false
}

// Listed implements manager.Catalogue.
func (v *catalogueView) Listed(ctx context.Context, name string) (cluster.Backup, bool, error) {
	entries := v.listed()
	i := slices.IndexFunc(entries, func(e backupstore.Entry) bool { return e.Name.String() == name })
	if i < 0 {
		return cluster.Backup{}, false, nil
	}
	described, err := v.catalogue.Describe(ctx, entries[i:i+1])
	if err != nil || len(described) == 0 {
		return cluster.Backup{}, false, err
	}
	return asBackup(described[0]), true, nil
}

// Find implements manager.Catalogue.
func (v *catalogueView) Find(ctx context.Context, name string) (cluster.Backup, bool, error) {
	n, err := backup.ParseName(name)
	if err != nil {
		return cluster.Backup{}, false, nil //nolint:nilerr // there is no backup of a name that is none
	}
	b, err := v.catalogue.Get(ctx, n)
	switch {
	case errors.Is(err, backupstore.ErrNoBackup):
		return cluster.Backup{}, false, nil
	case err != nil:
		return cluster.Backup{}, false, err
	}
	return asBackup(b), true, nil
}

func asBackup(b backupstore.Backup) cluster.Backup {
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
