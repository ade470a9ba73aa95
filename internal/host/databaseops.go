package host

import (
	"context"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
)

const (
	// hashDeadline bounds a hash of the keys, for which the member may have to be asked
	// twice (see [etcd.Client.HashKV]).
	hashDeadline = 2*etcd.HashTimeout + 10*time.Second
	// mostBehind is how many entries the member may still have to apply when it is
	// to be defragmented: hardly any. Releases before 3.5.23 and 3.6.5 corrupt a
	// member that is defragmented while it catches up.
	mostBehind = 100
)

// takeHash begins to hash the keys of the own member.
func (h *Host) takeHash(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	if _, r := h.ownStatus(ctx); r != nil {
		return *r
	}
	s := h.snapshot()
	if reason := mismatch(op, s.Local); reason != "" {
		return refused("%s", reason)
	}
	if op.Revision <= 0 {
		return refused("a hash without a revision")
	}
	if op.Doubt != cluster.DoubtNone && s.Local.Doubt != cluster.DoubtFound {
		// Before there is a hash to be convicted by: whether the leader lives to say
		// why it has the member removed does not matter then.
		if err := h.save(ctx, func(s *record.State) { s.Local.Doubt = cluster.DoubtFound }); err != nil {
			return failed("%v", err)
		}
	}
	m := h.member()
	h.mu.Lock()
	if t := h.hash; t != nil && t.Running {
		h.mu.Unlock()
		return done("it was so already")
	}
	begun := cluster.Hash{Running: true, Began: time.Now().UTC().Round(0), Member: s.Local.Member, Cluster: s.Local.Cluster, Asked: op.Revision}
	h.hash = &begun
	h.mu.Unlock()
	if !h.inBackground(hashDeadline, func(ctx context.Context) { h.runHash(ctx, m, begun) }) {
		return refused("host %s is shutting down", s.Host)
	}
	return done("begun")
}

func (h *Host) runHash(ctx context.Context, m Member, begun cluster.Hash) {
	k, err := m.HashKV(ctx, begun.Asked)
	end := begun
	end.Running, end.Ended = false, time.Now().UTC().Round(0)
	switch {
	case err != nil:
		end.Error = err.Error()
	case k.Member != begun.Member:
		end.Error = fmt.Sprintf("member %s answered", k.Member)
	default:
		end.Hash, end.Compacted = k.Hash, k.Compacted
	}
	h.mu.Lock()
	h.hash = &end
	h.mu.Unlock()
	h.changed()
}

// defragment has the own member write its database anew. The caller is answered
// when that is about to begin; the host is busy, which is no promise, until it has
// ended, so that no leader takes another voter down meanwhile.
func (h *Host) defragment(ctx context.Context, req cluster.ApplyRequest, begun func(cluster.ApplyReply)) cluster.ApplyReply {
	op := req.Op
	st, r := h.ownStatus(ctx)
	if r != nil {
		return *r
	}
	s := h.snapshot()
	h.mu.Lock()
	reading := h.taken != nil && h.taken.Running || h.hash != nil && h.hash.Running
	h.mu.Unlock()
	switch reason := mismatch(op, s.Local); {
	case reason != "":
		return refused("%s", reason)
	case st.Learner:
		return refused("member %s is a learner", st.Member)
	case st.Applied+mostBehind < st.Index:
		return refused("member %s has yet to apply %d entries", st.Member, st.Index-st.Applied)
	case reading:
		return refused("a backup or a hash of member %s is under way, which would hold it up", st.Member)
	}
	m := h.member()
	limit := etcd.DefragTimeout(st.DBInUse)
	h.mu.Lock()
	h.running.most = limit + 3*checkDeadline // with the looks before and after it
	h.mu.Unlock()
	begun(done("begun"))
	ctx, cancel := context.WithTimeout(h.background, limit+checkDeadline) // a host that ends does not wait for it
	defer cancel()
	began := time.Now()
	err := m.Defragment(ctx, limit)
	w := cluster.DatabaseWork{Member: st.Member, Before: st.DBSize, Took: time.Since(began)}
	if err == nil {
		var after cluster.MemberStatus
		if after, r = h.ownStatus(ctx); r == nil {
			w.After = after.DBSize
		}
		h.o.Log.Info("defragmented", "member", st.Member, "before", w.Before, "after", w.After, "took", w.Took.Round(time.Millisecond))
	} else {
		w.Error = err.Error()
		h.o.Log.Warn("a defragmentation failed", "member", st.Member, "err", err)
	}
	h.mu.Lock()
	if had := h.database; had != nil {
		w.Compacted, w.CompactedAt = had.Compacted, had.CompactedAt
	}
	w.Defragmented = time.Now().UTC().Round(0)
	h.database = &w
	h.mu.Unlock()
	if err != nil {
		return failed("%v", err)
	}
	return done("")
}

// noteCompacted remembers what the members were asked to forget.
func (h *Host) noteCompacted(revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := cluster.DatabaseWork{}
	if h.database != nil {
		w = *h.database
	}
	if revision >= w.Compacted {
		w.Compacted, w.CompactedAt = revision, time.Now().UTC().Round(0)
	}
	h.database = &w
}
