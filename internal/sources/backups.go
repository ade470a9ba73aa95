package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/cores"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/record"
)

// hashTimeout bounds the hash of all keys that is kept with a backup; without
// it a drill compares the contents only.
const hashTimeout = 30 * time.Second

// countTimeout bounds the count of all keys.
const countTimeout = 10 * time.Second

// Backup implements bulk.Sources.
func (s *Sources) Backup(ctx context.Context, l record.Launch, o bulk.BackupOrder) (cluster.Backup, error) {
	defer cores.TakeAll()()
	b, err := s.backUp(ctx, l, backupstore.Request{
		Meta: metaOf(o.Spec), KeepFor: o.KeepFor,
		Manifest: backup.Manifest{Cluster: s.o.Cluster, Host: s.o.Host, Reason: backup.Reason(o.Reason)},
	})
	s.o.Backed(err)
	if err != nil {
		return cluster.Backup{}, err
	}
	return AsBackup(b), nil
}

func (s *Sources) backUp(ctx context.Context, l record.Launch, req backupstore.Request) (backupstore.Backup, error) {
	if !l.Version.Has(cluster.V3API) {
		return s.backupV2(ctx, l, req)
	}
	c, err := etcd.New(s.o.Etcd(l))
	if err != nil {
		return backupstore.Backup{}, fmt.Errorf("reach the own member: %w", err)
	}
	defer c.Close()
	return SnapshotInto(ctx, c, s.o.Catalogue, s.o.Packing, req)
}

func metaOf(spec *cluster.Spec) (m backup.Meta) {
	if spec != nil {
		m.MemberCount, m.SpecVersion = spec.MemberCount, spec.EtcdVersion
	}
	return m
}

// SnapshotInto backs a member up. What it says of itself is added to the request.
func SnapshotInto(ctx context.Context, c *etcd.Client, to *backupstore.Catalogue, packing backupstore.Packing, req backupstore.Request) (backupstore.Backup, error) {
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
	// What answers now is what the stream comes from, or its end is an error. It was
	// perhaps not there yet when it was asked who it is: the hash takes its time.
	switch now, err := c.LocalStatus(ctx); {
	case err != nil:
		return backupstore.Backup{}, fmt.Errorf("look at the own member again: %w", err)
	case now.Version != st.Version || now.Cluster != st.Cluster || now.Member != st.Member:
		return backupstore.Backup{}, fmt.Errorf("the member was restarted while its backup began: it was member %s of cluster %s with etcd %s, and now is member %s of cluster %s with etcd %s",
			st.Member, st.Cluster, st.Version, now.Member, now.Cluster, now.Version)
	}
	m.StorageVersion = snap.StorageVersion
	req.Count = func(ctx context.Context, revision int64) *int64 { return count(ctx, c, revision) }
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

// count is the number of keys; nil when the member does not say it soon, or no
// longer, as after a compaction. It costs the member less than the hash does.
func count(ctx context.Context, c *etcd.Client, revision int64) *int64 {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n, err := c.CountKeys(ctx, revision)
	if err != nil {
		return nil
	}
	return &n
}

// Tidy implements bulk.Sources: it removes the backups that the policy does not keep,
// and what writers left unfinished.
func (s *Sources) Tidy(ctx context.Context) {
	Tidy(ctx, s.o.Catalogue, s.o.Folder, s.o.Policy, s.o.Log, s.said.Say)
}

// Tidy removes what the policy does not keep, and what writers left unfinished; sayOnce is
// told of what does not work, and with a nil error that it does.
func Tidy(ctx context.Context, c *backupstore.Catalogue, f *control.Folder, policy backup.Policy, log *slog.Logger, sayOnce func(topic, what string, err error)) {
	used, err := UsedBackups(ctx, f)
	if sayOnce("used", "cannot see which backups are used, and removes none", err); err != nil {
		return
	}
	now := time.Now()
	verdicts, err := c.Prune(ctx, policy, used, now)
	removed := slices.DeleteFunc(slices.Clone(verdicts), func(v backup.Verdict) bool { return v.Keep || stays(err, v.Name) })
	err = allowRetained(err, sayOnce)
	sayOnce("prune", "cannot remove backups that are not kept any longer", err)
	if len(removed) > 0 && err == nil {
		log.Info("backups removed that are not kept any longer", "count", len(removed), "oldest", removed[len(removed)-1].Name)
	}
	_, err = c.CleanUp(ctx, unfinishedAge, now)
	sayOnce("clean up", "cannot remove what unfinished backups left", allowRetained(err, sayOnce))
}

// stays says whether a removal was refused.
func stays(err error, name backup.Name) bool {
	var refused *backupstore.RemoveError
	return errors.As(err, &refused) && slices.Contains(refused.Refused, name)
}

// allowRetained says once that the store keeps what is to go, which is somebody's
// wish and no failure, and gives what else went wrong. The words are always the
// same: there is another such backup every hour.
func allowRetained(err error, sayOnce func(topic, what string, err error)) error {
	var refused *backupstore.RemoveError
	if !errors.As(err, &refused) || len(refused.Retained) == 0 {
		return err
	}
	sayOnce("retained", "the store keeps backups that the policy would remove; each is tried again after "+backupstore.RetainedAgain.String(), blob.ErrRetained)
	if refused.OnlyRetained() {
		return nil
	}
	return err
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
