package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// settleRelease drops the memory of the release before, once the member has
// answered with its new one.
func (h *Host) settleRelease(v cluster.Version) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	_ = h.save(ctx, func(s *record.State) { // done again at the next answer
		if s.Local.Version == v {
			s.Local.Previous = cluster.Version{}
		}
	})
}

// noteVoter remembers that the member serves as a voter. It is written down with the next
// beat: nothing relies on it but the order in which hosts are chosen.
func (h *Host) noteVoter(id cluster.MemberID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.Local.Member == id && !slices.Contains(h.state.Voted, id) {
		h.state.Voted = append(slices.Clip(h.state.Voted), id)
	}
}

// forgetVote: the member's data is damaged or gone, which may well be the disk, so that its
// votes say nothing for the host any more.
func (h *Host) forgetVote(id cluster.MemberID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Voted = without(h.state.Voted, id)
}

func without(all []cluster.MemberID, id cluster.MemberID) []cluster.MemberID {
	return slices.DeleteFunc(slices.Clone(all), func(m cluster.MemberID) bool { return m == id })
}

// v2Look is what was last found in the member's log. It is read again for
// another process, now and then while there is something, and once the members
// have agreed on 3.6 again: a log that is free of it stays so only from there on.
type v2Look struct {
	pid    int
	at     time.Time
	under  bool // being read
	answer *bool
}

// v2Again is how long an answer stands that there is something: a minute,
// because the whole log is read for it, and v2AgainCut in a member that was
// restarted so that it cuts a raft snapshot, which it does within seconds.
const (
	v2Again    = time.Minute
	v2AgainCut = 2 * time.Second
)

// v2LogDeadline bounds one look through the log, which goes through it twice: some
// 5 GiB at 20 MiB a second.
const v2LogDeadline = 10 * time.Minute

// v2InLog is the answer that is known; nil: not yet. The log is read beside the
// observation, because that can take longer than one may. Releases up to 3.5 write
// such requests themselves, so it is asked of later ones only.
func (h *Host) v2InLog(now cluster.HostState) *bool {
	if h.o.Sources == nil || now.Status == nil || !now.Status.Version.AtLeast(3, 6) || now.Process.PID == 0 {
		return nil
	}
	if !now.Status.ClusterVersion.AtLeast(3, 6) {
		// A member of 3.5 can write such requests at any time, into this log too.
		h.mu.Lock()
		h.v2.pid, h.v2.answer = 0, nil
		h.mu.Unlock()
		return nil
	}
	answer, read := h.v2Known(now.Process.PID, now.Local.Cut)
	if read && !h.inBackground(v2LogDeadline, func(ctx context.Context) { h.lookForV2(ctx, now.Process.PID, now.Local.Token) }) {
		h.mu.Lock()
		h.v2.under = false
		h.mu.Unlock()
	}
	return answer
}

// v2Known is the last answer about a process, and whether it is to be read again.
func (h *Host) v2Known(pid int, cut bool) (answer *bool, read bool) {
	again := v2Again
	if cut {
		again = v2AgainCut
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	look := &h.v2
	if look.pid != pid {
		*look = v2Look{pid: pid, under: look.under}
	}
	stale := look.answer == nil || *look.answer && time.Since(look.at) >= again
	if stale && !look.under {
		look.under, read = true, true
	}
	if look.answer != nil {
		a := *look.answer
		answer = &a
	}
	return answer, read
}

func (h *Host) lookForV2(ctx context.Context, pid int, token string) {
	found, err := h.o.Sources.V2InLog(ctx, token)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.v2.under = false
	if errors.Is(err, context.Canceled) {
		return // the host ends
	}
	if err != nil {
		h.o.Log.Warn("cannot look through the member's log", "err", err)
		return
	}
	if h.v2.pid == pid {
		h.v2.answer, h.v2.at = &found, time.Now()
	}
}
