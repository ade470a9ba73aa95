package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Reasons for which Permit refuses a start.
var (
	errNotWanted = errors.New("the host's record does not want this member to run")
	errForgot    = errors.New("the evidence that this disk holds the member's log is gone")
	errOtherLog  = errors.New("the write-ahead log is another member's")
)

// saveTimeout bounds the wait for a turn to write, where no caller does.
const saveTimeout = 5 * time.Second

// permit is asked before every start of the process. What it reads may have
// changed since the start was ordered, so it reads everything again.
func (h *Host) permit(nonce string) Permit {
	return func() error {
		s := h.snapshot()
		if s.Launch == nil || s.Launch.Nonce != nonce || !s.WantsRun() {
			return errNotWanted
		}
		marked, wal, err := h.o.Disk.Data(s.Local.Token, s.Disk)
		if err != nil {
			return fmt.Errorf("look for the member's log: %w", err)
		}
		if record.Judge(s.Local, marked, wal) == record.Forgotten {
			signal(h.lost)
			return errForgot
		}
		if err := h.checkOwner(s); err != nil {
			return err
		}
		// A log that was seen has to be there at every later start, so what
		// was seen is written down before the process runs again.
		return h.recordLog(s, marked, wal)
	}
}

// recordLog moves a starting member whose log was seen on to started, if it is
// the log of that member.
func (h *Host) recordLog(s record.State, marked, wal bool) error {
	if s.Local.State != cluster.MemberStarting || !marked || !wal {
		return nil
	}
	c, m, err := h.o.Disk.Owner(s.Local.Token)
	switch {
	case err != nil:
		return fmt.Errorf("look whose log it is: %w", err)
	case !isLogOf(s.Local, c, m):
		return h.disown(s, c, m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	return h.save(ctx, func(now *record.State) {
		if now.Local.State == cluster.MemberStarting && now.Local.Member == s.Local.Member && now.Disk == s.Disk {
			now.Local.State = cluster.MemberStarted
			if now.Launch != nil { // what only a first start reads, no later one shall
				l := *now.Launch
				l.InitialCluster, l.Founding = nil, false
				now.Launch = &l
			}
		}
	})
}

// noticeLog looks whether a starting member has written its log.
func (h *Host) noticeLog() {
	s := h.snapshot()
	if s.Local.State != cluster.MemberStarting {
		return
	}
	marked, wal, err := h.o.Disk.Data(s.Local.Token, s.Disk)
	if err == nil {
		_ = h.recordLog(s, marked, wal) // tried again at the next look
	}
}

// noticeLogByItself is noticeLog by the host's hand.
func (h *Host) noticeLogByItself() {
	defer h.looksFor("") // nothing
	h.looksFor("a look at the log of its member, which starts")
	h.noticeLog()
}

// becomeNewDisk is called by Run when a start was refused because the evidence
// was gone.
func (h *Host) becomeNewDisk(ctx context.Context) {
	t := h.beginWait(ctx, cluster.Op{Kind: cluster.OpBoot})
	if t == nil {
		return
	}
	defer h.end(t)
	s := h.snapshot()
	if s.Local.State != cluster.MemberStarting && s.Local.State != cluster.MemberStarted {
		return
	}
	h.awaits("a look at its member's data")
	marked, wal, err := h.o.Disk.Data(s.Local.Token, s.Disk)
	if err != nil || record.Judge(s.Local, marked, wal) == record.Evident {
		return
	}
	if h.o.Process.Status().State == cluster.ProcessRunning {
		h.noteVanished(s)
		return
	}
	h.forgetDisk(ctx, "its data was gone")
}

// forgetDisk makes this a new disk: the host ID stays, the disk ID is new, no
// member is recorded, and what is left of its data is set aside. The caller
// runs a task, and no process runs that could be kept.
func (h *Host) forgetDisk(ctx context.Context, reason string) {
	fresh, before := h.mintDisk(), h.snapshot()
	err := h.save(ctx, func(s *record.State) {
		if l := s.Local; l.Token != "" {
			s.Journal = &record.Entry{
				Op:   cluster.Op{Kind: cluster.OpSetAside, Token: l.Token, Cluster: l.Cluster, Member: l.Member, Generation: l.Generation, Reason: reason},
				Step: record.MoveData,
			}
			if l.Member != 0 {
				s.Carried = append(s.Carried, l.Member)
				s.Voted = without(s.Voted, l.Member)
			}
		}
		s.PastDisks = append(s.PastDisks, s.Disk)
		s.Disk, s.Beat = fresh, 0
		s.Local, s.Staged = cluster.LocalMember{}, nil
	})
	if err != nil {
		h.note(cluster.Problem{
			Code:     "disk-forgot",
			Sentence: fmt.Sprintf("the disk of host %s has forgotten its member, and that cannot be written down: %v", h.o.ID, err),
			Hint:     "make the data directory writable; the member is not started",
			Unfit:    true,
		})
		return
	}
	h.o.Log.Warn("the disk forgot its member: the host goes on as a new disk", "reason", reason, "disk", fresh)
	h.mu.Lock()
	h.rolledBack = false
	h.stamps = nil
	h.mu.Unlock()
	h.clear("disk-went-back")
	h.dropUnstaged(before)
	_ = h.resume(ctx) // noted, and tried again by tick
	h.changed()
}

// resume finishes setting data aside; the caller runs a task. Every step may
// have been taken before.
func (h *Host) resume(ctx context.Context) error {
	s := h.snapshot()
	if s.Journal == nil {
		return nil
	}
	err := h.moveData(ctx, s)
	if err != nil {
		h.note(cluster.Problem{
			Code:     "data-not-set-aside",
			Sentence: fmt.Sprintf("host %s could not set the data of its former member aside: %v", s.Host, err),
			Hint:     "the host tries again every ten seconds",
			Unfit:    true,
		})
		return err
	}
	h.clear("data-not-set-aside")
	h.clear("data-vanished")
	h.clear(codeOtherLog)
	h.takeInventory()
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
	return h.save(ctx, func(s *record.State) {
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
	if err != nil || !isLogOf(cluster.LocalMember{Cluster: op.Cluster, Member: op.Member}, c, m) {
		return end
	}
	if p, _ := h.logEnd(ctx, op.Token, asideLogDeadline); p != nil {
		end = *p
	}
	return end
}

// takeInventory lists what lies on the disk beside the member's data.
func (h *Host) takeInventory() {
	s := h.snapshot()
	h.mu.Lock()
	h.inventNo++
	no := h.inventNo
	h.mu.Unlock()
	aside, foreign, err := h.o.Disk.Inventory(s.Local.Token)
	foreign = accounted(foreign, s)
	for i := range aside {
		aside[i].Foreign = aside[i].Member != 0 && !s.GaveUp(aside[i].Member)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if no < h.listed {
		return
	}
	h.listed, h.inventErr = no, err
	if err == nil {
		h.aside, h.foreign = aside, foreign
	}
}
