package host

import (
	"context"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/evidence"
	"etcdadm.io/internal/host/record"
)

// noticeLogByItself looks at the log of a member that starts, beside an op.
func (h *Host) noticeLogByItself() {
	defer h.work.LooksFor("") // nothing
	h.work.LooksFor("a read of its starting member's log")
	h.evidence.NoticeLog()
}

// becomeNewDisk is called by Run when a start was refused because the evidence
// was gone.
func (h *Host) becomeNewDisk(ctx context.Context) {
	t := h.work.BeginWait(ctx, cluster.Op{Kind: cluster.OpBoot})
	if t == nil {
		return
	}
	defer h.work.End(t)
	s := h.keeper.Now()
	if s.Local.State != cluster.MemberStarting && s.Local.State != cluster.MemberStarted {
		return
	}
	h.work.Awaits("a read of its member's data")
	marked, wal, err := h.o.Disk.Data(s.Local.Token, s.Disk)
	if err != nil || record.Judge(s.Local, marked, wal) == record.Evident {
		return
	}
	if h.o.Process.Status().State == cluster.ProcessRunning {
		noteVanished(h.notes, s)
		return
	}
	h.forgetDisk(ctx, "its data was gone")
}

// wentBack is the reason of a new disk whose content is older than what others remember of it.
const wentBack = "disk went back in time"

// forgetDisk makes this a new disk: the host ID stays, the disk ID is new, no
// member is recorded, and what is left of its data is set aside. The caller
// runs a task, and no process runs that could be kept.
func (h *Host) forgetDisk(ctx context.Context, reason string) {
	fresh, before := cluster.DiskID(h.o.Mint()), h.keeper.Now()
	var err error
	if h.o.Forgets != nil && (reason == wentBack || !h.Sure()) { // no later word is about the disk that promised
		h.work.Awaits("its part in keeping the record to be given up")
		err = h.o.Forgets(ctx)
	}
	if err == nil {
		err = h.keeper.Change(ctx, func(s *record.State) { newDisk(s, fresh, reason) })
	}
	if err != nil {
		h.notes.Note(cluster.Problem{
			Code:     "disk-forgot",
			Sentence: fmt.Sprintf("the disk of host %s lost its member's data, and the host cannot record that: %v", h.o.ID, err),
			Hint:     "make the data directory writable; until then the member is not started",
			Unfit:    true,
		})
		return
	}
	h.o.Log.Warn("the disk lost its member: the host goes on as a new disk", "reason", reason, "disk", fresh)
	h.NewDisk()
	h.asked.Store(true) // it promised nothing
	h.fences.drop()
	h.staging.DropUnstaged(before)
	_ = h.resume(ctx) // noted, and tried again by tick
	h.changed()
}

// newDisk makes this a new disk.
func newDisk(s *record.State, fresh cluster.DiskID, reason string) {
	if l := s.Local; l.Token != "" {
		s.Journal = &record.Entry{
			Op:   cluster.Op{Kind: cluster.OpSetAside, Token: l.Token, Cluster: l.Cluster, Member: l.Member, Generation: l.Generation, Reason: reason},
			Step: record.MoveData,
		}
		if l.Member != 0 {
			s.Carried = append(s.Carried, l.Member)
			s.Voted = record.Without(s.Voted, l.Member)
		}
	}
	s.PastDisks = append(s.PastDisks, s.Disk)
	s.Disk, s.Epoch = fresh, 0
	s.Local, s.Staged = cluster.LocalMember{}, nil
}

// resume finishes setting data aside; the caller runs a task. Every step may
// have been taken before.
func (h *Host) resume(ctx context.Context) error {
	s := h.keeper.Now()
	if s.Journal == nil {
		return nil
	}
	err := h.moveData(ctx, s)
	if err != nil {
		h.notes.Note(cluster.Problem{
			Code:     "data-not-set-aside",
			Sentence: fmt.Sprintf("host %s could not set the data of its former member aside: %v", s.Host, err),
			Hint:     "the host tries again every ten seconds",
			Unfit:    true,
		})
		return err
	}
	h.notes.Clear("data-not-set-aside")
	h.notes.Clear("data-vanished")
	h.notes.Clear(evidence.CodeOtherLog)
	h.inventory.Refresh()
	return nil
}

func (h *Host) moveData(ctx context.Context, s record.State) error {
	op := s.Journal.Op
	if s.Launch != nil {
		// A process of an earlier daemon may be there, if this is a restart.
		if h.o.Process.Status().State == cluster.ProcessStopped {
			adoptCtx, cancel := context.WithTimeout(ctx, adoptTimeout)
			_, err := h.o.Process.Adopt(adoptCtx, *s.Launch)
			cancel()
			if err != nil {
				return fmt.Errorf("look for a running process: %w", err)
			}
		}
		stopCtx, cancel := context.WithTimeout(ctx, stopDeadline)
		err := h.o.Process.Stop(stopCtx)
		cancel()
		if err != nil {
			return fmt.Errorf("stop member: %w", err)
		}
	}
	what := cluster.SetAside{Cluster: op.Cluster, Generation: op.Generation, Member: op.Member, Reason: op.Reason}
	if s.Launch != nil && s.Launch.Token == op.Token {
		what.Version = s.Launch.Version
	}
	if s.Local.Token == op.Token {
		what.Doubt = s.Local.Doubt
	}
	if op.Reason == cluster.AsideRemoved || op.Reason == cluster.AsideSuperseded {
		what.Log = h.asideLog(ctx, op)
	}
	if _, err := h.o.Disk.SetAside(op.Token, what); err != nil {
		return fmt.Errorf("set data aside: %w", err)
	}
	return h.keeper.Change(ctx, func(s *record.State) {
		if op.Member != 0 && !slices.Contains(s.Carried, op.Member) {
			s.Carried = append(s.Carried, op.Member)
		}
		s.Local, s.Launch, s.Journal = cluster.LocalMember{}, nil, nil
	})
}

// asideLog is how far the log goes that is about to be set aside; zero when that
// cannot be read, or when it is not the member's own. Without it nothing can show
// later that what serves has gone further, and the data is kept (SAFETY.md, rule 22);
// nor that a recovery left the furthest data behind.
func (h *Host) asideLog(ctx context.Context, op cluster.Op) (end cluster.Progress) {
	c, m, err := h.o.Disk.Owner(op.Token)
	if err != nil || !evidence.IsLogOf(cluster.LocalMember{Cluster: op.Cluster, Member: op.Member}, c, m) {
		return end
	}
	if p, _ := h.logs.End(ctx, op.Token, bulk.AsideLogDeadline); p != nil {
		end = *p
	}
	return end
}

// stopStray stops a process that took another ID, also when that could not be
// written down: no permit lets it run again.
func (h *Host) stopStray(ctx context.Context) {
	t := h.work.BeginWait(ctx, cluster.Op{Kind: cluster.OpStop, Reason: "it took another member's ID"})
	if t == nil {
		return
	}
	defer h.work.End(t)
	s := h.keeper.Now()
	if s.Launch == nil || s.Local.State == cluster.MemberStarted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	if err := h.o.Process.Kill(ctx); err != nil { // it must not vote while it ends
		h.o.Log.Error("cannot stop the member", "err", err)
	}
}
