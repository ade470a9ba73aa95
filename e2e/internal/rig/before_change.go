package rig

import (
	"context"
	"errors"
	"slices"
	"time"

	"etcdadm.io/backup"
)

// Later moves the clocks of all daemons: for them, what was just now is so long
// ago as it takes a test too long to wait for.
func (c *Cluster) Later(total time.Duration) {
	c.T.Helper()
	for _, h := range c.Hosts {
		h.SetClock(total)
	}
}

// Taken are the backups in the store that were taken for a reason.
func (c *Cluster) Taken(reason backup.Reason) []Listed {
	c.T.Helper()
	return slices.DeleteFunc(c.ListBackups(), func(b Listed) bool { return b.Reason != string(reason) })
}

// BackedUpBefore waits for the first sign of a change, and demands that a backup
// for that reason lies in the store by then, with all that was written before.
func (c *Cluster) BackedUpBefore(reason backup.Reason, revision int64, what string, changed func(context.Context) (bool, error)) {
	c.T.Helper()
	Eventually(c.T, 2*time.Minute, what, func(ctx context.Context) error {
		is, err := changed(ctx)
		if err == nil && !is {
			err = errors.New("not yet")
		}
		return err
	})
	all := c.Taken(reason)
	if !slices.ContainsFunc(all, func(b Listed) bool { return b.Revision >= revision && b.Problem == "" }) {
		c.T.Errorf("%s, and no backup %q of revision %d or later lies in the store: %+v", what, reason, revision, c.ListBackups())
	}
}

// Revision is that of a write that is made now.
func (c *Cluster) Revision() (revision int64) {
	c.T.Helper()
	Eventually(c.T, Soon, "a write", func(ctx context.Context) error {
		put, err := c.Etcd().Put(ctx, "revision", "of now")
		if err == nil {
			revision = put.Header.Revision
		}
		return err
	})
	return revision
}
