package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
)

// sources is the host's long work with data: backups, and what new generations
// are made from.
type sources struct {
	d         *daemon
	catalogue *backupstore.Catalogue
	packing   backupstore.Packing
	policy    backup.Policy
	said      once
}

var _ host.Sources = (*sources)(nil)

func newSources(d *daemon) (*sources, error) {
	s := &sources{d: d, catalogue: backupstore.New(d.store), said: once{log: d.log}}
	var err error
	if s.packing, err = d.cfg.Backups.Packing(); err != nil {
		return nil, err
	}
	if s.policy, err = d.cfg.Backups.Policy(os.Getenv); err != nil {
		return nil, &Error{Problem: "how long backups are kept", Err: err, Advice: "a duration such as 7d or 2y"}
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
func (s *sources) Stage(ctx context.Context, o host.StageOrder, progress func(cluster.StageState, int64)) (host.Built, error) {
	defer takeAllCores()()
	dir := s.staging(o.Token)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return host.Built{}, fmt.Errorf("make room for what is staged: %w", err)
	}
	file := filepath.Join(dir, fileSnapshot)
	src, err := s.fetch(ctx, o, file, func(n int64) { progress(cluster.StageFetching, n) })
	if err != nil {
		return host.Built{}, hopeless(err)
	}
	sum, err := trailer(file)
	if err != nil {
		return host.Built{}, fmt.Errorf("read what was fetched: %w", err)
	}
	if src.SHA256 != "" && src.SHA256 != sum {
		return host.Built{}, fmt.Errorf("%w: its SHA-256 is %s, and %s was recorded", host.ErrBadSource, sum, src.SHA256)
	}
	src.SHA256 = sum
	tool, err := s.tool(ctx, o)
	if err != nil {
		return host.Built{}, err
	}
	restored, err := snapshot.Restore(ctx, snapshot.RestoreOptions{
		Snapshot: file, Verified: sum, DataDir: filepath.Join(dir, dirBuilt), Release: tool, Name: string(o.Name), PeerURLs: o.PeerURLs,
		Token: o.Token, Revision: src.RevisionTarget, Above: cluster.RevisionMargin,
		Progress: func(done, _ int64) { progress(cluster.StageBuilding, done) },
	})
	if err != nil {
		return host.Built{}, hopeless(fmt.Errorf("build a data directory from it: %w", err))
	}
	if err := s.d.disk.MarkData(filepath.Join(dir, dirBuilt), o.Token, o.Disk); err != nil {
		return host.Built{}, err
	}
	if err := os.Remove(file); err != nil { // its content is in what was built
		return host.Built{}, fmt.Errorf("make room after staging: %w", err)
	}
	src.Revision, src.RevisionTarget = restored.From, max(src.RevisionTarget, restored.Revision)
	if !restored.RevisionsGoBack {
		src.Tool = tool.Version
	}
	return host.Built{Source: src, Cluster: restored.Cluster, Member: restored.Member}, nil
}

// hopeless marks what another host could not do better either.
func hopeless(err error) error {
	for _, bad := range []error{backupstore.ErrNoBackup, backupstore.ErrDamaged, snapshot.ErrDamaged, snapshot.ErrNoHash} {
		if errors.Is(err, bad) {
			return fmt.Errorf("%w: %w", host.ErrBadSource, err)
		}
	}
	return err
}

// fetch brings the source to a file: a snapshot with its hash at the end.
func (s *sources) fetch(ctx context.Context, o host.StageOrder, file string, progress func(int64)) (cluster.Source, error) {
	src := o.Source
	switch src.Kind {
	case cluster.SourceBackup:
		name, err := backup.ParseName(src.Backup)
		if err != nil {
			return src, fmt.Errorf("%w: %w", host.ErrBadSource, err)
		}
		ids, err := s.identities()
		if err != nil {
			return src, err
		}
		if _, err = s.catalogue.Download(ctx, name, file, ids, progress); err != nil {
			return src, fmt.Errorf("fetch backup %s: %w", name, withKeyHint(err))
		}
		return src, nil
	case cluster.SourceSurvivor, cluster.SourceSetAside:
		from := s.d.disk.DataDir(o.From)
		if src.Kind == cluster.SourceSetAside {
			var err error
			if from, err = s.d.disk.AsideDir(src.Dir); err != nil {
				return src, fmt.Errorf("%w: %w", host.ErrBadSource, err)
			}
		}
		r, err := s.d.releases.finder.Find(ctx, src.Wrote.String())
		if err != nil {
			return src, fmt.Errorf("find the etcd that wrote the data: %w", err)
		}
		_, err = snapshot.Extract(ctx, snapshot.ExtractOptions{DataDir: from, File: file, Release: r})
		return src, err
	}
	return src, fmt.Errorf("%w: no release of etcdadm knows the kind %q", host.ErrBadSource, src.Kind)
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
// the newest of its minor, else the one that is to run it.
func (s *sources) tool(ctx context.Context, o host.StageOrder) (release.Release, error) {
	best := o.Version
	for _, v := range s.d.releases.versions() {
		switch {
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

// LogEnd implements host.Sources.
func (s *sources) LogEnd(_ context.Context, token string) (cluster.Progress, error) {
	last, err := snapshot.LogEnd(s.d.disk.DataDir(token))
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
func (s *sources) Room() int64 {
	var st unix.Statfs_t
	if unix.Statfs(s.d.cfg.DataDir, &st) != nil {
		return 0
	}
	return int64(min(st.Bavail, 1<<40)) * st.Bsize
}

// hashTimeout bounds the hash of all keys that is kept with a backup; without
// it a drill compares the contents only.
const hashTimeout = 30 * time.Second

// Backup implements host.Sources.
func (s *sources) Backup(ctx context.Context, l host.Launch, o host.BackupOrder) (cluster.Backup, error) {
	defer takeAllCores()()
	c, err := s.d.etcdClient(l)
	if err != nil {
		return cluster.Backup{}, fmt.Errorf("reach the own member: %w", err)
	}
	defer c.Close()
	b, err := snapshotInto(ctx, c, s.catalogue, s.packing, backupstore.Request{
		Meta:     metaOf(o.Spec),
		Manifest: backup.Manifest{Cluster: s.d.cfg.ClusterName, Host: s.d.id, Reason: backup.Reason(o.Reason)},
	})
	s.d.watch.backups.WithLabelValues(resultOf(err)).Inc()
	if err != nil {
		return cluster.Backup{}, err
	}
	s.tidy(ctx)
	return asBackup(b), nil
}

func metaOf(spec *cluster.Spec) (m backup.Meta) {
	if spec != nil {
		m.MemberCount, m.SpecVersion = spec.MemberCount, spec.EtcdVersion
	}
	return m
}

// snapshotInto backs a member up. What it says of itself is added to the request.
func snapshotInto(ctx context.Context, c *etcd.Client, to *backupstore.Catalogue, packing backupstore.Packing, req backupstore.Request) (backupstore.Backup, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return backupstore.Backup{}, fmt.Errorf("look at the own member: %w", err)
	}
	req.Compression, req.Recipients = packing.Compression, packing.Recipients
	req.Meta.EtcdVersion = st.Version
	m := &req.Manifest
	m.ClusterID, m.MemberID, m.EtcdVersion = st.Cluster, st.Member, st.Version
	m.Position = backup.Position{Revision: st.Revision, Term: st.Term, Index: st.Applied, Hash: hash(ctx, c, st.Revision)}
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return backupstore.Backup{}, fmt.Errorf("read the own member's database: %w", err)
	}
	defer snap.Close()
	m.StorageVersion = snap.StorageVersion
	return to.Write(ctx, req, snap)
}

// hash is what a drill compares with; nil when the member does not say it soon.
func hash(ctx context.Context, c *etcd.Client, revision int64) *backup.Hash {
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	h, err := c.HashKV(ctx, revision)
	if err != nil {
		return nil
	}
	return &backup.Hash{Hash: h.Hash, Revision: h.Revision, Compacted: h.Compacted}
}

// tidy removes the backups that the policy does not keep, and what writers left
// unfinished. That it failed takes nothing from the backup just taken.
func (s *sources) tidy(ctx context.Context) {
	tidy(ctx, s.catalogue, s.d.folder, s.policy, s.d.log, s.said.error)
}

func tidy(ctx context.Context, c *backupstore.Catalogue, f *control.Folder, policy backup.Policy, log *slog.Logger, sayOnce func(topic, what string, err error)) {
	used, err := UsedBackups(ctx, f)
	if sayOnce("used", "cannot see which backups are used, and removes none", err); err != nil {
		return
	}
	now := time.Now()
	verdicts, err := c.Prune(ctx, policy, used, now)
	sayOnce("prune", "cannot remove backups that are not kept any longer", err)
	if removed := slices.DeleteFunc(slices.Clone(verdicts), func(v backup.Verdict) bool { return v.Keep }); len(removed) > 0 && err == nil {
		log.Info("backups removed that are not kept any longer", "count", len(removed), "oldest", removed[len(removed)-1].Name)
	}
	_, err = c.CleanUp(ctx, unfinishedAge, now)
	sayOnce("clean up", "cannot remove what unfinished backups left", err)
}

// unfinishedAge is longer than anybody's backup may take (host's and
// coprocess's two hours): what is half done after it, nobody is at work on.
const unfinishedAge = 3 * time.Hour

// UsedBackups are those that must not be removed, with what refers to them;
// together with control.ErrOtherCluster, those of that cluster.
func UsedBackups(ctx context.Context, f *control.Folder) (map[backup.Name]string, error) {
	in, _, _, err := f.ReadIntent(ctx)
	used := map[backup.Name]string{}
	if in != nil {
		if name, err := backup.ParseName(in.Source.Backup); err == nil {
			used[name] = fmt.Sprintf("generation %d was made from it", in.Generation)
		}
	}
	return used, err
}

// catalogueView is what the leader is told of the backups.
type catalogueView struct{ catalogue *backupstore.Catalogue }

// List implements manager.Catalogue: the newest few are described.
func (v catalogueView) List(ctx context.Context) ([]cluster.Backup, error) {
	entries, err := v.catalogue.List(ctx)
	if err != nil {
		return nil, err
	}
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

// Find implements manager.Catalogue.
func (v catalogueView) Find(ctx context.Context, name string) (cluster.Backup, bool, error) {
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
	out := cluster.Backup{Name: b.Name.String(), At: b.Name.Time(), Version: b.Meta.EtcdVersion, Encrypted: b.Encoding.Encrypted}
	if m := b.Manifest; m != nil {
		out.Revision, out.Bytes, out.Reason, out.Proven = m.Position.Revision, m.Snapshot.Size, string(m.Reason), m.Proven()
		for _, v := range m.Verifications {
			if v.Depth == backup.DepthDrilled && v.OK {
				out.Drilled = v.At
			}
		}
	}
	return out
}
