package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// backupPrefix is where backups lie in the store. An object has what is
// recorded beside a backup; what is in it, the world keeps under its name.
const backupPrefix = "backups/"

// stalled is when the store's drivers give up a transfer that does not move.
const stalled = 30*time.Second + 37*time.Microsecond

// simSources is a daemon's host.Sources.
type simSources struct{ d *daemon }

var _ bulk.Sources = simSources{}

// Stage implements bulk.Sources.
func (x simSources) Stage(ctx context.Context, o bulk.StageOrder, progress func(cluster.StageState, int64)) (bulk.Built, error) {
	w, src := x.d.w, o.Source
	progress(cluster.StageFetching, 0)
	snap, err := x.fetch(ctx, o)
	if err != nil {
		return bulk.Built{}, err
	}
	progress(cluster.StageBuilding, 1)
	work := w.links.next("build " + x.d.link)
	if !w.pause(ctx, work.within(20*time.Millisecond, 2*time.Second)+time.Duration(w.staging.Load()), work) {
		return bulk.Built{}, fmt.Errorf("build a data directory: %w", context.Cause(ctx))
	}
	built := bulk.Built{Source: src}
	built.Source.Revision, built.Source.Tool = snap.Revision, o.Version.String()
	if o.Source.Kind != cluster.SourceBackup {
		built.Source.SHA256 = fmt.Sprintf("%064x", mix(uint64(snap.Index)^uint64(snap.Cluster)))
	}
	err = x.d.do(kindBuild, o.Token, func() error {
		var reader cluster.Version // else the tool is of the line that wrote it
		if src.Kind == cluster.SourceHalted {
			reader = o.Version
		}
		data := w.etcd.Restore(snap, o.Token, string(o.Name), o.PeerURLs, src.RevisionTarget, reader)
		built.Member, built.Cluster = data.Member()
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		x.d.m.disk.staged[o.Token] = &dir{token: o.Token, mark: o.Disk, data: data}
		w.staged(o.Token, snap)
		return nil
	})
	return built, err
}

// fetch brings the source to this host.
func (x simSources) fetch(ctx context.Context, o bulk.StageOrder) (*fakeetcd.Snapshot, error) {
	w := x.d.w
	ctx, cancel := context.WithTimeout(ctx, stalled)
	defer cancel()
	way := w.links.next("fetch " + x.d.link)
	if !w.pause(ctx, way.within(10*time.Millisecond, 3*time.Second), way) {
		return nil, fmt.Errorf("fetch the source: %w", context.Cause(ctx))
	}
	switch o.Source.Kind {
	case cluster.SourceBackup:
		b, ok, err := simCatalogue(x).Find(ctx, o.Source.Backup)
		snap, damaged := w.backup(o.Source.Backup)
		switch {
		case err != nil:
			return nil, fmt.Errorf("fetch backup %s: %w", o.Source.Backup, err)
		case !ok || snap == nil:
			return nil, fmt.Errorf("fetch backup %s: %w: it is gone", o.Source.Backup, bulk.ErrBadSource)
		case damaged || b.SHA256 != o.Source.SHA256:
			return nil, fmt.Errorf("fetch backup %s: %w: its SHA-256 is another", o.Source.Backup, bulk.ErrBadSource)
		}
		return snap, nil
	case cluster.SourceSurvivor, cluster.SourceSetAside, cluster.SourceHalted:
		return x.extract(o)
	}
	return nil, fmt.Errorf("%w: what is %q", bulk.ErrBadSource, o.Source.Kind)
}

// extract reads the database out of this host's own data.
func (x simSources) extract(o bulk.StageOrder) (snap *fakeetcd.Snapshot, err error) {
	err = x.d.do(kindExtract, "", func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		from := m.disk.dirs[o.From]
		if o.Source.Kind == cluster.SourceSetAside {
			from = nil
			for _, a := range m.disk.aside {
				if a.note.Dir == o.Source.Dir {
					from = a
				}
			}
		}
		switch {
		case from == nil || !m.w.etcd.HasWAL(from.data):
			return fmt.Errorf("%w: there is no log of a member", bulk.ErrBadSource)
		case m.proc != nil && m.proc.Exit() == "" && m.procDir == from:
			return errors.New("read the data: a process holds the directory")
		}
		snap = m.w.etcd.Extract(from.data)
		return nil
	})
	return snap, err
}

// Install implements bulk.Sources.
func (x simSources) Install(token string, disk cluster.DiskID) error {
	return x.d.do(kindInstall, token, func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		if have := m.disk.dirs[token]; have != nil {
			if have.mark == disk && m.w.etcd.HasWAL(have.data) {
				delete(m.disk.staged, token)
				return nil
			}
			return fmt.Errorf("install data: %s exists already", token)
		}
		built := m.disk.staged[token]
		if built == nil {
			return fmt.Errorf("install data: nothing lies ready under %s", token)
		}
		m.disk.dirs[token] = built
		delete(m.disk.staged, token)
		m.w.keepTrack(built)
		return nil
	})
}

// DropStaged implements bulk.Sources.
func (x simSources) DropStaged(token string) error {
	return x.d.do(kindDropStaged, token, func() error {
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		delete(x.d.m.disk.staged, token)
		return nil
	})
}

// V2InLog implements bulk.Sources.
func (x simSources) V2InLog(_ context.Context, token string) (found bool, err error) {
	err = x.d.do(kindData, "", func() error {
		have := x.d.m.dir(token)
		if have == nil {
			return errors.New("look through the log: there is none")
		}
		found = x.d.w.etcd.V2InLog(have.data)
		return nil
	})
	return found, err
}

// LogEnd implements bulk.Sources.
func (x simSources) LogEnd(_ context.Context, token string, _ func(cluster.LogReading)) (p cluster.Progress, err error) {
	err = x.d.do(kindData, "", func() error {
		have := x.d.m.dir(token)
		if have == nil || !x.d.w.etcd.HasWAL(have.data) {
			return errors.New("read the end of the log: there is none")
		}
		p.Term, p.Index, _ = x.d.w.etcd.End(have.data)
		return nil
	})
	return p, err
}

// Backup implements bulk.Sources.
func (x simSources) Backup(ctx context.Context, l record.Launch, o bulk.BackupOrder) (cluster.Backup, error) {
	return x.d.backUp(ctx, x.d.id, l.Version, o.Reason)
}

// Tidy implements bulk.Sources: no backup of a seed is old enough to be removed.
func (simSources) Tidy(context.Context) {}

// backUp brings the database of a host's member into the store.
func (d *daemon) backUp(ctx context.Context, of cluster.HostID, version cluster.Version, reason string) (cluster.Backup, error) {
	w := d.w
	dice := w.links.next("backup " + d.link)
	if !w.pause(ctx, dice.within(10*time.Millisecond, time.Second), dice) {
		return cluster.Backup{}, fmt.Errorf("take a backup: %w", context.Cause(ctx))
	}
	var snap *fakeetcd.Snapshot
	err := d.do(kindMemberRead, "snapshot", func() (err error) {
		snap, err = w.etcd.Member(of).Snapshot(ctx)
		return err
	})
	if err != nil {
		return cluster.Backup{}, fmt.Errorf("read the member's database: %w", err)
	}
	at := time.Now().UTC().Truncate(time.Second)
	b := cluster.Backup{
		Name: fmt.Sprintf("%s-%06d", at.Format(time.RFC3339), uint64(dice.roll(1))%1_000_000), At: at, Version: version,
		Revision: snap.Revision, SHA256: fmt.Sprintf("%064x", mix(snap.Index^uint64(snap.Cluster))), Bytes: 1 << 20, Reason: reason,
		Cluster: snap.Cluster, Term: snap.Term, Index: snap.Index,
	}
	w.keepBackup(b.Name, snap)
	data, err := json.Marshal(b)
	if err != nil {
		return cluster.Backup{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, stalled)
	defer cancel()
	if _, err := d.store().Put(ctx, backupPrefix+b.Name, bytes.NewReader(data), blob.IfAbsent); err != nil {
		return cluster.Backup{}, fmt.Errorf("write backup %s: %w", b.Name, err)
	}
	d.tracef("backup %s of cluster %s at revision %d, %d keys", b.Name, snap.Cluster, snap.Revision, len(snap.Keys()))
	return b, nil
}

// Drill implements bulk.Sources.
func (x simSources) Drill(ctx context.Context, name string, with cluster.Version) (cluster.Backup, error) {
	w := x.d.w
	ctx, cancel := context.WithTimeout(ctx, stalled)
	defer cancel()
	b, ok, err := simCatalogue(x).Find(ctx, name)
	if _, damaged := w.backup(name); err == nil && (!ok || damaged) {
		err = bulk.ErrBadSource
	}
	if err != nil {
		return b, err
	}
	if !with.IsZero() {
		return b, x.rehearse(ctx, with)
	}
	w.mu.Lock()
	w.drilled = time.Now()
	w.mu.Unlock()
	return w.prove(ctx, x.d.store(), b)
}

// Survey implements bulk.Sources: the fake etcds have one kind of keys.
func (x simSources) Survey(ctx context.Context, o bulk.SurveyOrder) (cluster.Survey, error) {
	s := cluster.Survey{From: o.Wrote, To: o.To}
	if o.Backup != "" {
		_, err := x.Drill(ctx, o.Backup, o.To)
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, stalled)
	defer cancel()
	return s, x.rehearse(ctx, o.To)
}

// prove keeps beside a backup that it was found good.
func (w *World) prove(ctx context.Context, s blob.Store, b cluster.Backup) (cluster.Backup, error) {
	b.Proven, b.Drilled = true, time.Now().UTC().Truncate(time.Second)
	data, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	w.mu.Lock()
	w.pruning.proven[b.Name] = true
	w.mu.Unlock()
	_, err = s.Put(ctx, backupPrefix+b.Name, bytes.NewReader(data), blob.Any)
	return b, err
}

// Prove is a person who verifies a backup.
func (w *World) Prove(name string) {
	o, err := w.store.Get(w.ctx, backupPrefix+name, blob.GetOptions{})
	var b cluster.Backup
	if err == nil {
		defer o.Body.Close()
		err = json.NewDecoder(o.Body).Decode(&b)
	}
	if err == nil {
		_, err = w.prove(w.ctx, w.store, b)
	}
	if err != nil {
		w.violate("prove backup %s: %v", name, err)
	}
}

// Received implements bulk.Sources.
func (simSources) Received(string) time.Duration { return 0 }

// FreeSpace implements bulk.Sources.
func (simSources) FreeSpace() int64 { return 0 }

// staged notes what was built under a token.
func (w *World) staged(token string, s *fakeetcd.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.origins[token] = s
}

// origin is what a generation with this token was made from; nil: nothing.
func (w *World) origin(token string) *fakeetcd.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.origins[token]
}

// rehearse tries out whether a release serves the data of another line.
func (x simSources) rehearse(ctx context.Context, with cluster.Version) error {
	w := x.d.w
	way := w.links.next("rehearse " + x.d.link)
	if !w.pause(ctx, way.within(20*time.Millisecond, 2*time.Second), way) {
		return fmt.Errorf("try etcd %s out: %w", with, context.Cause(ctx))
	}
	if x.d.m.lacks(with) {
		return fmt.Errorf("etcd %s does not start", with)
	}
	return nil
}
