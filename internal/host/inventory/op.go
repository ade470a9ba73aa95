package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
)

const (
	// removeDeadline bounds the removal of what is out of its place.
	removeDeadline = 10 * time.Minute
	// pruneRetry is how long a host says that it could not prune; a leader does
	// not ask again before.
	pruneRetry = 10 * time.Minute
)

// PruneRemoved removes what was set aside of a member that a quorum removed
// (SAFETY.md, rule 22). That what serves stands above it was found by who asks;
// what this disk itself knows of the directory is looked at here.
func (v *Inventory) PruneRemoved(ctx context.Context, req cluster.ApplyRequest) cluster.ApplyReply {
	op := req.Op
	disk, ok := v.Disk.(remover)
	if !ok {
		return answer.Refused("the disk of host %s removes nothing", v.Host)
	}
	v.Refresh()
	v.mu.Lock()
	i := slices.IndexFunc(v.aside, func(a cluster.SetAside) bool { return a.Name() == op.Dir })
	var a cluster.SetAside
	if i >= 0 {
		a = v.aside[i]
	}
	v.mu.Unlock()
	if i < 0 {
		return answer.Done("it was so already")
	}
	if why := v.keeps(a, op); why != "" {
		return answer.Refused("%s is kept: %s", op.Dir, why)
	}
	if r := v.checkAbove(ctx, a, req.Guard); r != nil {
		return *r
	}
	was, remove, err := v.takeAside(disk, op.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return answer.Done("it was so already")
	case errors.Is(err, ErrAsideInUse):
		return answer.Refused("%s is kept: %v", op.Dir, err)
	case err != nil:
		v.notPruned(a, err)
		return answer.Failed("prune what was set aside: %v", err)
	}
	v.Log.Warn("pruned what was set aside of a member that a quorum had removed", "directory", was.Dir, "bytes", was.Bytes,
		"member", was.Member, "cluster", was.Cluster, "index", was.Log.Index, "backup", op.Backup, "age", time.Since(was.At).Round(time.Second))
	v.Refresh()
	if !v.Work.InBackground(removeDeadline, func(context.Context) {
		if err := remove(); err != nil {
			v.notPruned(a, err)
			v.Changed()
		}
	}) {
		return answer.Done("the rest is removed when the daemon starts again")
	}
	return answer.Done("")
}

// keeps says why this host does not prune a directory by itself, by its own
// durable record; empty: nothing stands against it.
func (v *Inventory) keeps(a cluster.SetAside, op cluster.Op) string {
	s := v.Keeper.Now()
	age := time.Since(a.At)
	in := s.Intent
	voter := func(v cluster.Voter) bool { return v.Member == a.Member }
	switch {
	case !a.Prunable():
		return "what is recorded beside it does not say that a quorum removed its member, and how far that had come"
	case a.Member != op.Member || a.Cluster != op.Cluster || a.Generation != op.Generation:
		return fmt.Sprintf("it is of member %s of cluster %s, and the op is about member %s of cluster %s", a.Member, a.Cluster, op.Member, op.Cluster)
	case v.PruneAfter <= 0:
		return "this host prunes nothing by itself"
	case age < v.PruneAfter:
		return fmt.Sprintf("it is %s old, and is kept for %s", age.Round(time.Second), v.PruneAfter)
	case !s.GaveUp(a.Member) || s.Local.Member == a.Member:
		return "this disk does not know of having given its member up"
	case in == nil || in.State != cluster.IntentFounded || in.Quarantined || in.Cluster != a.Cluster || in.Generation != a.Generation:
		return "it is not of the generation that this host knows to serve"
	case slices.ContainsFunc(in.Voters, voter) || slices.ContainsFunc(in.Next, voter):
		return "its member is on record as a voter"
	case s.Journal != nil || v.Staging():
		return "the host is at work with data"
	}
	return ""
}

// checkAbove looks through the own member, where there is one, whether a quorum
// of that cluster serves now and has gone further. A host that carries none has
// the leader's word alone.
func (v *Inventory) checkAbove(ctx context.Context, a cluster.SetAside, g cluster.Guard) *cluster.ApplyReply {
	if v.Keeper.Now().Local.State != cluster.MemberStarted {
		return nil
	}
	st, r := v.Member.Status(ctx)
	if r != nil {
		return r
	}
	if above := (cluster.Progress{Term: st.Term, Index: st.Applied}); above.Term < a.Log.Term || above.Index <= a.Log.Index {
		x := answer.Refused("%s is kept: the member of host %s has applied index %d of term %d, and its log ends with index %d of term %d",
			a.Name(), v.Host, above.Index, above.Term, a.Log.Index, a.Log.Term)
		return &x
	}
	if _, r := v.Member.CheckView(ctx, g, nil); r != nil {
		return r
	}
	return nil
}

func (v *Inventory) notPruned(a cluster.SetAside, err error) {
	v.mu.Lock()
	v.failed = time.Now()
	v.mu.Unlock()
	v.Notes.Note(cluster.Problem{
		Code:     "aside-not-pruned",
		Sentence: fmt.Sprintf("host %s could not remove %s, which was set aside: %v", v.Host, a.Name(), err),
		Hint:     "fix that error; the host tries again after 10 min",
	})
}

// FinishRemovals ends what an earlier daemon had begun to remove.
func (v *Inventory) FinishRemovals() {
	disk, ok := v.Disk.(remover)
	if !ok {
		return
	}
	v.Work.InBackground(removeDeadline, func(context.Context) {
		if err := disk.FinishRemovals(); err != nil {
			v.Log.Warn("cannot remove what is left of directories that were pruned", "err", err)
		}
	})
}

// Forgive lets a leader ask again after a while.
func (v *Inventory) Forgive() {
	v.mu.Lock()
	over := !v.failed.IsZero() && time.Since(v.failed) >= pruneRetry
	if over {
		v.failed = time.Time{}
	}
	v.mu.Unlock()
	if over {
		v.Notes.Clear("aside-not-pruned")
		v.FinishRemovals()
	}
}
