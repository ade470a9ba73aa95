package sources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/conversion"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/snapshot"
)

// dirBackup lies below the state directory: what a backup of etcd 2 is packed from.
// What a daemon that was killed left there goes with the next one.
const dirBackup = "backup"

// backupV2 backs up a member of etcd 2, which streams no snapshots, from its files. A
// read through a quorum tells how far it has to go: whatever was acknowledged before
// is committed up to there, and this very member has it.
func (s *Sources) backupV2(ctx context.Context, l record.Launch, req backupstore.Request) (b backupstore.Backup, err error) {
	c, err := etcd.NewV2(s.o.Etcd(l))
	if err != nil {
		return b, fmt.Errorf("reach the own member: %w", err)
	}
	st, err := quorumRead(ctx, c)
	if err != nil {
		return b, err
	}
	dir := filepath.Join(s.o.Disk.StateDir(), dirBackup)
	if err := os.RemoveAll(dir); err != nil {
		return b, fmt.Errorf("make room for a backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at, err := snapshot.BackupV2(ctx, s.o.Disk.DataDir(l.Token), dir, st.Index, func(ctx context.Context) error {
		_, err := quorumRead(ctx, c)
		return err
	})
	if err != nil {
		return b, err
	}
	req.Compression, req.Recipients = s.o.Packing.Compression, s.o.Packing.Recipients
	req.Meta.EtcdVersion = st.Version
	m := &req.Manifest
	m.ClusterID, m.MemberID, m.EtcdVersion = st.Cluster, st.Member, st.Version
	m.Position = backup.Position{Revision: st.Revision, Term: at.Term, Index: at.Index}
	tar, err := backupstore.Directory(dir)
	if err != nil {
		return b, err
	}
	defer tar.Close()
	return s.o.Catalogue.Write(ctx, req, tar)
}

// quorumRead has the member append an entry that is committed, and tells how far it is.
func quorumRead(ctx context.Context, c *etcd.V2) (cluster.MemberStatus, error) {
	st, err := c.Status(ctx)
	if err == nil && !st.Healthy {
		err = fmt.Errorf("it serves no read through a quorum: %v", st.Errors)
	}
	if err != nil {
		return st, fmt.Errorf("look at the own member: %w", err)
	}
	return st, nil
}

// drillV2 has an etcd of the backup's release begin with it, and read all keys.
func (d Drill) drillV2(ctx context.Context, b backupstore.Backup, dir string) (snapshot.Drilled, error) {
	r, err := d.Finder.Find(ctx, b.Version().String())
	if err != nil {
		return snapshot.Drilled{}, fmt.Errorf("find the etcd that wrote the backup: %w", err)
	}
	began := time.Now()
	o := conversion.Options{Source: conversion.Source{Release: r, DataDir: filepath.Join(dir, dirBackup)}, Site: filepath.Join(dir, dirSite)}
	report, err := conversion.Survey(ctx, o, b.Version())
	if err != nil {
		return snapshot.Drilled{}, err
	}
	if m := b.Manifest; m != nil && report.At < m.Position.Revision {
		return snapshot.Drilled{}, fmt.Errorf("%w: its index is %d, and the member's was %d", snapshot.ErrDiffers, report.At, m.Position.Revision)
	}
	return snapshot.Drilled{
		Took: time.Since(began), Info: snapshot.Info{Revision: report.At, Keys: report.Keys},
		Note: "etcd 2 tells no hash: an etcd of its release has begun with it and read all keys",
	}, nil
}
