package member

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
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

// Upkeep has the member's keys hashed and its database written anew, and remembers what came
// of it.
type Upkeep struct {
	member  *Client
	keeper  *record.Keeper
	work    *work.Supervisor
	reading func() bool // a backup is being taken through the member
	changed func()
	log     *slog.Logger

	mu       sync.Mutex // guards what follows
	hash     *cluster.Hash
	database *cluster.DatabaseWork
}

func NewUpkeep(member *Client, keeper *record.Keeper, w *work.Supervisor, reading func() bool, changed func(), log *slog.Logger) *Upkeep {
	return &Upkeep{member: member, keeper: keeper, work: w, reading: reading, changed: changed, log: log}
}

// Report puts what came of it into the facts of the host.
func (u *Upkeep) Report(out *cluster.HostState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hash != nil {
		h := *u.hash
		out.Hash = &h
	}
	if u.database != nil {
		d := *u.database
		out.Database = &d
	}
}

// TakeHash begins to hash the keys of the own member.
func (u *Upkeep) TakeHash(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	m, _, r := u.member.recorded(ctx)
	if r != nil {
		return *r
	}
	s := u.keeper.Now()
	if reason := Mismatch(op, s.Local); reason != "" {
		return answer.Refused("%s", reason)
	}
	if op.Revision <= 0 {
		return answer.Refused("a hash without a revision")
	}
	if op.Doubt != cluster.DoubtNone && s.Local.Doubt != cluster.DoubtFound {
		// Before there is a hash to be convicted by: whether the leader lives to say
		// why it has the member removed does not matter then.
		if err := u.keeper.Change(ctx, func(s *record.State) { s.Local.Doubt = cluster.DoubtFound }); err != nil {
			return answer.Failed("%v", err)
		}
	}
	u.mu.Lock()
	if t := u.hash; t != nil && t.Running {
		u.mu.Unlock()
		return answer.Done("it was so already")
	}
	begun := cluster.Hash{Running: true, Began: time.Now().UTC().Round(0), Member: s.Local.Member, Cluster: s.Local.Cluster, Asked: op.Revision}
	u.hash = &begun
	u.mu.Unlock()
	if !u.work.InBackground(hashDeadline, func(ctx context.Context) { u.runHash(ctx, m, begun) }) {
		return answer.Refused("host %s is shutting down", s.Host)
	}
	return answer.Done("begun")
}

func (u *Upkeep) runHash(ctx context.Context, m Maintainer, begun cluster.Hash) {
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
	u.mu.Lock()
	u.hash = &end
	u.mu.Unlock()
	u.changed()
}

// Defragment has the own member write its database anew. The caller is answered
// when that is about to begin; the host is busy, which is no promise, until it has
// ended, so that no leader takes another voter down meanwhile.
func (u *Upkeep) Defragment(ctx context.Context, req cluster.ApplyRequest, begun func(cluster.ApplyReply)) cluster.ApplyReply {
	op := req.Op
	m, st, r := u.member.recorded(ctx)
	if r != nil {
		return *r
	}
	s := u.keeper.Now()
	reading := u.reading()
	u.mu.Lock()
	reading = reading || u.hash != nil && u.hash.Running
	u.mu.Unlock()
	switch reason := Mismatch(op, s.Local); {
	case reason != "":
		return answer.Refused("%s", reason)
	case st.Learner:
		return answer.Refused("member %s is a learner", st.Member)
	case st.Applied+mostBehind < st.Index:
		return answer.Refused("member %s has yet to apply %d entries", st.Member, st.Index-st.Applied)
	case reading:
		return answer.Refused("a backup or a hash of member %s is under way, which would hold it up", st.Member)
	}
	limit := etcd.DefragTimeout(st.DBInUse)
	u.work.Lasts(limit + 3*checkDeadline) // with the looks before and after it
	begun(answer.Done("begun"))
	ctx, cancel := context.WithTimeout(u.work.Context(), limit+checkDeadline) // a host that ends does not wait for it
	defer cancel()
	began := time.Now()
	err := m.Defragment(ctx, limit)
	w := cluster.DatabaseWork{Member: st.Member, Before: st.DBSize, Took: time.Since(began)}
	if err == nil {
		var after cluster.MemberStatus
		if after, r = u.member.Status(ctx); r == nil {
			w.After = after.DBSize
		}
		u.log.Info("defragmented", "member", st.Member, "before", w.Before, "after", w.After, "took", w.Took.Round(time.Millisecond))
	} else {
		w.Error = err.Error()
		u.log.Warn("a defragmentation failed", "member", st.Member, "err", err)
	}
	u.mu.Lock()
	if had := u.database; had != nil {
		w.Compacted, w.CompactedAt = had.Compacted, had.CompactedAt
	}
	w.Defragmented = time.Now().UTC().Round(0)
	u.database = &w
	u.mu.Unlock()
	if err != nil {
		return answer.Failed("%v", err)
	}
	return answer.Done("")
}

// NoteCompacted remembers what the members were asked to forget.
func (u *Upkeep) NoteCompacted(revision int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := cluster.DatabaseWork{}
	if u.database != nil {
		w = *u.database
	}
	if revision >= w.Compacted {
		w.Compacted, w.CompactedAt = revision, time.Now().UTC().Round(0)
	}
	u.database = &w
}
