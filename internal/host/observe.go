package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
)

// Bounds of an observation: what does not answer in time is not in the facts.
const (
	// A leader waits two seconds for an observation: etcd gets one of them, and the
	// promise on the disk and the way back have the other.
	reachTimeout = time.Second // another member's port
	// turnTimeout is how long an observation waits for a write that another one
	// began. It leaves the time to say so: a daemon whose disk stands still is not
	// a silent one.
	turnTimeout = 700 * time.Millisecond
)

// Observe gives a promise, if a fence asks for one, and the facts. They were
// gathered after the promise became durable, exactly if the reply's
// State.Promised is the fence that was sent; when the promise could not be made
// durable the facts say so, carry the old promise, and no stamp.
//
// Without a fence the reply is facts only: no promise, no stamp, and an op that
// is being carried out does not matter.
//
// Files are read and written for it, which nobody can call off: when ctx ends
// before they were, the reply says so. The look goes on beside it, and what it
// promises then holds.
func (h *Host) Observe(ctx context.Context, req cluster.ObserveRequest) cluster.ObserveReply {
	if !h.work.AwaitBoot(ctx) {
		return cluster.ObserveReply{Busy: h.work.Booting()}
	}
	l := h.work.BeginLook(func() cluster.ObserveReply { return h.observe(ctx, req) })
	select {
	case <-l.Ended:
	case <-ctx.Done():
	}
	if h.work.GaveUp(l) { // whatever select drew
		return h.work.Hangs(l)
	}
	return l.Reply
}

// observe is Observe without an end.
func (h *Host) observe(ctx context.Context, req cluster.ObserveRequest) cluster.ObserveReply {
	if req.Spec != nil {
		h.RememberSpec(*req.Spec)
	}
	if !req.Fence.IsZero() {
		h.RememberStanding(req.Standing)
	}
	var st stamp
	waits := inUse(h).why != "" // the facts are given, and nothing is written
	if !waits {
		h.pauses.End(req.Ended)
	}
	if h.keeper.Broken() == nil && !waits {
		promised, reply := h.promise(ctx, req)
		if reply != nil {
			return *reply
		}
		if promised {
			st = stamp{id: h.o.Mint(), fence: req.Fence, at: time.Now()}
		}
	}
	if l := h.work.AwaitOverdue(ctx); l != nil {
		return h.work.Hangs(l)
	}
	state := h.facts(ctx, req)
	if s := h.keeper.Now(); req.Log {
		state.Log, state.Reading = h.logs.End(ctx, s.Local.Token, bulk.LookWait(ctx))
	}
	if req.Versions {
		state.V2InLog = h.logs.V2InLog(state)
	}
	if st.id != "" {
		h.fences.observed(st)
	}
	return cluster.ObserveReply{State: &state, Stamp: st.id}
}

// promise makes the fence and a newer intent durable. A reply means that the
// observation ends here; promised is false when the facts are given without.
func (h *Host) promise(ctx context.Context, req cluster.ObserveRequest) (promised bool, reply *cluster.ObserveReply) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if h.work.TakeTurn(ctx) != nil { // the disk takes its time with another promise
		h.mu.Lock()
		defer h.mu.Unlock()
		return false, &cluster.ObserveReply{Busy: &cluster.Busy{Op: cluster.Op{Kind: cluster.OpPromise}, Why: h.keeper.Stalls()}}
	}
	defer h.work.EndTurn()
	fenced := !req.Fence.IsZero()
	if busy := h.work.Busy(); busy != nil {
		if fenced {
			return false, &cluster.ObserveReply{Busy: busy}
		}
		return false, nil // the intent is kept another time: the op relies on the record
	}
	if fenced && (req.Fence.Less(h.keeper.Now().Promised) || req.Fence.OutOfReach()) {
		return false, &cluster.ObserveReply{Refused: h.fences.Refusal()}
	}
	intent := h.acceptable(req.Intent)
	before := h.keeper.Now()
	err := h.keeper.Change(ctx, func(s *record.State) {
		if fenced {
			s.Promised = req.Fence
		}
		if intent != nil {
			keep(s, intent)
		}
	})
	if err != nil {
		return false, nil
	}
	if fenced {
		h.fences.Use()
		h.fences.drop() // an op that comes late does not act on the look before this one
	}
	h.followIntent(before)
	return fenced, nil
}

// keep has the state hold an acceptable intent. A member of an earlier generation is not to run any more.
func keep(s *record.State, in *cluster.Intent) {
	s.Intent = in
	s.Unhalt()
	switch {
	case in.Adopts(s.Host, s.Disk, s.Local):
		s.Local.Generation, s.Local.Nonce = in.Generation, in.Nonce
	case s.Local.State != cluster.MemberNone && s.Local.Generation < in.Generation:
		s.Local.Run = false
	}
}

// acceptable returns the intent if it is to be kept: it names this cluster and
// is newer than the kept one. The same generation under another nonce is a
// second founding, and so is a higher generation whose history does not have
// the kept one, or that of the member that is carried here: a person has to
// look at it, and nothing is stopped for its sake (SAFETY.md, rules 18 and 21).
func (h *Host) acceptable(in *cluster.Intent) *cluster.Intent {
	if in == nil || in.Name != h.o.ClusterName {
		return nil
	}
	s := h.keeper.Now()
	carries := s.Local.State != cluster.MemberNone && s.Local.State != cluster.MemberPrepared
	if !in.Follows(s.Intent) || carries && !in.FollowsMember(s.Local) {
		h.notes.Note(cluster.Problem{
			Code:     "two-intents",
			Sentence: "two clusters were founded under one name: " + foundings(s, in),
			Hint:     "find out which store holds this cluster, and point every daemon at it",
		})
		return nil
	}
	h.notes.Clear("two-intents")
	if in.Order(s.Intent) <= 0 || !in.Covers(s.Intent) {
		return nil // a leader who sees what is kept here adds it to the history first
	}
	return record.CopyIntent(in)
}

// foundings says what this host has and what it was shown.
func foundings(s record.State, in *cluster.Intent) string {
	shown := fmt.Sprintf("this host was shown generation %d with nonce %s", in.Generation, in.Nonce)
	if kept := s.Intent; kept != nil {
		return fmt.Sprintf("%s, and keeps generation %d with nonce %s, which is not in its history", shown, kept.Generation, kept.Nonce)
	}
	return fmt.Sprintf("%s, and carries a member of generation %d of cluster %s, which is not in its history", shown, s.Local.Generation, s.Local.Cluster)
}

// followIntent stops a member of a generation that was superseded (rule 13) or is
// halted, and starts one again whose halt was taken back. It is done beside the
// observation, which says what was before. The caller holds the turn.
func (h *Host) followIntent(before record.State) {
	s := h.keeper.Now()
	stopped := h.o.Process.Status().State == cluster.ProcessStopped
	switch {
	case s.Launch == nil:
		return
	case stopped && before.Halt() != nil && s.WantsRun():
		h.goOn(before, s)
		return
	case stopped || s.WantsRun():
		return
	case s.Halt() != nil:
		h.obeyHalt(s)
		return
	case s.Local.Generation >= s.Floor():
		return
	}
	t := h.work.Begin(cluster.Op{Kind: cluster.OpStop, Generation: s.Local.Generation, Reason: "superseded"}, s.Promised)
	if t == nil {
		return
	}
	h.o.Log.Warn("a higher generation was written: the member is stopped", "generation", s.Local.Generation, "higher", s.Floor())
	go func() {
		defer h.work.End(t)
		h.converge(context.Background(), false)
	}()
}

// seen is what was gathered from outside of the state.
type seen struct {
	status      *cluster.MemberStatus
	view        *cluster.MemberView
	reaches     []cluster.Reach
	marked, wal bool
	dataErr     error
}

// facts looks at everything at the same time, each with its bound.
func (h *Host) facts(ctx context.Context, req cluster.ObserveRequest) cluster.HostState {
	reach := req.Reach
	s := h.keeper.Now()
	process := h.o.Process.Status()
	var f seen
	var all sync.WaitGroup
	if member.Runs(s, process) {
		all.Go(func() { f.status, f.view = h.member.Ask(ctx, process, req.Versions) })
	}
	if s.Local.Token != "" {
		all.Go(func() { f.marked, f.wal, f.dataErr = h.lookAtData(s) })
	}
	f.reaches = make([]cluster.Reach, len(reach))
	for i, m := range reach {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, reachTimeout)
			defer cancel()
			open, answers := h.o.Reacher.Reach(ctx, m.PeerURLs)
			f.reaches[i] = cluster.Reach{Member: m.ID, Answers: answers, Open: open}
		})
	}
	all.Wait()
	slices.SortFunc(f.reaches, func(a, b cluster.Reach) int { return cmp.Compare(a.Member, b.Member) })
	if f.dataErr == nil {
		_ = h.evidence.RecordLog(s, f.marked, f.wal) // tried again at the next look
	}
	noteData(h.notes, s, f)
	process = h.identify(s, process, &f)
	return h.describe(process, f)
}

// lookAtData looks at the member's data directory and does not wait longer for
// the disk than for the member. Looks take turns, so a stalled disk holds up
// one of them, however often the host is observed meanwhile; and none is shared,
// since facts are not older than the promise that they come with.
func (h *Host) lookAtData(s record.State) (marked, wal bool, err error) {
	bound := time.NewTimer(member.StatusTimeout)
	defer bound.Stop()
	select {
	case h.looking <- struct{}{}:
	case <-bound.C:
		return false, false, errDiskStalls
	}
	ended := make(chan struct{})
	var m, w bool
	var lookErr error
	go func() {
		defer func() { <-h.looking }()
		m, w, lookErr = h.o.Disk.Data(s.Local.Token, s.Disk)
		close(ended)
	}()
	select {
	case <-ended:
		return m, w, lookErr
	case <-bound.C:
		return false, false, errDiskStalls
	}
}

// errDiskStalls: unlike an error of the disk, it may be over at any time.
var errDiskStalls = errors.New("the disk does not answer")

// identify holds what answers against the record. An adopted process whose
// member has not answered with the recorded ID yet is silent; one that answers
// with another is not ours, and its list says nothing about our cluster.
func (h *Host) identify(s record.State, p cluster.Process, f *seen) cluster.Process {
	own := f.status != nil && f.status.Member == s.Local.Member &&
		(s.Local.Cluster == 0 || f.status.Cluster == s.Local.Cluster)
	switch {
	case own:
		h.notes.Clear("wrong-member")
		h.Reached(*f.status)
		if f.status.Healthy {
			h.served.Store(int64(p.PID))
		}
		h.mu.Lock()
		h.answered, h.answeredRestarts = p.PID, p.Restarts
		h.mu.Unlock()
		if s.Local.Cluster == 0 && f.status.Cluster != 0 {
			h.keeper.LearnCluster(s.Local.Member, f.status.Cluster)
		}
		if !s.Local.Previous.IsZero() && f.status.Version.SameMinor(s.Local.Version) && f.status.Healthy {
			h.keeper.SettleRelease(s.Local.Version)
		}
		// An op that is under way may be putting another process in its place.
		if f.status.Healthy && s.Before != nil && s.Launch != nil && h.work.Busy() == nil && h.o.Process.Status().PID == p.PID {
			h.keeper.SettleOptions(s.Launch.Nonce)
		}
		if f.status.Healthy && !f.status.Learner {
			h.keeper.NoteVoter(s.Local.Member)
		}
	case f.status != nil && f.status.Auth:
		// Nobody can tell who it is before it is asked with a credential.
		h.notes.Clear("wrong-member")
		f.view = nil
	case f.status != nil:
		f.view = nil
		h.notes.Note(cluster.Problem{
			Code: "wrong-member",
			Sentence: fmt.Sprintf("member %s of cluster %s answers on host %s, which carries member %s of cluster %s",
				f.status.Member, f.status.Cluster, s.Host, s.Local.Member, s.Local.Cluster),
			Hint: "find out which process listens at this host's client URL",
		})
		if p.Adopted {
			p.State = cluster.ProcessForeign
		}
		return p
	}
	h.mu.Lock()
	known := h.answered == p.PID && p.PID != 0 || own
	h.mu.Unlock()
	if known {
		p.Damaged = "" // it could read its data, and whatever it last ended with was not that
	}
	if p.Damaged != "" {
		h.keeper.ForgetVote(s.Local.Member)
	}
	if p.Adopted && !known && p.State == cluster.ProcessRunning {
		p.State = cluster.ProcessSilent
	}
	return p
}
