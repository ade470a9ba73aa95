package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"golang.org/x/sys/unix"
)

var _ bulk.Sources = (*sources)(nil)

func newSources(d *daemon) (*sources, error) {
	s := &sources{d: d, catalogue: backupstore.New(d.store), said: once{log: d.log}}
	var err error
	if s.packing, err = d.cfg.Backups.Packing(); err != nil {
		return nil, err
	}
	if s.policy, err = d.cfg.Backups.Policy(os.Getenv); err != nil {
		return nil, &Error{Problem: "how long backups are kept", Err: err, Advice: "a duration such as 7d or 2y"}
	}
	if err := errors.Join(s.clearDrills(), os.RemoveAll(filepath.Join(d.disk.StateDir(), dirBackup))); err != nil {
		d.log.Warn("what a daemon before was trying out is left", "err", err) // tried again with the next one
	}
	return s, nil
}

// dirStaging lies below the state directory: one directory a token, gone once
// it was moved into place.
const (
	dirStaging   = "staging"
	fileSnapshot = "snapshot.db"
	dirBuilt     = "data"
)

func (s *sources) staging(token string) string {
	return filepath.Join(s.d.disk.StateDir(), dirStaging, token)
}

// Stage implements host.Sources.
func (s *sources) Stage(ctx context.Context, o bulk.StageOrder, progress func(cluster.StageState, int64)) (bulk.Built, error) {
	defer takeAllCores()()
	ctx, end := s.d.working(ctx, "making a source ready")
	defer end()
	dir := s.staging(o.Token)
	built, err := s.stage(ctx, o, dir, progress)
	var no *snapshot.SpaceError
	if errors.As(err, &no) { // what was fetched goes before it is begun anew, and needs its room again
		no.Used += bytesBelow(dir)
	}
	return built, err
}

// bytesBelow is how much of the disk the files of a directory take.
func bytesBelow(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error { // what cannot be seen takes nothing
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum
}

func (s *sources) stage(ctx context.Context, o bulk.StageOrder, dir string, progress func(cluster.StageState, int64)) (bulk.Built, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bulk.Built{}, fmt.Errorf("make room for what is staged: %w", err)
	}
	file := filepath.Join(dir, fileSnapshot)
	if !o.Version.Has(cluster.V3API) {
		return s.stageV2(ctx, o, file, progress)
	}
	src, err := s.fetch(ctx, o, file, func(n int64) { progress(cluster.StageFetching, n) })
	if err != nil {
		return bulk.Built{}, hopeless(err)
	}
	sum, err := trailer(file)
	if err != nil {
		return bulk.Built{}, fmt.Errorf("read what was fetched: %w", err)
	}
	if src.SHA256 != "" && src.SHA256 != sum {
		return bulk.Built{}, fmt.Errorf("%w: its SHA-256 is %s, and %s was recorded", bulk.ErrBadSource, sum, src.SHA256)
	}
	src.SHA256 = sum
	if src.Wrote.IsZero() { // nothing beside the backup says it
		if src.Wrote = snapshot.Wrote(file); !reads(o.Version, src.Wrote) {
			return bulk.Built{}, fmt.Errorf("%w: etcd %d.%d wrote it, and etcd %s, which is to run it, does not read that; --to-version names one that does", bulk.ErrBadSource, src.Wrote.Major, src.Wrote.Minor, o.Version)
		}
		o.Source.Wrote = src.Wrote
	}
	tool, err := s.tool(ctx, o)
	if err != nil {
		return bulk.Built{}, err
	}
	restored, err := snapshot.Restore(ctx, snapshot.RestoreOptions{
		Snapshot: file, Verified: sum, UseUp: true, DataDir: filepath.Join(dir, dirBuilt), Release: tool, Name: string(o.Name), PeerURLs: o.PeerURLs,
		Token: o.Token, Revision: src.RevisionTarget, Above: cluster.RevisionMargin,
		Progress: func(done, _ int64) { progress(cluster.StageBuilding, done) },
	})
	if err != nil {
		return bulk.Built{}, hopeless(fmt.Errorf("build a data directory from it: %w", err))
	}
	if err := s.d.disk.MarkData(filepath.Join(dir, dirBuilt), o.Token, o.Disk); err != nil {
		return bulk.Built{}, err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) { // its content is in what was built
		return bulk.Built{}, fmt.Errorf("make room after staging: %w", err)
	}
	src.Revision, src.RevisionTarget = restored.From, max(src.RevisionTarget, restored.Revision)
	if !restored.RevisionsGoBack {
		src.Tool = tool.Version
	}
	return bulk.Built{Source: src, Cluster: restored.Cluster, Member: restored.Member}, nil
}

// reads: etcd serves data of its own line and of the one before.
func reads(run, wrote cluster.Version) bool {
	return wrote.IsZero() || run.SameMinor(wrote) || run.Major == wrote.Major && run.Minor == wrote.Minor+1
}

// hopeless marks what another host could not do better either.
func hopeless(err error) error {
	for _, bad := range []error{backupstore.ErrNoBackup, backupstore.ErrDamaged, snapshot.ErrDamaged, snapshot.ErrNoHash} {
		if errors.Is(err, bad) {
			return fmt.Errorf("%w: %w", bulk.ErrBadSource, err)
		}
	}
	return err
}

// fetch brings the source to a file: a snapshot with its hash at the end.
func (s *sources) fetch(ctx context.Context, o bulk.StageOrder, file string, progress func(int64)) (cluster.Source, error) {
	src := o.Source
	switch src.Kind {
	case cluster.SourceBackup:
		if keyByKey(o) {
			return src, s.fetchByKeys(ctx, o, file, progress)
		}
		name, err := backup.ParseName(src.Backup)
		if err != nil {
			return src, fmt.Errorf("%w: %w", bulk.ErrBadSource, err)
		}
		ids, err := s.identities()
		if err != nil {
			return src, err
		}
		if _, err = s.catalogue.Fetch(ctx, name, file, ids, backupstore.SyncedLater, progress); err != nil {
			return src, fmt.Errorf("fetch backup %s: %w", name, withKeyHint(err))
		}
		return src, nil
	case cluster.SourceSurvivor, cluster.SourceSetAside, cluster.SourceHalted:
		from, err := s.dataOf(o)
		if err != nil {
			return src, err
		}
		if keyByKey(o) {
			return src, s.convert(ctx, o, from, file, progress)
		}
		r, err := s.ofLine(ctx, src.Wrote)
		if err != nil {
			return src, fmt.Errorf("find the etcd that wrote the data: %w", err)
		}
		_, err = snapshot.Extract(ctx, snapshot.ExtractOptions{DataDir: from, File: file, Release: r})
		return src, err
	}
	return src, fmt.Errorf("%w: no release of etcdadm knows the kind %q", bulk.ErrBadSource, src.Kind)
}

// fetchByKeys makes a snapshot of a backup of etcd 2.
func (s *sources) fetchByKeys(ctx context.Context, o bulk.StageOrder, file string, progress func(int64)) error {
	data, err := s.fetchV2(ctx, o, filepath.Dir(file), progress)
	if err != nil {
		return err
	}
	if err := s.convert(ctx, o, data, file, progress); err != nil {
		return err
	}
	return os.RemoveAll(data) // what it holds is in the snapshot
}

// ofLine is a release, or where it is not at hand the newest of its minor: data
// that was set aside may say no more than that.
func (s *sources) ofLine(ctx context.Context, v cluster.Version) (release.Release, error) {
	best := v
	for _, r := range s.d.releases.versions() {
		if r == v {
			best = v
			break
		}
		if r.SameMinor(v) && (best == v || r.Compare(best) > 0) {
			best = r
		}
	}
	return s.d.releases.finder.Find(ctx, best.String())
}

// identities are this host's secret keys of backups, read anew each time: they
// may be put there just for a restore.
func (s *sources) identities() (backupstore.Identities, error) {
	ids, err := s.d.cfg.Backups.Identities()
	if errors.Is(err, os.ErrNotExist) {
		return backupstore.Identities{}, nil // then only encrypted ones cannot be read
	}
	return ids, err
}

// decrypts reports whether there is a secret key on this host now.
func (s *sources) decrypts() bool {
	ok, err := s.d.cfg.Backups.Decrypts()
	s.said.error("identities", "the secret keys of backups cannot be read", err)
	return ok
}

// withKeyHint says what is missing where a backup is encrypted.
func withKeyHint(err error) error {
	if errors.Is(err, backupstore.ErrEncrypted) {
		return fmt.Errorf("%w; put the secret key on this host, where --backup-identity-file of its daemon names it", err)
	}
	return err
}

// trailer is the SHA-256 that a snapshot ends with. Whoever wrote the file has
// just held the content against it.
func trailer(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := make([]byte, 32)
	if _, err := f.Seek(-int64(len(sum)), io.SeekEnd); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(f, sum); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum), nil
}

// tool is the release whose tool restores: the one that wrote the data, else
// the newest of its minor, else the one that is to run it. Across lines it is the
// one that is to run it: that is what reads the snapshot.
func (s *sources) tool(ctx context.Context, o bulk.StageOrder) (release.Release, error) {
	best := o.Version
	for _, v := range s.d.releases.versions() {
		switch {
		case o.Source.Kind == cluster.SourceHalted || keyByKey(o):
		case v == o.Source.Wrote:
			best = v
		case best != o.Source.Wrote && v.SameMinor(o.Source.Wrote) && (!best.SameMinor(o.Source.Wrote) || v.Compare(best) > 0):
			best = v
		}
	}
	r, err := s.d.releases.finder.Find(ctx, best.String())
	if err != nil {
		return release.Release{}, fmt.Errorf("find the etcd whose tool restores: %w", err)
	}
	return r, nil
}

// Install implements host.Sources.
func (s *sources) Install(token string, disk cluster.DiskID) error {
	if err := s.d.disk.Install(filepath.Join(s.staging(token), dirBuilt), token, disk); err != nil {
		return err
	}
	s.d.watch.restores.Inc()
	return s.DropStaged(token)
}

// DropStaged implements host.Sources.
func (s *sources) DropStaged(token string) error {
	if token == "" || token != filepath.Base(token) {
		return fmt.Errorf("take away what was staged: %q is no token", token)
	}
	return os.RemoveAll(s.staging(token))
}

// V2InLog implements host.Sources.
func (s *sources) V2InLog(ctx context.Context, token string) (bool, error) {
	return snapshot.V2InLog(ctx, s.d.disk.DataDir(token))
}

// LogEnd implements host.Sources.
func (s *sources) LogEnd(ctx context.Context, token string, progress func(cluster.LogReading)) (cluster.Progress, error) {
	last, err := s.ends.Of(ctx, s.d.disk.DataDir(token), progress)
	return cluster.Progress{Term: last.Term, Index: last.Index}, err
}

// Received implements host.Sources: etcd writes raft's snapshot last, when the
// database that came with it is complete.
func (s *sources) Received(token string) time.Duration {
	files, err := filepath.Glob(filepath.Join(s.d.disk.DataDir(token), "member", "snap", "*.snap"))
	if err != nil {
		return 0
	}
	var newest time.Time
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if newest.IsZero() {
		return 0
	}
	return max(time.Since(newest), 0)
}

// Room implements host.Sources.
func (s *sources) FreeSpace() int64 {
	var st unix.Statfs_t
	if unix.Statfs(s.d.cfg.DataDir, &st) != nil {
		return 0
	}
	return int64(min(st.Bavail, 1<<40)) * st.Bsize
}
