package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/regular"
)

// origin is what the cluster is to begin with; of a file before the store has it.
func (o Init) origin() (*cluster.Origin, error) {
	if name, ok := o.named(); ok {
		return &cluster.Origin{Backup: name.String()}, nil
	}
	path, err := filepath.Abs(o.FromBackup)
	if err != nil {
		return nil, err
	}
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &cluster.Origin{File: path, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// sameOrigin: both ask for the same data, wherever the file lies now.
func sameOrigin(a, b *cluster.Origin) bool {
	if a.SHA256 != "" || b.SHA256 != "" {
		return a.SHA256 == b.SHA256
	}
	return a.Backup == b.Backup
}

// beginWith writes down what the cluster begins with, has the store hold it, and queues the restore by which the leading agent
// makes the cluster of it, unless an earlier run did. What is written down first keeps the cluster from beginning empty. Where
// no restore is queued any more, the one before was not possible, and another one may take its place.
func (m *Machine) beginWith(ctx context.Context, folder *control.Folder, backups blob.Store, o Init) error {
	was, err := folder.ReadOrigin(ctx)
	if err != nil {
		return err
	}
	now, err := o.origin()
	if err != nil {
		return err
	}
	name, queued, err := queuedRestore(ctx, folder)
	switch {
	case err != nil:
		return err
	case queued && (was == nil || sameOrigin(was, now)): // nil: an earlier release queued it
		return nil
	case queued:
		return otherOrigin(was, now, "to wait for that one, run init with it again; to give it up: etcdadm queue cancel "+name+", then run this again")
	}
	if err := folder.WriteOrigin(ctx, was, now); err != nil { // of a file the store takes another copy: the one before may be damaged
		return err
	}
	if now.Backup == "" {
		held := *now
		if held.Backup, err = m.takeIn(ctx, o, backups); err != nil {
			return err
		}
		if err := folder.WriteOrigin(ctx, now, &held); err != nil {
			return err
		}
		now = &held
	}
	_, err = folder.AddRestore(ctx, control.RestoreBackup{Spec: cluster.Spec{MemberCount: 1, EtcdVersion: o.Version}, Backup: now.Backup})
	return err
}

// otherOrigin says that the cluster begins, or began, with other data than is asked for.
func otherOrigin(was, now *cluster.Origin, advice string) error {
	what := func(o *cluster.Origin) string {
		if o.SHA256 == "" {
			return o.String()
		}
		return fmt.Sprintf("%s with the SHA-256 %.12s…", o, o.SHA256)
	}
	return &Error{Problem: fmt.Sprintf("the cluster begins with %s, and not with %s", what(was), what(now)), Err: ErrOther, Advice: advice}
}

// queuedRestore is the first restore in the queue.
func queuedRestore(ctx context.Context, folder *control.Folder) (name string, queued bool, err error) {
	all, err := folder.Commands(ctx)
	if err != nil {
		return "", false, err
	}
	i := slices.IndexFunc(all, func(c control.Command) bool { return c.Restore != nil })
	if i < 0 {
		return "", false, nil
	}
	return all[i].Name, true, nil
}

// beginOtherwise is for an init that is run again before the cluster exists: with other data, or empty, because what it was to
// begin with could not be restored.
func (m *Machine) beginOtherwise(ctx context.Context, o Init, s Settings, done *Initialised) error {
	if done.begun { // just now
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout+takeInTimeout)
	defer cancel()
	folder, err := openSoon(ctx, s)
	if err != nil {
		return err
	}
	name, queued, err := queuedRestore(ctx, folder) // before the intent: it is there before a restore leaves the queue
	if err != nil {
		return err
	}
	switch in, marker, _, err := folder.ReadIntent(ctx); {
	case err != nil || in != nil || marker:
		return err
	case !o.Empty:
		if c := m.checkSource(ctx, o, s); c.Standing == Refused {
			return &Error{Problem: c.Found, Err: ErrOther, Advice: c.Remedy}
		}
		backups, err := backupsOf(ctx, s)
		if err != nil {
			return err
		}
		return m.beginWith(ctx, folder, backups, o)
	case queued:
		return &Error{Problem: "a restore is queued, and the cluster begins with it", Err: ErrOther, Advice: "etcdadm queue cancel " + name + ", then run this again"}
	}
	was, err := folder.ReadOrigin(ctx)
	if err != nil || was == nil {
		return err
	}
	return folder.WriteOrigin(ctx, was, nil)
}

// openSoon is openStore for an agent that may have been started just now.
func openSoon(ctx context.Context, s Settings) (*control.Folder, error) {
	tick := time.NewTicker(waitLook)
	defer tick.Stop()
	for until := time.Now().Add(storeTimeout); ; {
		asking, cancel := context.WithDeadline(ctx, until)
		folder, err := openStore(asking, s, false)
		if err == nil {
			_, _, _, err = folder.ReadIntent(asking)
		}
		cancel()
		if err == nil || time.Now().After(until) {
			return folder, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// backupsOf is where the backups of this host lie.
func backupsOf(ctx context.Context, s Settings) (blob.Store, error) {
	if dir, ok := kept.DataDir(s.Store()); ok {
		return kept.Own(ctx, dir)
	}
	return open.Open(ctx, s.Store(), open.Options{})
}

// servesBackup holds what the cluster began with against what was asked: an earlier run may have begun without a backup or with
// another one.
func (m *Machine) servesBackup(ctx context.Context, o Init, s Settings) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout+takeInTimeout)
	defer cancel()
	folder, err := openStore(ctx, s, false)
	if err != nil {
		return err
	}
	in, _, _, err := folder.ReadIntent(ctx)
	if err != nil || in == nil {
		return err
	}
	advice := "if nothing in it is needed: etcdadm reset --force, then run the command again"
	if _, without := kept.DataDir(s.Store()); !without {
		advice += ", with another folder of the store"
	}
	was, err := folder.ReadOrigin(ctx)
	if err != nil {
		return err
	}
	now, err := o.origin()
	path, _ := filepath.Abs(o.FromBackup)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was != nil && was.File == path: // it was removed since
		return nil
	case err != nil:
		return err
	case was != nil && !sameOrigin(was, now):
		return otherOrigin(was, now, advice)
	case was != nil, in.Source.Kind == cluster.SourceBackup && (now.File != "" || in.Source.Backup == now.Backup), in.Generation > 1: // it has lived since
		return nil
	case in.Source.Kind == cluster.SourceBackup:
		return otherOrigin(&cluster.Origin{Backup: in.Source.Backup}, now, advice)
	}
	return &Error{Problem: "the cluster was begun without the data of " + o.FromBackup, Err: ErrOther, Advice: advice}
}
