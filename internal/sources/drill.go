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
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
)

// Drill is what is needed to try a backup out.
type Drill struct {
	Catalogue  *backupstore.Catalogue
	Identities backupstore.Identities
	Finder     *release.Finder
	Parent     string         // a directory with room for the snapshot twice; empty: the system's
	Host       cluster.HostID // who does it; may be empty
	Within     time.Duration  // etcd's own programs have to end; 0: as long as the caller's context
}

// recordTimeout bounds the result's write beside the backup, which the drill's own
// result does not depend on.
const recordTimeout = time.Minute

// ErrBadBackup is in the chain of a drill's error when the backup is what was
// bad, and not the drill.
var ErrBadBackup = errors.New("the backup cannot be relied on")

// Run restores a backup into an etcd that is thrown away, compares what that
// serves, and keeps the result beside the backup. note says what could not be
// compared or kept.
func (d Drill) Run(ctx context.Context, name backup.Name) (b backupstore.Backup, drilled snapshot.Drilled, note string, err error) {
	dir, err := os.MkdirTemp(d.Parent, "etcdadm-drill-")
	if err != nil {
		return b, drilled, "", fmt.Errorf("make room for the drill: %w", err)
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	b, drilled, err = d.tryOut(ctx, name, dir)
	bad := errors.Is(err, backupstore.ErrDamaged) || errors.Is(err, snapshot.ErrDamaged) || errors.Is(err, snapshot.ErrNoHash) || errors.Is(err, snapshot.ErrDiffers)
	if err != nil && !bad {
		return b, drilled, "", err // it says nothing about the backup
	}
	v := backup.Verification{At: began.UTC(), Host: d.Host, Depth: backup.DepthDrilled, OK: err == nil, Duration: time.Since(began)}
	if err != nil {
		v.Problem = backupstore.OneLine(err.Error())
		err = fmt.Errorf("%w: %w", ErrBadBackup, err)
	} else {
		v.Revision, v.Keys = drilled.Info.Revision, &drilled.Info.Keys
	}
	note = drilled.Note
	recording, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if recordErr := d.Catalogue.Record(recording, name, v); recordErr != nil {
		note = fmt.Sprintf("the result could not be kept beside the backup: %v", recordErr)
	}
	return b, drilled, note, err
}

func (d Drill) tryOut(ctx context.Context, name backup.Name, dir string) (b backupstore.Backup, drilled snapshot.Drilled, err error) {
	if b, err = d.Catalogue.Get(ctx, name); err != nil {
		return b, drilled, err
	}
	if b.Meta.V2() {
		if b, err = d.Catalogue.FetchDirectory(ctx, name, filepath.Join(dir, dirBackup), d.Identities, 1, nil); err != nil {
			return b, drilled, err
		}
		ctx, cancel := d.bounded(ctx)
		defer cancel()
		drilled, err = d.drillV2(ctx, b, dir)
		return b, drilled, err
	}
	file := filepath.Join(dir, fileSnapshot)
	if b, err = d.Catalogue.Fetch(ctx, name, file, d.Identities, backupstore.ThrownAway, nil); err != nil {
		return b, drilled, err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	drilled, err = d.restore(ctx, b, file, filepath.Join(dir, "site"))
	return b, drilled, err
}

// bounded is the context of etcd's own programs. A backup that comes in has the store's
// bounds, and takes nothing of theirs.
func (d Drill) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.Within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d.Within, fmt.Errorf("etcd's own programs have not tried the backup out in %s: %w", d.Within, context.DeadlineExceeded))
}

// Rehearse restores a backup with the tool of another release, and sees that this
// release serves the same. Nothing is kept of it: a backup is not proven by that,
// nor found bad.
func (d Drill) Rehearse(ctx context.Context, name backup.Name, with cluster.Version) error {
	dir, err := os.MkdirTemp(d.Parent, "etcdadm-drill-")
	if err != nil {
		return fmt.Errorf("make room for the rehearsal: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, fileSnapshot)
	if _, err := d.Catalogue.Fetch(ctx, name, file, d.Identities, backupstore.ThrownAway, nil); err != nil {
		return err
	}
	r, err := d.Finder.Find(ctx, with.String())
	if err != nil {
		return fmt.Errorf("find etcd %s: %w", with, err)
	}
	sum, err := trailer(file)
	if err != nil {
		return err
	}
	_, err = snapshot.Drill(ctx, snapshot.DrillOptions{Snapshot: file, Verified: sum, Site: filepath.Join(dir, "site"), Release: r})
	return err
}

func (d Drill) restore(ctx context.Context, b backupstore.Backup, file, site string) (snapshot.Drilled, error) {
	r, err := d.Finder.Find(ctx, b.Version().String())
	if err != nil {
		return snapshot.Drilled{}, fmt.Errorf("find the etcd that wrote the backup: %w", err)
	}
	sum, err := trailer(file)
	if err != nil {
		return snapshot.Drilled{}, err
	}
	o := snapshot.DrillOptions{Snapshot: file, Verified: sum, Site: site, Release: r}
	if m := b.Manifest; m != nil && m.Position.Hash != nil {
		h := m.Position.Hash
		o.Expect = &snapshot.Hash{Revision: h.Revision, CompactRevision: h.Compacted, Hash: h.Hash}
	}
	return snapshot.Drill(ctx, o)
}

// Drill implements bulk.Sources.
func (s *Sources) Drill(ctx context.Context, name string, with cluster.Version) (cluster.Backup, error) {
	n, err := backup.ParseName(name)
	if err != nil {
		return cluster.Backup{}, err
	}
	ids, err := s.identities()
	if err != nil {
		return cluster.Backup{}, err
	}
	room, err := s.drillRoom()
	if err != nil {
		return cluster.Backup{}, err
	}
	ctx, end := s.working(ctx, "trying a backup out")
	defer end()
	d := Drill{Catalogue: s.o.Catalogue, Identities: ids, Finder: s.o.Finder, Parent: room, Host: s.o.Host}
	if !with.IsZero() {
		return cluster.Backup{Name: name}, withKeyHint(d.Rehearse(ctx, n, with))
	}
	b, _, note, err := d.Run(ctx, n)
	s.o.Drilled(err)
	if err != nil {
		return cluster.Backup{}, withKeyHint(err)
	}
	if note != "" {
		s.o.Log.Info("drill", "backup", n, "note", note)
	}
	return AsBackup(b), nil
}
