package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/record"
)

// Bounds of what is done in the background.
const (
	stageDeadline  = 2 * time.Hour // a large database over a slow line, and a test of it
	backupDeadline = 2 * time.Hour // the same data the other way
	// logEndDeadline is how long a look that has no end of its own waits for a
	// reading of the log. Others wait until logAnswerTime before their end, which is
	// for the way of the answer, and not longer than logEndMost: it is to say, too,
	// that the reading goes on.
	logEndDeadline = 500 * time.Millisecond
	logAnswerTime  = 300 * time.Millisecond
	logEndMost     = 5 * time.Second
	// logReadDeadline bounds the reading of a log over as many looks as it takes:
	// some 10 GiB at 20 MiB a second, and less than a halt lasts.
	logReadDeadline = 10 * time.Minute
	// asideLogDeadline is longer: nothing waits for it but the host's own next member.
	AsideLogDeadline = 20 * time.Second
)

// Stage begins to make the source of a new generation ready, beside what runs.
// The token is minted here and durable before anything is built under it.
func (g *Staging) Stage(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := g.Keeper.Now()
	switch {
	case g.Sources == nil:
		return answer.Refused("host %s has no backup store to prepare data from", s.Host)
	case op.Source == nil || op.Command == "" || op.Version.IsZero():
		return answer.Refused("a stage without source, command or version")
	case op.Generation < s.Floor():
		return answer.Refused("this host refuses generation %d: it accepts %d and higher", op.Generation, s.Floor())
	case !slices.Contains(g.Releases(), op.Version):
		return answer.RefusedWithHint("install the release", "host %s does not have etcd %s", s.Host, op.Version)
	case g.Running():
		return g.instead(op)
	case op.Source.Kind == cluster.SourceSurvivor && (s.Local.Run || s.Local.State != cluster.MemberStarted):
		return answer.Refused("host %s has no stopped member to read data from", s.Host)
	}
	if why := g.notHalted(op, s); why != "" {
		return answer.Refused("%s", why)
	}
	if reason, hint := g.Obstacle(s); reason != "" {
		return answer.RefusedWithHint(hint, "%s", reason)
	}
	cuts := 0
	if old := s.Staged; old != nil {
		if old.Command == op.Command {
			cuts = old.Cuts
		}
		if in := s.Intent; in != nil && in.State == cluster.IntentFounding && in.Token == old.Token && in.Generation >= op.Generation {
			return answer.Refused("generation %[2]d begins with the data that host %[1]s has prepared", s.Host, in.Generation)
		}
		if err := g.DropStaged(s, old.Token); err != nil {
			return answer.Failed("remove the data prepared earlier: %v", err)
		}
	}
	fresh := cluster.Staged{
		Command: op.Command, Source: *op.Source, State: cluster.StageFetching, Since: time.Now().UTC().Round(0),
		Token: g.Mint(), Version: op.Version, PeerURLs: slices.Clone(g.URLs.Peer), Cuts: cuts,
	}
	order := StageOrder{
		Source: *op.Source, Version: op.Version, Token: fresh.Token, Disk: s.Disk, Name: s.Host, PeerURLs: slices.Clone(g.URLs.Peer), From: s.Local.Token,
	}
	if err := g.Keeper.Change(ctx, func(s *record.State) { s.Staged = &fresh }); err != nil {
		return answer.Failed("%v", err)
	}
	g.set(&fresh)
	begun := g.Work.InBackground(stageDeadline, func(ctx context.Context) {
		ctx, giveUp := context.WithCancelCause(ctx)
		defer giveUp(nil)
		g.mu.Lock()
		g.giveUp = giveUp
		g.mu.Unlock()
		g.run(ctx, order, fresh)
	})
	if !begun {
		g.set(nil)
		return answer.Refused("host %s is shutting down", s.Host)
	}
	return answer.Done("begun")
}

// AsideNeverRan is why data is set aside that was moved into place, and not started.
const AsideNeverRan = "never ran"

// errUnwanted is why a stage ends for which nobody asks any more.
var errUnwanted = errors.New("something else is to be made ready")

// stageInstead gives up what is being made ready for something else: its command
// was deleted, or another one has its name. The leader asks again until it is so.
func (g *Staging) instead(op cluster.Op) cluster.ApplyReply {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.under
	if now == nil || now.Command == op.Command && now.Version == op.Version && now.Source.Kind == op.Source.Kind &&
		now.Source.Backup == op.Source.Backup && now.Source.Dir == op.Source.Dir && now.Source.SHA256 == op.Source.SHA256 {
		return answer.Refused("host %s is preparing it", g.Host)
	}
	if g.giveUp != nil {
		g.giveUp(errUnwanted)
	}
	return answer.Refused("host %s is dropping data that it prepared for another command", g.Host)
}

func (g *Staging) set(s *cluster.Staged) {
	g.mu.Lock()
	g.under = s
	g.mu.Unlock()
}

// runStage does the work and records how it ended.
func (g *Staging) run(ctx context.Context, o StageOrder, begun cluster.Staged) {
	progress := func(state cluster.StageState, bytes int64) {
		now := begun
		now.State, now.Bytes = state, bytes
		g.set(&now)
	}
	built, err := g.Sources.Stage(ctx, o, progress)
	end := begun
	end.Since = time.Now().UTC().Round(0) // what it took does not make it old
	unwanted := err != nil && errors.Is(context.Cause(ctx), errUnwanted)
	switch s := g.Keeper.Now(); {
	case unwanted:
		end.State = cluster.StageCut
	case err != nil:
		end.State, end.Reason, end.Hopeless = cluster.StageFailed, err.Error(), errors.Is(err, ErrBadSource)
		end.Needs = g.roomFor(err, o.Token)
	case o.Source.Kind == cluster.SourceHalted && (s.Halt() == nil || s.Halt().ID != begun.Command || s.Local.Token != o.From):
		end.State, end.Reason = cluster.StageFailed, "the halt was taken back meanwhile"
	case o.Source.Kind == cluster.SourceSurvivor && (s.Local.Run || s.Local.Token != o.From):
		end.State, end.Reason = cluster.StageFailed, "the member whose data was read was started meanwhile"
	default:
		end.State, end.Source, end.Cluster, end.Member = cluster.StageReady, built.Source, built.Cluster, built.Member
	}
	if ctx.Err() == nil || err == nil || unwanted { // shutting down is no failure: it is begun anew
		saveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), record.SaveTimeout)
		saveErr := g.Keeper.Change(saveCtx, func(s *record.State) {
			if s.Staged != nil && s.Staged.Token == o.Token && s.Disk == o.Disk {
				s.Staged = &end
			}
		})
		cancel()
		if saveErr != nil {
			end.State, end.Reason = cluster.StageFailed, saveErr.Error()
		}
	}
	if end.State == cluster.StageFailed && ctx.Err() == nil {
		g.Log.Warn("a source could not be made ready", "source", o.Source.Kind, "backup", o.Source.Backup, "reason", end.Reason)
	}
	g.set(nil)
	g.Changed()
}

// roomFor is how much room a stage that failed for want of it takes, in bytes; what it
// has made so far goes, so that the room there is can be told. Zero: it was another
// error.
func (g *Staging) roomFor(err error, token string) int64 {
	var no interface{ NeedsRoom() int64 }
	if !errors.As(err, &no) {
		return 0
	}
	if err := g.Sources.DropStaged(token); err != nil {
		g.Log.Warn("cannot take away what was staged before", "err", err)
	}
	return no.NeedsRoom()
}

// Running reports whether a source is being made ready now.
func (g *Staging) Running() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under != nil
}

// Staged is what a leader is told: the record, or how far it is.
func (g *Staging) Staged(s record.State) *cluster.Staged {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := s.Staged
	if g.under != nil && now != nil && g.under.Token == now.Token && now.State != cluster.StageReady && now.State != cluster.StageFailed {
		now = g.under
	}
	if now == nil {
		return nil
	}
	c := *now
	return &c
}

// mostCuts is how often a stage may be cut short by the end of the daemon. One
// that always is, as where memory runs out, must not be begun for ever.
const mostCuts = 3

// DropUnfinished notes that a restart cut a stage short: it is ordered anew.
func (g *Staging) DropUnfinished(ctx context.Context) {
	s := g.Keeper.Now()
	if s.Staged == nil || s.Staged.State != cluster.StageFetching && s.Staged.State != cluster.StageBuilding || g.Sources == nil {
		return
	}
	if err := g.Sources.DropStaged(s.Staged.Token); err != nil {
		g.Log.Warn("cannot take away what was staged before", "err", err)
		return
	}
	cut := *s.Staged
	cut.State, cut.Cuts = cluster.StageCut, cut.Cuts+1
	if cut.Cuts >= mostCuts {
		cut.State, cut.Reason = cluster.StageFailed, fmt.Sprintf("the daemon ended %d times while it was at it", cut.Cuts)
	}
	_ = g.Keeper.Change(ctx, func(s *record.State) { s.Staged = &cut }) // tried again at the next start
}

// DropUnstaged takes away what Unstage dropped.
func (g *Staging) DropUnstaged(before record.State) {
	old, now := before.Staged, g.Keeper.Now().Staged
	if old == nil || g.Sources == nil || now != nil && now.Token == old.Token {
		return
	}
	if err := g.DropStaged(g.Keeper.Now(), old.Token); err != nil {
		g.Log.Warn("cannot take away what was staged before", "err", err)
	}
}

// DropStaged takes away what was made ready and never ran. A daemon that ended between
// its move into a member's place and the record of that member left it there: that is set
// aside, since nothing would account for it. It comes first, because a move that failed is
// finished by it: without what it moves nothing could be moved on this host ever again.
func (g *Staging) DropStaged(s record.State, token string) error {
	if s.Local.Token != token {
		moved, err := g.Disk.SetAside(token, cluster.SetAside{Reason: AsideNeverRan})
		if err != nil {
			return err
		}
		if moved.Dir != "" {
			g.Log.Info("sets data aside that was made ready here, and never ran", "dir", moved.Dir)
		}
	}
	err := g.Sources.DropStaged(token)
	g.Inventory.Refresh()
	return err
}

// notHalted says why the data of the own member cannot be taken for a change of
// version; empty: it can, or something else is asked for.
func (g *Staging) notHalted(op cluster.Op, s record.State) string {
	halt := s.Halt()
	switch {
	case op.Source.Kind != cluster.SourceHalted:
		return ""
	case halt == nil || halt.ID != op.Command:
		return "the generation is not halted for this change"
	case s.Local.State != cluster.MemberStarted || !g.Stopped():
		return "host " + string(s.Host) + " does not hold a stopped member whose data could be read"
	}
	return ""
}
