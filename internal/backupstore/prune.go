package backupstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/progress"
)

// MinUnfinishedAge is the least age at which CleanUp takes a folder without a
// meta for abandoned.
const MinUnfinishedAge = time.Hour

// Expire says for every backup whether the policy keeps it. Used are those that
// something refers to, with what does. It removes nothing.
//
// Ages count up to the newest backup's writing, by the store's clock, where now is
// later: a clock that is ahead removes nothing early, and time in which no backup
// was taken takes none away.
//
// It costs one listing, and the manifests of what would be removed: whether a
// backup is pinned, proven or kept for a time matters only where it could go. One that
// is kept for a time costs its manifest once.
func (c *Catalogue) Expire(ctx context.Context, p backup.Policy, used map[backup.Name]string, now time.Time) ([]backup.Verdict, error) {
	verdicts, err := c.expire(ctx, p, used, now)
	if err != nil {
		return nil, fmt.Errorf("expire backups: %w", err)
	}
	return verdicts, nil
}

func (c *Catalogue) expire(ctx context.Context, p backup.Policy, used map[backup.Name]string, now time.Time) ([]backup.Verdict, error) {
	entries, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	now = atMost(now, entries)
	all := make([]backup.Candidate, len(entries))
	at := make(map[backup.Name]int, len(entries))
	for i, e := range entries {
		all[i] = backup.Candidate{Name: e.Name, Used: used[e.Name], Retained: c.retained.has(e.Name, now)}
		at[e.Name] = i
		if until, known := c.kept.Load(e.Name); known {
			all[i].KeepUntil = until.(time.Time)
		}
	}
	// Another reason to keep one backup never removes a different one, so only
	// those that would go by their names have to be looked at.
	var leaving []Entry
	for _, v := range backup.Expire(p, all, now) {
		if e := entries[at[v.Name]]; !v.Keep && e.HasManifest {
			leaving = append(leaving, e)
		}
	}
	newestProven := -1
	if err := c.look(ctx, leaving, func(b Backup, pinned string) {
		i := at[b.Name]
		all[i].Pinned, all[i].Proven = pinned, b.Proven()
		if b.Manifest != nil && b.Manifest.KeepUntil.After(all[i].KeepUntil) {
			all[i].KeepUntil = b.Manifest.KeepUntil
			c.kept.Store(b.Name, b.Manifest.KeepUntil)
		}
		if all[i].Proven && (newestProven < 0 || i < newestProven) {
			newestProven = i
		}
	}); err != nil {
		return nil, err
	}
	// A proven one may go only if a newer one is proven as well. Entries are
	// sorted newest first, and it is seldom far from there.
	for i, done := 0, false; i < newestProven && !done; i += together {
		err := c.look(ctx, entries[i:min(i+together, newestProven)], func(b Backup, _ string) {
			all[at[b.Name]].Proven = b.Proven()
			done = done || b.Proven() && !b.Name.Time().After(now)
		})
		if err != nil {
			return nil, err
		}
	}
	return backup.Expire(p, all, now), nil
}

// atMost is now, or the store's time of the newest of the backups where that is earlier.
func atMost(now time.Time, entries []Entry) time.Time {
	var newest time.Time
	for _, e := range entries {
		if e.Modified.After(newest) {
			newest = e.Modified
		}
	}
	if newest.IsZero() || newest.After(now) {
		return now
	}
	return newest
}

// look reads the manifests of entries that have one, and then calls a function
// with each. A backup whose manifest cannot be understood counts as pinned: it
// may be of a later release, and say so itself.
func (c *Catalogue) look(ctx context.Context, entries []Entry, found func(b Backup, pinned string)) error {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.HasManifest })
	backups, err := c.Describe(ctx, entries)
	if err != nil {
		return err
	}
	for _, b := range backups {
		pinned := "its manifest cannot be read"
		if b.Manifest != nil {
			pinned = b.Manifest.Pinned
		}
		found(b, pinned)
	}
	return nil
}

// RemoveError says that a store refused to remove backups, as one with object
// lock does. It is one error for all of them.
type RemoveError struct {
	// Refused are the backups that are listed or whose files are there still.
	Refused []backup.Name
	// Retained are those of them that a lock, a hold or a retention period of
	// the store keeps. Prune and CleanUp try them again after RetainedAgain.
	Retained []backup.Name
	Err      error // about the first of those that nothing of that kind keeps, if there is one
}

// OnlyRetained says that the store did nothing but what somebody wants of it.
func (e *RemoveError) OnlyRetained() bool { return len(e.Retained) == len(e.Refused) }

func (e *RemoveError) Error() string {
	first := e.Refused[0]
	for _, n := range e.Refused {
		if !slices.Contains(e.Retained, n) {
			first = n
			break
		}
	}
	return fmt.Sprintf("remove %d backups, the first of them %s: %v", len(e.Refused), first, e.Err)
}

// Unwrap gives the cause.
func (e *RemoveError) Unwrap() error { return e.Err }

// Prune removes what the policy does not keep. The verdicts are on all
// backups; the error is a *RemoveError when a part of them could not be
// removed.
func (c *Catalogue) Prune(ctx context.Context, p backup.Policy, used map[backup.Name]string, now time.Time) ([]backup.Verdict, error) {
	verdicts, err := c.Expire(ctx, p, used, now)
	if err != nil {
		return nil, err
	}
	var names []backup.Name
	for _, v := range verdicts {
		if !v.Keep {
			names = append(names, v.Name)
		}
	}
	return verdicts, c.remove(ctx, names, now)
}

// Remove removes backups, each one's meta first, so that none is ever listed of
// which a part is gone. A name that is not there is no error.
func (c *Catalogue) Remove(ctx context.Context, names ...backup.Name) error {
	return c.remove(ctx, names, time.Now())
}

func (c *Catalogue) remove(ctx context.Context, names []backup.Name, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if _, err := backup.ParseName(string(n)); err != nil {
			return fmt.Errorf("remove backups: %w", err)
		}
	}
	folders, err := c.folders(ctx, "")
	if err != nil {
		return fmt.Errorf("remove backups: %w", err)
	}
	folders = slices.DeleteFunc(folders, func(f folder) bool { return !slices.Contains(names, backup.Name(f.name)) })
	return c.removeAll(ctx, folders, now)
}

// removeAll removes folders, several at a time, the oldest first.
func (c *Catalogue) removeAll(ctx context.Context, folders []folder, now time.Time) error {
	var mu sync.Mutex // guards refused
	refused := map[backup.Name]error{}
	step := progress.Begin(ctx, int64(len(folders)), progress.Backups, "removing backups")
	err := each(ctx, len(folders), func(ctx context.Context, i int) error {
		err := c.removeFolder(ctx, folders[i])
		step.Add(1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			refused[backup.Name(folders[i].name)] = err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove backups: %w", err)
	}
	if len(refused) == 0 {
		return nil
	}
	failed := &RemoveError{Refused: slices.SortedFunc(maps.Keys(refused), backup.Name.Compare)}
	for _, n := range failed.Refused {
		switch err := refused[n]; {
		case errors.Is(err, blob.ErrRetained):
			c.retained.add(n, now)
			failed.Retained = append(failed.Retained, n)
		case failed.Err == nil:
			failed.Err = err
		}
	}
	if failed.Err == nil {
		failed.Err = refused[failed.Refused[0]]
	}
	return failed
}

// removal is the order in which a folder's files go. The claim goes before the
// snapshot, so that its writer, should it come back, finds that it has lost.
var removal = []string{backup.FileMeta, fileClaim}

// removeFolder removes the files that are a backup's, and stops at the first
// that stays: before the meta is gone nothing else may go.
func (c *Catalogue) removeFolder(ctx context.Context, f folder) error {
	rank := func(file string) int {
		if i := slices.Index(removal, file); i >= 0 {
			return i
		}
		return len(removal)
	}
	files := f.names()
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for _, file := range files {
		if !isBackupFile(file) {
			continue // somebody put it there
		}
		if err := c.deleteFile(ctx, backup.Name(f.name), file); err != nil {
			return err
		}
	}
	return nil
}

func isBackupFile(file string) bool {
	_, snapshot := backup.EncodingOf(file)
	return snapshot || file == backup.FileMeta || file == backup.FileManifest || file == fileClaim
}

func (c *Catalogue) deleteFile(ctx context.Context, name backup.Name, file string) error {
	ctx, cancel := context.WithTimeout(ctx, ObjectTimeout)
	defer cancel()
	return c.store.Delete(ctx, key(name, file))
}

// CleanUp removes what writers left that did not come to an end: folders
// without a meta, by their names and by the store's clock older than the given
// age (at least MinUnfinishedAge). It says which ones, also with an error.
func (c *Catalogue) CleanUp(ctx context.Context, age time.Duration, now time.Time) ([]backup.Name, error) {
	before := now.Add(-max(age, MinUnfinishedAge))
	folders, err := c.folders(blob.Whole(ctx), "") // a meta that the listing lacks would make a backup an unfinished one
	if err != nil {
		return nil, fmt.Errorf("clean up backups: %w", err)
	}
	var left []backup.Name
	folders = slices.DeleteFunc(folders, func(f folder) bool {
		name, err := backup.ParseName(f.name)
		if err != nil || f.has(backup.FileMeta) || !slices.ContainsFunc(f.names(), isBackupFile) {
			return true
		}
		if name.Time().After(before) || f.unfinished(name).Modified.After(before) || c.retained.has(name, now) {
			return true
		}
		left = append(left, name)
		return false
	})
	err = c.removeAll(ctx, folders, now)
	if refused := (*RemoveError)(nil); errors.As(err, &refused) {
		left = slices.DeleteFunc(left, func(n backup.Name) bool { return slices.Contains(refused.Refused, n) })
	}
	return left, err
}
