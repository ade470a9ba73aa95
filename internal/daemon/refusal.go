package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/runtime"
)

// keepRefusal keeps for people why this daemon did not start, or ended.
func keepRefusal(ctx context.Context, cfg Config, err error, log *slog.Logger) {
	if ctx.Err() != nil {
		return // it was asked to end
	}
	if err := KeepRefusal(cfg, err); err != nil {
		log.Warn("cannot keep why this daemon does not start, for etcdadm status", "err", err)
	}
}

// KeepRefusal keeps beside the data directory why a daemon did not start, and tells the other
// daemons of its cluster, as far as they are reached within lastWordTimeout. While another one
// has that directory there is nothing to keep: that one runs.
func KeepRefusal(cfg Config, cause error) error {
	if cause == nil || !filepath.IsAbs(cfg.DataDir) || errors.Is(cause, runtime.ErrLocked) {
		return nil
	}
	dir := filepath.Join(cfg.DataDir, "etcdadm")
	if _, err := os.Stat(dir); err == nil {
		lock, err := runtime.LockStateDir(dir)
		if errors.Is(err, runtime.ErrLocked) {
			return nil
		}
		if err == nil {
			_ = lock.Unlock() // it is closed at the end of the program, which is now
		}
	}
	r := console.Refusal{At: time.Now().UTC(), Cluster: cfg.ClusterName, Why: cause.Error()}
	var told interface{ Hint() string }
	if errors.As(cause, &told) {
		r.Hint = told.Hint()
	}
	err := console.KeepRefusal(cfg.DataDir, r)
	sayLastWord(cfg, r)
	return err
}
