package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"etcdadm.io/cluster"
)

// ErrAsideInUse is returned for a directory that a new generation is made from.
var ErrAsideInUse = errors.New("a new generation is made from it")

// asideRemover is a Disk that can remove what was set aside. Nothing else ever is.
type remover interface {
	// RemoveAside takes a directory out of what is set aside, and gives what
	// removes it for good.
	RemoveAside(name string) (remove func() error, err error)
	// FinishRemovals removes what an earlier daemon had taken out and did not
	// come to the end of.
	FinishRemovals() error
}

// PruneAsked removes a directory that was set aside, by its name, and says what
// it was. Only a person's command leads here; what a leader may have removed goes
// by PruneRemoved (SAFETY.md, rule 22).
//
// Errors: fs.ErrNotExist, ErrAsideInUse, and what the disk says; then the
// directory is there as it was, or counts as removed.
func (v *Inventory) PruneAsked(ctx context.Context, name string) (cluster.SetAside, error) {
	disk, ok := v.Disk.(remover)
	if !ok {
		return cluster.SetAside{}, errors.New("prune what was set aside: this disk removes nothing")
	}
	if err := v.Work.TakePersonsTurn(ctx); err != nil { // no op begins to read it meanwhile
		return cluster.SetAside{}, fmt.Errorf("prune what was set aside: %w", err)
	}
	was, remove, err := v.takeAside(disk, name)
	v.Work.EndTurn()
	if err != nil {
		return was, fmt.Errorf("prune what was set aside: %w", err)
	}
	v.Log.Warn("a person had a directory removed that was set aside", "directory", was.Dir, "bytes", was.Bytes, "reason", was.Reason, "cluster", was.Cluster)
	v.Refresh()
	v.Changed()
	if err := remove(); err != nil {
		return was, fmt.Errorf("prune what was set aside: %s is not in its place any more, and not all of it could be removed: %w", was.Dir, err)
	}
	return was, nil
}

// takeAside takes the directory out of what is set aside; the caller has the turn.
func (v *Inventory) takeAside(disk remover, name string) (cluster.SetAside, func() error, error) {
	v.Refresh()
	v.mu.Lock()
	i := slices.IndexFunc(v.aside, func(a cluster.SetAside) bool { return filepath.Base(a.Dir) == name })
	var was cluster.SetAside
	if i >= 0 {
		was = v.aside[i]
	}
	v.mu.Unlock()
	s := v.Keeper.Now()
	uses := func(src cluster.Source) bool {
		return src.Kind == cluster.SourceSetAside && filepath.Base(src.Dir) == name
	}
	switch {
	case i < 0:
		return was, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case v.Staging() && s.Staged != nil && uses(s.Staged.Source):
		return was, nil, ErrAsideInUse
	case s.Intent != nil && s.Intent.State == cluster.IntentFounding && uses(s.Intent.Source):
		return was, nil, ErrAsideInUse
	}
	remove, err := disk.RemoveAside(name)
	return was, remove, err
}
