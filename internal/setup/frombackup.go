package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/snapshot"
)

// takeInTimeout bounds the reading of a snapshot, and its way into the store.
const takeInTimeout = 2 * time.Hour

// named is the backup that a new cluster begins with, where it lies in the store; false: it is a file.
func (o Init) named() (backup.Name, bool) {
	name, err := backup.ParseName(o.FromBackup)
	return name, err == nil
}

// checkSource looks at what the cluster is to begin with.
func (m *Machine) checkSource(ctx context.Context, o Init, s Settings) Check {
	const name = "first data"
	ctx, cancel := context.WithTimeout(ctx, takeInTimeout)
	defer cancel()
	wrote, what, err := m.lookAtSource(ctx, o, s)
	switch {
	case errors.As(err, new(*snapshot.PackedError)):
		return refuse(name, "unpack it first", "%v", err)
	case errors.Is(err, snapshot.ErrNoHash):
		return refuse(name, "take a snapshot: etcdctl snapshot save FILE. If only the copied database is left, --without-hash checks all of its pages and takes it; writes that only the member's log had are missing in it", "%v", err)
	case err != nil:
		return refuse(name, "name a snapshot in a file, or a backup as etcdadm backup list --store URL prints it", "%v", err)
	case !wrote.IsZero() && !wrote.SameMinor(o.Version):
		return refuse(name, fmt.Sprintf("begin with --etcd-version and a release of etcd %d.%d, and run etcdadm upgrade afterwards", wrote.Major, wrote.Minor),
			"%s was written by etcd %d.%d, and the cluster is to begin with %s", o.FromBackup, wrote.Major, wrote.Minor, o.Version)
	}
	return good(name, "%s", what)
}

// lookAtSource gives the release that wrote it, zero where nothing says, and what it is.
func (m *Machine) lookAtSource(ctx context.Context, o Init, s Settings) (wrote cluster.Version, what string, err error) {
	if name, ok := o.named(); ok {
		if _, without := kept.DataDir(o.Store); without {
			return wrote, "", fmt.Errorf("backup %s is named, and no store that has it", name)
		}
		b, err := m.storedBackup(ctx, s, name)
		return b.Version(), fmt.Sprintf("backup %s in the store", name), err
	}
	info, err := o.verify(ctx)
	if err != nil {
		return wrote, "", err
	}
	what = fmt.Sprintf("%s: revision %d, %d keys", o.FromBackup, info.Revision, info.Keys)
	if info.Copied {
		what += "; a copied database without SHA-256, of which every page was checked; writes that only the member's log had are missing in it"
	}
	return wroteIt(info), what, nil
}

// verify checks all of the file.
func (o Init) verify(ctx context.Context) (snapshot.Info, error) {
	if o.WithoutHash {
		return snapshot.VerifyCopied(ctx, o.FromBackup)
	}
	return snapshot.Verify(ctx, o.FromBackup)
}

// content is the file as a snapshot, which a backup is.
func (o Init) content(info snapshot.Info, file io.Reader) io.Reader {
	if info.Copied {
		return snapshot.WithHash(file)
	}
	return file
}

// wroteIt is the release that a database names, zero where it names none.
func wroteIt(i snapshot.Info) cluster.Version {
	for _, said := range []string{i.StorageVersion, i.ClusterVersion} {
		if v, err := cluster.ParseVersion(said); err == nil {
			return v
		}
	}
	return cluster.Version{}
}

func (m *Machine) storedBackup(ctx context.Context, s Settings, name backup.Name) (backupstore.Backup, error) {
	if err := s.Environment(); err != nil {
		return backupstore.Backup{}, err
	}
	store, err := open.Open(ctx, s.Store(), open.Options{ReadOnly: true})
	if err != nil {
		return backupstore.Backup{}, err
	}
	b, err := backupstore.New(store).Get(ctx, name)
	return b, errors.Join(err, b.Err)
}

// takeIn has the store hold what the cluster begins with, and names it.
func (m *Machine) takeIn(ctx context.Context, o Init, store blob.Store) (string, error) {
	if name, ok := o.named(); ok {
		return name.String(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeInTimeout)
	defer cancel()
	info, err := o.verify(ctx)
	if err != nil {
		return "", err
	}
	wrote := wroteIt(info)
	if wrote.IsZero() {
		wrote = o.Version
	}
	file, err := regular.Open(o.FromBackup)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := backupstore.New(store).Write(ctx, backupstore.Request{
		Meta: backup.Meta{EtcdVersion: wrote},
		Manifest: backup.Manifest{
			Cluster: o.Cluster, Reason: backup.ReasonCopied, EtcdVersion: wrote, StorageVersion: info.StorageVersion,
			Position: backup.Position{Revision: info.Revision, Term: info.Term, Index: info.ConsistentIndex},
		},
	}, o.content(info, file))
	if err != nil {
		return "", fmt.Errorf("take %s into the store: %w", o.FromBackup, err)
	}
	return b.Name.String(), nil
}
