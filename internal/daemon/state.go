package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// errStateGone says that the state directory was wiped, or replaced by another
// one, while the daemon ran and no etcd of its did any more.
var errStateGone = errors.New("the data directory was wiped while the daemon ran")

// stateLook is how often the state directory is looked at.
const stateLook = time.Second

// watchState ends with errStateGone when what this daemon has locked is no
// longer what lies in the data directory: it could neither promise nor write
// anything down any more. While etcd runs it waits: a member that still serves
// is not given up for that.
func (d *daemon) watchState(ctx context.Context) error {
	path := filepath.Join(d.cfg.DataDir, "etcdadm", "lock")
	held, err := os.Stat(path)
	t := time.NewTicker(stateLook)
	defer t.Stop()
	for missed := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		now, statErr := os.Stat(path)
		switch {
		case err != nil || errors.Is(statErr, fs.ErrNotExist), statErr == nil && !os.SameFile(held, now):
			missed++
		default:
			missed = 0
		}
		// Twice: whoever wipes may not be done yet.
		if missed >= 2 && d.process.Status().PID == 0 {
			return errStateGone
		}
	}
}
