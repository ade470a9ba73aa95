package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
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
	asideLogDeadline = 20 * time.Second
)

// stage begins to make the source of a new generation ready, beside what runs.
// The token is minted here and durable before anything is built under it.
func (h *Host) stage(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.snapshot()
	switch {
	case h.o.Sources == nil:
		return refused("host %s has no backup store to make a source ready from", s.Host)
	case op.Source == nil || op.Command == "" || op.Version.IsZero():
		return refused("a stage without source, command or version")
	case op.Generation < s.Floor():
		return refused("generation %d is refused: this host accepts %d and higher", op.Generation, s.Floor())
	case !slices.Contains(h.o.Releases(), op.Version):
		return refusedWithHint("install the release", "host %s does not have etcd %s", s.Host, op.Version)
	case h.staging():
		return h.stageInstead(op)
	case op.Source.Kind == cluster.SourceSurvivor && (s.Local.Run || s.Local.State != cluster.MemberStarted):
		return refused("host %s does not hold a stopped member whose data could be read", s.Host)
	}
	if why := h.notHalted(op, s); why != "" {
		return refused("%s", why)
	}
	if reason, hint := h.obstacle(s); reason != "" {
		return refusedWithHint(hint, "%s", reason)
	}
	cuts := 0
	if old := s.Staged; old != nil {
		if old.Command == op.Command {
			cuts = old.Cuts
		}
		if in := s.Intent; in != nil && in.State == cluster.IntentFounding && in.Token == old.Token && in.Generation >= op.Generation {
			return refused("what lies ready on host %s is what generation %d begins with", s.Host, in.Generation)
		}
		if err := h.dropStaged(s, old.Token); err != nil {
			return failed("take away what was staged before: %v", err)
		}
	}
	fresh := cluster.Staged{
		Command: op.Command, Source: *op.Source, State: cluster.StageFetching, Since: time.Now().UTC().Round(0),
		Token: h.o.Mint(), Version: op.Version, PeerURLs: slices.Clone(h.o.URLs.Peer), Cuts: cuts,
	}
	order := StageOrder{
		Source: *op.Source, Version: op.Version, Token: fresh.Token, Disk: s.Disk, Name: s.Host, PeerURLs: slices.Clone(h.o.URLs.Peer), From: s.Local.Token,
	}
	if err := h.save(ctx, func(s *record.State) { s.Staged = &fresh }); err != nil {
		return failed("%v", err)
	}
	h.setStageNow(&fresh)
	begun := h.inBackground(stageDeadline, func(ctx context.Context) {
		ctx, giveUp := context.WithCancelCause(ctx)
		defer giveUp(nil)
		h.mu.Lock()
		h.stageGiveUp = giveUp
		h.mu.Unlock()
		h.runStage(ctx, order, fresh)
	})
	if !begun {
		h.setStageNow(nil)
		return refused("host %s is shutting down", s.Host)
	}
	return done("begun")
}

// asideNeverRan is why data is set aside that was moved into place, and not started.
const asideNeverRan = "never ran"

// errUnwanted is why a stage ends for which nobody asks any more.
var errUnwanted = errors.New("something else is to be made ready")

// stageInstead gives up what is being made ready for something else: its command
// was deleted, or another one has its name. The leader asks again until it is so.
func (h *Host) stageInstead(op cluster.Op) cluster.ApplyReply {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.stageNow
	if now == nil || now.Command == op.Command && now.Version == op.Version && now.Source.Kind == op.Source.Kind &&
		now.Source.Backup == op.Source.Backup && now.Source.Dir == op.Source.Dir && now.Source.SHA256 == op.Source.SHA256 {
		return refused("host %s is making it ready", h.o.ID)
	}
	if h.stageGiveUp != nil {
		h.stageGiveUp(errUnwanted)
	}
	return refused("host %s gives up making something else ready", h.o.ID)
}

func (h *Host) setStageNow(s *cluster.Staged) {
	h.mu.Lock()
	h.stageNow = s
	h.mu.Unlock()
}

// runStage does the work and records how it ended.
func (h *Host) runStage(ctx context.Context, o StageOrder, begun cluster.Staged) {
	progress := func(state cluster.StageState, bytes int64) {
		now := begun
		now.State, now.Bytes = state, bytes
		h.setStageNow(&now)
	}
	built, err := h.o.Sources.Stage(ctx, o, progress)
	end := begun
	end.Since = time.Now().UTC().Round(0) // what it took does not make it old
	unwanted := err != nil && errors.Is(context.Cause(ctx), errUnwanted)
	switch s := h.snapshot(); {
	case unwanted:
		end.State = cluster.StageCut
	case err != nil:
		end.State, end.Reason, end.Hopeless = cluster.StageFailed, err.Error(), errors.Is(err, ErrBadSource)
		end.Needs = h.roomFor(err, o.Token)
	case o.Source.Kind == cluster.SourceHalted && (s.Halt() == nil || s.Halt().ID != begun.Command || s.Local.Token != o.From):
		end.State, end.Reason = cluster.StageFailed, "the halt was taken back meanwhile"
	case o.Source.Kind == cluster.SourceSurvivor && (s.Local.Run || s.Local.Token != o.From):
		end.State, end.Reason = cluster.StageFailed, "the member whose data was read was started meanwhile"
	default:
		end.State, end.Source, end.Cluster, end.Member = cluster.StageReady, built.Source, built.Cluster, built.Member
	}
	if ctx.Err() == nil || err == nil || unwanted { // shutting down is no failure: it is begun anew
		saveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		saveErr := h.save(saveCtx, func(s *record.State) {
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
		h.o.Log.Warn("a source could not be made ready", "source", o.Source.Kind, "backup", o.Source.Backup, "reason", end.Reason)
	}
	h.setStageNow(nil)
	h.changed()
}

// roomFor is how much room a stage that failed for want of it takes, in bytes; what it
// has made so far goes, so that the room there is can be told. Zero: it was another
// error.
func (h *Host) roomFor(err error, token string) int64 {
	var no interface{ NeedsRoom() int64 }
	if !errors.As(err, &no) {
		return 0
	}
	if err := h.o.Sources.DropStaged(token); err != nil {
		h.o.Log.Warn("cannot take away what was staged before", "err", err)
	}
	return no.NeedsRoom()
}

// staging reports whether a source is being made ready now.
func (h *Host) staging() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stageNow != nil
}

// staged is what a leader is told: the record, or how far it is.
func (h *Host) staged(s record.State) *cluster.Staged {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := s.Staged
	if h.stageNow != nil && now != nil && h.stageNow.Token == now.Token && now.State != cluster.StageReady && now.State != cluster.StageFailed {
		now = h.stageNow
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

// dropUnfinished notes that a restart cut a stage short: it is ordered anew.
func (h *Host) dropUnfinished(ctx context.Context) {
	s := h.snapshot()
	if s.Staged == nil || s.Staged.State != cluster.StageFetching && s.Staged.State != cluster.StageBuilding || h.o.Sources == nil {
		return
	}
	if err := h.o.Sources.DropStaged(s.Staged.Token); err != nil {
		h.o.Log.Warn("cannot take away what was staged before", "err", err)
		return
	}
	cut := *s.Staged
	cut.State, cut.Cuts = cluster.StageCut, cut.Cuts+1
	if cut.Cuts >= mostCuts {
		cut.State, cut.Reason = cluster.StageFailed, fmt.Sprintf("the daemon ended %d times while it was at it", cut.Cuts)
	}
	_ = h.save(ctx, func(s *record.State) { s.Staged = &cut }) // tried again at the next start
}

// dropUnstaged takes away what unstage dropped.
func (h *Host) dropUnstaged(before record.State) {
	old, now := before.Staged, h.snapshot().Staged
	if old == nil || h.o.Sources == nil || now != nil && now.Token == old.Token {
		return
	}
	if err := h.dropStaged(h.snapshot(), old.Token); err != nil {
		h.o.Log.Warn("cannot take away what was staged before", "err", err)
	}
}

// dropStaged takes away what was made ready and never ran. A daemon that ended between
// its move into a member's place and the record of that member left it there: that is set
// aside, since nothing would account for it. It comes first, because a move that failed is
// finished by it: without what it moves nothing could be moved on this host ever again.
func (h *Host) dropStaged(s record.State, token string) error {
	if s.Local.Token != token {
		moved, err := h.o.Disk.SetAside(token, cluster.SetAside{Reason: asideNeverRan})
		if err != nil {
			return err
		}
		if moved.Dir != "" {
			h.o.Log.Info("sets data aside that was made ready here, and never ran", "dir", moved.Dir)
		}
	}
	err := h.o.Sources.DropStaged(token)
	h.takeInventory()
	return err
}

// sourceLaunch is the first start of the founder of a generation that was made
// from data: the intent, as this host reads it by itself, is being founded with
// what lies ready here, and every generation before it is closed.
func (h *Host) sourceLaunch(in *cluster.Intent, f cluster.Founder, s record.State) string {
	switch st := s.Staged; {
	case in.State != cluster.IntentFounding:
		return fmt.Sprintf("generation %d is %s: its founder ran already, and this disk does not know of it", in.Generation, in.State)
	case len(in.Founders) != 1:
		return fmt.Sprintf("generation %d was made from data and has %d founders; it can have only one", in.Generation, len(in.Founders))
	case slices.ContainsFunc(in.History, func(g cluster.PastGeneration) bool { return !g.Closed }):
		return fmt.Sprintf("a generation before %d is not closed yet", in.Generation)
	case st == nil || st.State != cluster.StageReady || st.Token != in.Token:
		return fmt.Sprintf("what generation %d begins with does not lie ready on this disk", in.Generation)
	case st.Source != in.Source:
		return fmt.Sprintf("what lies ready on this disk was made from another source than generation %d", in.Generation)
	case st.Member != f.Member || st.Cluster != in.Cluster:
		return fmt.Sprintf("what lies ready is member %s of cluster %s, and generation %d begins with member %s of cluster %s", st.Member, st.Cluster, in.Generation, f.Member, in.Cluster)
	}
	return ""
}

// inBackground runs work beside the ops, until it ends or the host does; false
// when the host is shutting down.
func (h *Host) inBackground(limit time.Duration, work func(context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beginTask(limit, work)
}

// beginTask is inBackground for a caller that holds the mutex.
func (h *Host) beginTask(limit time.Duration, work func(context.Context)) bool {
	if h.closing {
		return false
	}
	ctx, cancel := context.WithTimeout(h.background, limit)
	h.tasks.Go(func() {
		defer cancel()
		work(ctx)
	})
	return true
}

// accounted leaves out what was staged here and moved into place just before
// the record of it could be written.
func accounted(foreign []cluster.SetAside, s record.State) []cluster.SetAside {
	if s.Staged == nil {
		return foreign
	}
	return slices.DeleteFunc(foreign, func(f cluster.SetAside) bool { return strings.HasSuffix(f.Dir, s.Staged.Token) })
}
