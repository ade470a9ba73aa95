package evidence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/wake"
)

// Reasons for which Permit refuses a start.
var (
	errNotWanted = errors.New("the host's record does not want this member to run")
	errForgot    = errors.New("the evidence that this disk holds the member's log is gone")
	errOtherLog  = errors.New("the write-ahead log is another member's")
)

// Disk is where the evidence lies.
type Disk interface {
	Data(token string, disk cluster.DiskID) (marked, wal bool, err error)
	Owner(token string) (cluster.ClusterID, cluster.MemberID, error)
}

// Evidence is what a member is started on: that this disk has its log, or never had one
// (SAFETY.md, rules 8 and 9).
type Evidence struct {
	disk   Disk
	keeper *record.Keeper
	notes  *record.Notes
	log    *slog.Logger

	lost  chan struct{} // the evidence for the member was found gone
	stray chan struct{} // the process took another member's ID
}

// New has looked at nothing yet.
func New(disk Disk, keeper *record.Keeper, notes *record.Notes, log *slog.Logger) *Evidence {
	return &Evidence{disk: disk, keeper: keeper, notes: notes, log: log, lost: make(chan struct{}, 1), stray: make(chan struct{}, 1)}
}

// Lost receives a value after the evidence for the member was found gone.
func (e *Evidence) Lost() chan struct{} { return e.lost }

// Stray receives a value after the process was found to have taken another member's ID.
func (e *Evidence) Stray() chan struct{} { return e.stray }

// Permit is asked before every start of the process. What it reads may have
// changed since the start was ordered, so it reads everything again.
func (e *Evidence) Permit(nonce string) func() error {
	return func() error {
		s := e.keeper.Now()
		if s.Launch == nil || s.Launch.Nonce != nonce || !s.WantsRun() {
			return errNotWanted
		}
		marked, wal, err := e.disk.Data(s.Local.Token, s.Disk)
		if err != nil {
			return fmt.Errorf("look for the member's log: %w", err)
		}
		if record.Judge(s.Local, marked, wal) == record.Forgotten {
			wake.Up(e.lost)
			return errForgot
		}
		if err := e.checkOwner(s); err != nil {
			return err
		}
		// A log that was seen has to be there at every later start, so what
		// was seen is written down before the process runs again.
		return e.RecordLog(s, marked, wal)
	}
}

// RecordLog moves a starting member whose log was seen on to started, if it is
// the log of that member.
func (e *Evidence) RecordLog(s record.State, marked, wal bool) error {
	if s.Local.State != cluster.MemberStarting || !marked || !wal {
		return nil
	}
	c, m, err := e.disk.Owner(s.Local.Token)
	switch {
	case err != nil:
		return fmt.Errorf("look whose log it is: %w", err)
	case !IsLogOf(s.Local, c, m):
		return e.disown(s, c, m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), record.SaveTimeout)
	defer cancel()
	return e.keeper.Change(ctx, func(now *record.State) {
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

// NoticeLog looks whether a starting member has written its log.
func (e *Evidence) NoticeLog() {
	s := e.keeper.Now()
	if s.Local.State != cluster.MemberStarting {
		return
	}
	marked, wal, err := e.disk.Data(s.Local.Token, s.Disk)
	if err == nil {
		_ = e.RecordLog(s, marked, wal) // tried again at the next look
	}
}
