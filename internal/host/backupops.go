package host

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// takeBackup begins a backup through the own member.
func (h *Host) takeBackup(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	if h.o.Sources == nil {
		return refused("host %s has no backup store", h.o.ID)
	}
	if _, r := h.ownStatus(ctx); r != nil {
		return *r
	}
	s := h.snapshot()
	if reason := mismatch(op, s.Local); reason != "" {
		return refused("%s", reason)
	}
	h.mu.Lock()
	if t := h.taken; t != nil && t.Running {
		same := t.Command == op.Command && t.Reason == op.Reason
		h.mu.Unlock()
		if same {
			return done("it was so already")
		}
		return refused("host %s is taking another backup", s.Host)
	}
	begun := cluster.Taken{Running: true, Began: time.Now().UTC().Round(0), Reason: op.Reason, Command: op.Command}
	h.taken = &begun
	over, giveUp := context.WithCancelCause(context.Background())
	h.backupGiveUp = giveUp
	order := BackupOrder{Reason: op.Reason, Member: s.Local.Member, Cluster: s.Local.Cluster, Spec: h.spec, Highest: h.highest}
	h.mu.Unlock()
	launch := *s.Launch
	if !h.inBackground(backupDeadline, func(ctx context.Context) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(over, func() { end(context.Cause(over)) })()
		h.runBackup(ctx, launch, order, begun)
	}) {
		return refused("host %s is shutting down", s.Host)
	}
	return done("begun")
}

// errOtherRelease is why a backup ends whose member is started anew as something else.
var errOtherRelease = errors.New("the member was started anew meanwhile, with another release or as another member; a backup is of one of them")

// endBackup gives up a backup that is being taken, before what it reads through is
// started as something else. Beside a backup stands which release wrote it, as it was
// when it began: read through a later one it would be restored with a release that ends
// at each start on what is in it. The stream breaks with the process anyway; but a
// backup that has not come to it yet would read the next one's.
func (h *Host) endBackup() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.backupGiveUp != nil && h.taken != nil && h.taken.Running {
		h.backupGiveUp(errOtherRelease)
	}
}

func (h *Host) runBackup(ctx context.Context, l record.Launch, o BackupOrder, begun cluster.Taken) {
	b, err := h.o.Sources.Backup(ctx, l, o)
	end := begun
	end.Running, end.Ended = false, time.Now().UTC().Round(0)
	if err != nil && errors.Is(context.Cause(ctx), errOtherRelease) {
		err = errOtherRelease
	}
	if err != nil {
		end.Failed(err)
		h.o.Log.Warn("a backup failed", "reason", o.Reason, "err", end.Why())
	} else {
		end.Backup = &b
		h.o.Log.Info("backup taken", "backup", b.Name, "reason", o.Reason, "revision", b.Revision, "bytes", b.Bytes, "took", end.Ended.Sub(end.Began).Round(time.Millisecond))
	}
	h.mu.Lock()
	h.taken = &end
	tidy := err == nil && !h.tidying
	if tidy {
		h.tidying = h.beginTask(tidyDeadline, h.tidy)
	}
	h.mu.Unlock()
	h.changed()
}

// tidyDeadline bounds the removal of backups that are not kept any longer, beside
// everything else. After a change of what is kept they may be thousands, a call to the
// store each; the next backup goes on where this one was broken off.
const tidyDeadline = 10 * time.Minute

// tidy follows a backup, which is over by then, whatever the store does.
func (h *Host) tidy(ctx context.Context) {
	h.o.Sources.Tidy(ctx)
	h.mu.Lock()
	h.tidying = false
	h.mu.Unlock()
}

// takeDrill begins to try a backup out.
func (h *Host) takeDrill(op cluster.Op) cluster.ApplyReply {
	s := h.snapshot()
	switch {
	case h.o.Sources == nil || op.Backup == "" && !op.Keys:
		return refused("host %s has no backup store, or the drill names no backup", h.o.ID)
	case op.Keys && (s.Local.State != cluster.MemberStarted || op.Version.IsZero()):
		return refused("host %s has no member whose keys could be tried with another release", h.o.ID)
	}
	h.mu.Lock()
	if h.drill != nil && h.drill.Running {
		h.mu.Unlock()
		return done("it was so already")
	}
	begun := cluster.Taken{Running: true, Began: time.Now().UTC().Round(0), Reason: "drill", Command: op.Command}
	h.drill = &begun
	h.mu.Unlock()
	ok := h.inBackground(stageDeadline, func(ctx context.Context) {
		b, survey, err := h.runDrill(ctx, op, s)
		end := begun
		end.Running, end.Ended = false, time.Now().UTC().Round(0)
		took := end.Ended.Sub(end.Began)
		if err != nil {
			end.Failed(err)
		} else {
			end.Backup, end.Survey = &b, survey
		}
		if end.Survey != nil {
			end.Survey.Took = took
		}
		h.sayDrill(op, took, err)
		h.mu.Lock()
		h.drill = &end
		h.mu.Unlock()
		h.changed()
	})
	if !ok {
		return refused("host %s is shutting down", h.o.ID)
	}
	return done("begun")
}

func (h *Host) sayDrill(op cluster.Op, took time.Duration, err error) {
	what := []any{"took", took.Round(time.Millisecond)}
	if op.Backup != "" {
		what = append(what, "backup", op.Backup)
	}
	if !op.Version.IsZero() {
		what = append(what, "with", op.Version)
	}
	switch {
	case err != nil && op.Keys:
		h.o.Log.Error("a change of version key by key was tried out, and failed", append(what, "err", err)...)
	case err != nil:
		h.o.Log.Error("a backup was tried out and cannot be relied on, or could not be tried out", append(what, "err", err)...)
	case op.Keys:
		h.o.Log.Info("a change of version key by key was tried out, and what was made was thrown away", what...)
	default:
		h.o.Log.Info("backup tried out in an etcd that was thrown away: it is good", what...)
	}
}

// runDrill tries a backup out, or what another release would begin with.
func (h *Host) runDrill(ctx context.Context, op cluster.Op, s record.State) (cluster.Backup, *cluster.Survey, error) {
	if !op.Keys {
		b, err := h.o.Sources.Drill(ctx, op.Backup, op.Version)
		return b, nil, err
	}
	survey, err := h.o.Sources.Survey(ctx, SurveyOrder{Name: op.Command, Backup: op.Backup, From: s.Local.Token, Wrote: s.Local.Version, To: op.Version})
	return cluster.Backup{Name: op.Backup}, &survey, err
}
