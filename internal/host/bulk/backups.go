package bulk

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
)

// Take begins a backup through the own member.
func (b *Backups) Take(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	if b.Sources == nil {
		return answer.Refused("host %s has no backup store", b.Host)
	}
	if _, r := b.Member.Status(ctx); r != nil {
		return *r
	}
	s := b.Keeper.Now()
	if reason := member.Mismatch(op, s.Local); reason != "" {
		return answer.Refused("%s", reason)
	}
	b.mu.Lock()
	if t := b.taken; t != nil && t.Running {
		same := t.Command == op.Command && t.Reason == op.Reason
		b.mu.Unlock()
		if same {
			return answer.Done("it was so already")
		}
		return answer.Refused("host %s is taking another backup", s.Host)
	}
	begun := b.taken.Next(time.Now().UTC().Round(0), op.Reason, op.Command)
	b.taken = &begun
	over, giveUp := context.WithCancelCause(context.Background())
	b.giveUp = giveUp
	order := BackupOrder{Reason: op.Reason, Member: s.Local.Member, Cluster: s.Local.Cluster, Spec: b.Memory.Spec(), Highest: b.Memory.Highest(), KeepFor: op.KeepFor}
	b.mu.Unlock()
	launch := *s.Launch
	if !b.Work.InBackground(backupDeadline, func(ctx context.Context) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(over, func() { end(context.Cause(over)) })()
		b.run(ctx, launch, order, begun)
	}) {
		return answer.Refused("host %s is shutting down", s.Host)
	}
	return answer.Done("begun")
}

// Running reports whether a backup is being taken.
func (b *Backups) Running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken != nil && b.taken.Running
}

// errOtherRelease is why a backup ends whose member is started anew as something else.
var errOtherRelease = errors.New("the member was started anew meanwhile, with another release or as another member; a backup is of one of them")

// GiveUp gives up a backup that is being taken, before what it reads through is
// started as something else. Beside a backup stands which release wrote it, as it was
// when it began: read through a later one it would be restored with a release that ends
// at each start on what is in it. The stream breaks with the process anyway; but a
// backup that has not come to it yet would read the next one's.
func (b *Backups) GiveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.giveUp != nil && b.taken != nil && b.taken.Running {
		b.giveUp(errOtherRelease)
	}
}

func (b *Backups) run(ctx context.Context, l record.Launch, o BackupOrder, begun cluster.Taken) {
	backup, err := b.Sources.Backup(ctx, l, o)
	end := begun
	end.Running, end.Ended, end.Former = false, time.Now().UTC().Round(0), nil
	if err != nil && errors.Is(context.Cause(ctx), errOtherRelease) {
		err = errOtherRelease
	}
	if err != nil {
		end.Failed(err)
		b.Log.Warn("a backup failed", "reason", o.Reason, "err", end.Why())
	} else {
		end.Backup = &backup
		b.Log.Info("backup taken", "backup", backup.Name, "reason", o.Reason, "revision", backup.Revision, "bytes", backup.Bytes, "took", end.Ended.Sub(end.Began).Round(time.Millisecond))
	}
	b.mu.Lock()
	b.taken = &end
	tidy := err == nil && !b.tidying
	if tidy {
		b.tidying = b.Work.InBackground(tidyDeadline, b.tidy)
	}
	b.mu.Unlock()
	b.Changed()
}

// tidyDeadline bounds the removal of backups that are not kept any longer, beside
// everything else. After a change of what is kept they may be thousands, a call to the
// store each; the next backup goes on where this one was broken off.
const tidyDeadline = 10 * time.Minute

// tidy follows a backup, which is over by then, whatever the store does.
func (b *Backups) tidy(ctx context.Context) {
	b.Sources.Tidy(ctx)
	b.mu.Lock()
	b.tidying = false
	b.mu.Unlock()
}

// Drill begins to try a backup out.
func (b *Backups) Drill(op cluster.Op) cluster.ApplyReply {
	s := b.Keeper.Now()
	switch {
	case b.Sources == nil || op.Backup == "" && !op.Keys:
		return answer.Refused("host %s has no backup store, or the drill names no backup", b.Host)
	case op.Keys && (s.Local.State != cluster.MemberStarted || op.Version.IsZero()):
		return answer.Refused("host %s has no running member whose keys can be tested with another release", b.Host)
	}
	b.mu.Lock()
	if b.test != nil && b.test.Running {
		b.mu.Unlock()
		return answer.Done("it was so already")
	}
	begun := cluster.Taken{Running: true, Began: time.Now().UTC().Round(0), Reason: "drill", Command: op.Command}
	b.test = &begun
	b.mu.Unlock()
	ok := b.Work.InBackground(stageDeadline, func(ctx context.Context) {
		backup, survey, err := b.runTest(ctx, op, s)
		end := begun
		end.Running, end.Ended = false, time.Now().UTC().Round(0)
		took := end.Ended.Sub(end.Began)
		if err != nil {
			end.Failed(err)
		} else {
			end.Backup, end.Survey = &backup, survey
		}
		if end.Survey != nil {
			end.Survey.Took = took
		}
		b.sayTest(op, took, err)
		b.mu.Lock()
		b.test = &end
		b.mu.Unlock()
		b.Changed()
	})
	if !ok {
		return answer.Refused("host %s is shutting down", b.Host)
	}
	return answer.Done("begun")
}

func (b *Backups) sayTest(op cluster.Op, took time.Duration, err error) {
	what := []any{"took", took.Round(time.Millisecond)}
	if op.Backup != "" {
		what = append(what, "backup", op.Backup)
	}
	if !op.Version.IsZero() {
		what = append(what, "with", op.Version)
	}
	switch {
	case err != nil && op.Keys:
		b.Log.Error("a change of version key by key was tried out, and failed", append(what, "err", err)...)
	case err != nil:
		b.Log.Error("a backup was tried out and cannot be relied on, or could not be tried out", append(what, "err", err)...)
	case op.Keys:
		b.Log.Info("a change of version key by key was tried out, and what was made was thrown away", what...)
	default:
		b.Log.Info("backup tried out in an etcd that was thrown away: it is good", what...)
	}
}

// runDrill tries a backup out, or what another release would begin with.
func (b *Backups) runTest(ctx context.Context, op cluster.Op, s record.State) (cluster.Backup, *cluster.Survey, error) {
	if !op.Keys {
		backup, err := b.Sources.Drill(ctx, op.Backup, op.Version)
		return backup, nil, err
	}
	survey, err := b.Sources.Survey(ctx, SurveyOrder{Name: op.Command, Backup: op.Backup, From: s.Local.Token, Wrote: s.Local.Version, To: op.Version})
	return cluster.Backup{Name: op.Backup}, &survey, err
}
