// Package sources is a host's long work with data: it takes and proves backups, and makes
// ready what new generations begin from.
package sources

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/cores"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/say"
	"etcdadm.io/internal/snapshot"
	"golang.org/x/sys/unix"
)

// Options say of whom the work is, and what it is done with.
type Options struct {
	Host    cluster.HostID
	Cluster string // its name
	DataDir string
	Disk    *datadir.Dir

	Catalogue *backupstore.Catalogue
	Folder    *control.Folder
	Packing   backupstore.Packing
	Policy    backup.Policy
	Choices   backupstore.Choices // where secret keys of backups are

	Finder   *release.Finder
	Versions func() []cluster.Version // the releases that are here
	// Etcd is how the own member is reached that was launched like this.
	Etcd func(record.Launch) etcd.Config

	Log      *slog.Logger
	Backed   func(error) // told how each backup came out
	Drilled  func(error) // told how each restore test came out
	Restored func()      // told of data that were put in place
}

// Sources is a host's long work with data: backups, and what new generations are made
// from. It implements the host's interface of that name.
type Sources struct {
	o    Options
	said *say.Once
	ends snapshot.LogEnds
}

var _ bulk.Sources = (*Sources)(nil)

// New also takes away what a daemon before was trying out.
func New(o Options) *Sources {
	s := &Sources{o: o, said: say.NewOnce(o.Log)}
	if err := errors.Join(s.clearDrills(), os.RemoveAll(filepath.Join(o.Disk.StateDir(), dirBackup))); err != nil {
		o.Log.Warn("what a daemon before was trying out is left", "err", err) // tried again with the next one
	}
	return s
}

// dirStaging lies below the state directory: one directory a token, gone once
// it was moved into place.
const (
	dirStaging   = "staging"
	fileSnapshot = "snapshot.db"
	dirBuilt     = "data"
)

func (s *Sources) staging(token string) string {
	return filepath.Join(s.o.Disk.StateDir(), dirStaging, token)
}

// Stage implements bulk.Sources.
func (s *Sources) Stage(ctx context.Context, o bulk.StageOrder, progress func(cluster.StageState, int64)) (bulk.Built, error) {
	defer cores.TakeAll()()
	ctx, end := s.working(ctx, "making a source ready")
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

func (s *Sources) stage(ctx context.Context, o bulk.StageOrder, dir string, progress func(cluster.StageState, int64)) (bulk.Built, error) {
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
	if err := s.o.Disk.MarkData(filepath.Join(dir, dirBuilt), o.Token, o.Disk); err != nil {
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
func (s *Sources) fetch(ctx context.Context, o bulk.StageOrder, file string, progress func(int64)) (cluster.Source, error) {
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
		if _, err = s.o.Catalogue.Fetch(ctx, name, file, ids, backupstore.SyncedLater, progress); err != nil {
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
func (s *Sources) fetchByKeys(ctx context.Context, o bulk.StageOrder, file string, progress func(int64)) error {
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
func (s *Sources) ofLine(ctx context.Context, v cluster.Version) (release.Release, error) {
	best := v
	for _, r := range s.o.Versions() {
		if r == v {
			best = v
			break
		}
		if r.SameMinor(v) && (best == v || r.Compare(best) > 0) {
			best = r
		}
	}
	return s.o.Finder.Find(ctx, best.String())
}

// identities are this host's secret keys of backups, read anew each time: they
// may be put there just for a restore.
func (s *Sources) identities() (backupstore.Identities, error) {
	ids, err := s.o.Choices.Identities()
	if errors.Is(err, os.ErrNotExist) {
		return backupstore.Identities{}, nil // then only encrypted ones cannot be read
	}
	return ids, err
}

// Decrypts reports whether there is a secret key on this host now.
func (s *Sources) Decrypts() bool {
	ok, err := s.o.Choices.Decrypts()
	s.said.Say("identities", "the secret keys of backups cannot be read", err)
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
func (s *Sources) tool(ctx context.Context, o bulk.StageOrder) (release.Release, error) {
	best := o.Version
	for _, v := range s.o.Versions() {
		switch {
		case o.Source.Kind == cluster.SourceHalted || keyByKey(o):
		case v == o.Source.Wrote:
			best = v
		case best != o.Source.Wrote && v.SameMinor(o.Source.Wrote) && (!best.SameMinor(o.Source.Wrote) || v.Compare(best) > 0):
			best = v
		}
	}
	r, err := s.o.Finder.Find(ctx, best.String())
	if err != nil {
		return release.Release{}, fmt.Errorf("find the etcd whose tool restores: %w", err)
	}
	return r, nil
}

// Install implements bulk.Sources.
func (s *Sources) Install(token string, disk cluster.DiskID) error {
	if err := s.o.Disk.Install(filepath.Join(s.staging(token), dirBuilt), token, disk); err != nil {
		return err
	}
	s.o.Restored()
	return s.DropStaged(token)
}

// DropStaged implements bulk.Sources.
func (s *Sources) DropStaged(token string) error {
	if token == "" || token != filepath.Base(token) {
		return fmt.Errorf("take away what was staged: %q is no token", token)
	}
	return os.RemoveAll(s.staging(token))
}

// V2InLog implements bulk.Sources.
func (s *Sources) V2InLog(ctx context.Context, token string) (bool, error) {
	return snapshot.V2InLog(ctx, s.o.Disk.DataDir(token))
}

// LogEnd implements bulk.Sources.
func (s *Sources) LogEnd(ctx context.Context, token string, progress func(cluster.LogReading)) (cluster.Progress, error) {
	last, err := s.ends.Of(ctx, s.o.Disk.DataDir(token), progress)
	return cluster.Progress{Term: last.Term, Index: last.Index}, err
}

// Received implements bulk.Sources: etcd writes raft's snapshot last, when the
// database that came with it is complete.
func (s *Sources) Received(token string) time.Duration {
	files, err := filepath.Glob(filepath.Join(s.o.Disk.DataDir(token), "member", "snap", "*.snap"))
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

// FreeSpace implements bulk.Sources.
func (s *Sources) FreeSpace() int64 {
	var st unix.Statfs_t
	if unix.Statfs(s.o.DataDir, &st) != nil {
		return 0
	}
	return int64(min(st.Bavail, 1<<40)) * st.Bsize
}
