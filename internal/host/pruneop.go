package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

const (
	// removeDeadline bounds the removal of what is out of its place.
	removeDeadline = 10 * time.Minute
	// pruneRetry is how long a host says that it could not prune; a leader does
	// not ask again before.
	pruneRetry = 10 * time.Minute
)

// pruneRemoved removes what was set aside of a member that a quorum removed
// (SAFETY.md, rule 22). That what serves stands above it was found by who asks;
// what this disk itself knows of the directory is looked at here.
func (h *Host) pruneRemoved(ctx context.Context, req cluster.ApplyRequest) cluster.ApplyReply {
	op := req.Op
	disk, ok := h.o.Disk.(asideRemover)
	if !ok {
		return refused("the disk of host %s removes nothing", h.o.ID)
	}
	h.takeInventory()
	h.mu.Lock()
	i := slices.IndexFunc(h.aside, func(a cluster.SetAside) bool { return a.Name() == op.Dir })
	var a cluster.SetAside
	if i >= 0 {
		a = h.aside[i]
	}
	h.mu.Unlock()
	if i < 0 {
		return done("it was so already")
	}
	if why := h.keeps(a, op); why != "" {
		return refused("%s is kept: %s", op.Dir, why)
	}
	if r := h.checkAbove(ctx, a, req.Guard); r != nil {
		return *r
	}
	was, remove, err := h.takeAside(disk, op.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return done("it was so already")
	case errors.Is(err, ErrAsideInUse):
		return refused("%s is kept: %v", op.Dir, err)
	case err != nil:
		h.notPruned(a, err)
		return failed("prune what was set aside: %v", err)
	}
	h.o.Log.Warn("pruned what was set aside of a member that a quorum had removed", "directory", was.Dir, "bytes", was.Bytes,
		"member", was.Member, "cluster", was.Cluster, "index", was.Log.Index, "backup", op.Backup, "age", time.Since(was.At).Round(time.Second))
	h.takeInventory()
	if !h.inBackground(removeDeadline, func(context.Context) {
		if err := remove(); err != nil {
			h.notPruned(a, err)
			h.changed()
		}
	}) {
		return done("the rest is removed when the daemon starts again")
	}
	return done("")
}

// keeps says why this host does not prune a directory by itself, by its own
// durable record; empty: nothing stands against it.
func (h *Host) keeps(a cluster.SetAside, op cluster.Op) string {
	s := h.snapshot()
	age := time.Since(a.At)
	in := s.Intent
	voter := func(v cluster.Voter) bool { return v.Member == a.Member }
	switch {
	case !a.Prunable():
		return "what is recorded beside it does not say that a quorum removed its member, and how far that had come"
	case a.Member != op.Member || a.Cluster != op.Cluster || a.Generation != op.Generation:
		return fmt.Sprintf("it is of member %s of cluster %s, and the op is about member %s of cluster %s", a.Member, a.Cluster, op.Member, op.Cluster)
	case h.o.PruneAfter <= 0:
		return "this host prunes nothing by itself"
	case age < h.o.PruneAfter:
		return fmt.Sprintf("it is %s old, and is kept for %s", age.Round(time.Second), h.o.PruneAfter)
	case !s.GaveUp(a.Member) || s.Local.Member == a.Member:
		return "this disk does not know of having given its member up"
	case in == nil || in.State != cluster.IntentFounded || in.Quarantined || in.Cluster != a.Cluster || in.Generation != a.Generation:
		return "it is not of the generation that this host knows to serve"
	case slices.ContainsFunc(in.Voters, voter) || slices.ContainsFunc(in.Next, voter):
		return "its member is on record as a voter"
	case s.Journal != nil || h.staging():
		return "the host is at work with data"
	}
	return ""
}

// checkAbove looks through the own member, where there is one, whether a quorum
// of that cluster serves now and has gone further. A host that carries none has
// the leader's word alone.
func (h *Host) checkAbove(ctx context.Context, a cluster.SetAside, g cluster.Guard) *cluster.ApplyReply {
	if h.snapshot().Local.State != cluster.MemberStarted {
		return nil
	}
	st, r := h.ownStatus(ctx)
	if r != nil {
		return r
	}
	if above := (cluster.Progress{Term: st.Term, Index: st.Applied}); above.Term < a.Log.Term || above.Index <= a.Log.Index {
		x := refused("%s is kept: the member of host %s has applied index %d of term %d, and its log ends with index %d of term %d",
			a.Name(), h.o.ID, above.Index, above.Term, a.Log.Index, a.Log.Term)
		return &x
	}
	if _, r := h.checkView(ctx, g, nil); r != nil {
		return r
	}
	return nil
}

func (h *Host) notPruned(a cluster.SetAside, err error) {
	h.mu.Lock()
	h.pruneFailed = time.Now()
	h.mu.Unlock()
	h.note(cluster.Problem{
		Code:     "aside-not-pruned",
		Sentence: fmt.Sprintf("host %s could not remove %s, which was set aside: %v", h.o.ID, a.Name(), err),
		Hint:     "mend what the sentence names; it is tried again after ten minutes",
	})
}

// finishRemovals ends what an earlier daemon had begun to remove.
func (h *Host) finishRemovals() {
	disk, ok := h.o.Disk.(asideRemover)
	if !ok {
		return
	}
	h.inBackground(removeDeadline, func(context.Context) {
		if err := disk.FinishRemovals(); err != nil {
			h.o.Log.Warn("cannot remove what is left of directories that were pruned", "err", err)
		}
	})
}

// forgivePruning lets a leader ask again after a while.
func (h *Host) forgivePruning() {
	h.mu.Lock()
	over := !h.pruneFailed.IsZero() && time.Since(h.pruneFailed) >= pruneRetry
	if over {
		h.pruneFailed = time.Time{}
	}
	h.mu.Unlock()
	if over {
		h.clear("aside-not-pruned")
		h.finishRemovals()
	}
}
