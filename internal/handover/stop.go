package handover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/setup"
	"golang.org/x/sys/unix"
)

const (
	// endsWithin is how long the old process has: a kubelet looks for its manifests every 20 s and gives a pod 30 s, systemd
	// gives a unit 90 s.
	endsWithin = 3 * time.Minute
	// endsLook is how often it is looked.
	endsLook = 100 * time.Millisecond
	// endsSays is how soon it is told what is waited for.
	endsSays = 2 * time.Second
)

// ErrBusy says that it may not be stopped now. It runs on.
var ErrBusy = errors.New("it is not stopped")

// Stop implements setup.Existing. What does not run is stopped, but for a static pod between two of its starts, whose manifest
// is moved away.
func (e *Etcd) Stop(ctx context.Context) error {
	if e.plan.Moved() {
		return nil
	}
	held := runtime.CheckUnlocked(e.opt.From)
	locked, runs := errors.AsType[*runtime.LockedError](held)
	if held != nil && !runs {
		return held
	}
	if runs {
		if why := e.obstacle(ctx); why != "" {
			return &setup.Error{Problem: why, Err: ErrBusy, Advice: "bring every member up, and run the command again"}
		}
		if e.opt.First { // asked once more, since a person may have begun on two hosts
			if where := e.takenOver(ctx); where != "" {
				return &setup.Error{Problem: where, Err: ErrBusy, Advice: "etcdadm token create there, then join with --adopt here; what this run has begun: etcdadm reset"}
			}
		}
		e.moveLeader(ctx)
	}
	switch {
	case e.request.Manifest != "":
		if err := e.moveManifest(); err != nil {
			return err
		}
	case !runs:
		return nil
	case locked.PID == 0:
		return &setup.Error{Problem: held.Error(), Err: ErrBusy, Advice: "stop it, so that it stays stopped, and run the command again"}
	default:
		if err := e.end(ctx, locked.PID); err != nil {
			return err
		}
	}
	return e.awaitEnd(ctx)
}

// moveLeader hands raft's leadership on first, which spares clients an election. What does not come of it costs them one.
func (e *Etcd) moveLeader(ctx context.Context) {
	view, err := e.view(ctx)
	if err != nil {
		return
	}
	for _, own := range view.Members {
		if own.ID != e.plan.Member {
			continue
		}
		st, at, err := e.status(ctx, own)
		if err != nil || st.Leader != own.ID {
			return
		}
		config := e.config
		config.Endpoints = []string{at}
		c, err := etcd.New(config)
		if err != nil {
			return
		}
		defer c.Close()
		for _, heir := range view.Members {
			if heir.ID != own.ID {
				if err := c.MoveLeader(ctx, heir.ID); err != nil {
					e.say("raft's leadership could not be handed on, which costs an election: %v", err)
				}
				return
			}
		}
	}
}

func (e *Etcd) say(format string, args ...any) {
	if e.opt.Say != nil {
		e.opt.Say(fmt.Sprintf(format, args...))
	}
}

// manifestAside is where a static pod's manifest is out of the kubelet's sight.
func manifestAside(path string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))+".before-etcdadm"+filepath.Ext(path))
}

func (e *Etcd) moveManifest() error {
	from, to := e.request.Manifest, manifestAside(e.request.Manifest)
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return &setup.Error{Problem: fmt.Sprintf("move %s to %s", from, to), Err: err, Advice: "move the manifest out of " + filepath.Dir(from) + " yourself, and run the command again"}
	}
	return errors.Join(durable.SyncDir(filepath.Dir(to)), durable.SyncDir(filepath.Dir(from)))
}

// end asks a unit to end, or the process itself.
func (e *Etcd) end(ctx context.Context, pid int) error {
	if unit := adoption.UnitOf(pid); unit != "" && e.opt.StopUnit != nil {
		return e.opt.StopUnit(ctx, unit)
	}
	process, err := os.FindProcess(pid) // by a pidfd, so that it is this one or none
	if err != nil {
		return err
	}
	defer process.Release() //nolint:errcheck // nothing hangs on it
	if now, is := errors.AsType[*runtime.LockedError](runtime.CheckUnlocked(e.opt.From)); !is || now.PID != pid {
		return nil // it has ended, or another one came, which the wait tells
	}
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// awaitEnd returns when nothing runs on the data.
func (e *Etcd) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	tick := time.NewTicker(endsLook)
	defer tick.Stop()
	say := time.Now().Add(endsSays)
	for {
		held := runtime.CheckUnlocked(e.opt.From)
		if held == nil {
			return nil
		}
		if !say.IsZero() && time.Now().After(say) {
			e.say("waiting: %v", held)
			say = time.Time{}
		}
		select {
		case <-ctx.Done():
			return &setup.Error{Problem: held.Error(), Err: errors.Join(ErrBusy, ctx.Err()), Advice: "something starts it again, or it does not end: see to that, and run the command again"}
		case <-tick.C:
		}
	}
}
