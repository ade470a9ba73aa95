package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// later moves the clocks of all daemons: for them, what was just now is so long
// ago as it takes a test too long to wait for.
func (c *testCluster) later(total time.Duration) {
	c.t.Helper()
	for _, h := range c.hosts {
		h.setClock(total)
	}
}

// taken are the backups in the store that were taken for a reason.
func (c *testCluster) taken(reason backup.Reason) []listed {
	c.t.Helper()
	return slices.DeleteFunc(c.listBackups(), func(b listed) bool { return b.Reason != string(reason) })
}

// backedUpBefore waits for the first sign of a change, and demands that a backup
// for that reason lies in the store by then, with all that was written before.
func (c *testCluster) backedUpBefore(reason backup.Reason, revision int64, what string, changed func(context.Context) (bool, error)) {
	c.t.Helper()
	eventually(c.t, 2*time.Minute, what, func(ctx context.Context) error {
		is, err := changed(ctx)
		if err == nil && !is {
			err = errors.New("not yet")
		}
		return err
	})
	all := c.taken(reason)
	if !slices.ContainsFunc(all, func(b listed) bool { return b.Revision >= revision && b.Problem == "" }) {
		c.t.Errorf("%s, and no backup %q of revision %d or later lies in the store: %+v", what, reason, revision, c.listBackups())
	}
}

// revision is that of a write that is made now.
func (c *testCluster) revision() (revision int64) {
	c.t.Helper()
	eventually(c.t, soon, "a write", func(ctx context.Context) error {
		put, err := c.etcd().Put(ctx, "revision", "of now")
		if err == nil {
			revision = put.Header.Revision
		}
		return err
	})
	return revision
}

// Before a member is taken out on purpose, and before the first member is
// restarted with another release, a backup is taken, and it lies in the store
// before anybody is touched.
func TestBackupBeforeChange(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{hosts: 4, version: testetcd.V36, flags: []string{"--backup-interval=2h"}})
	c.start(4)
	w := c.write()
	c.takeBackup()
	c.later(10 * time.Minute) // that one is too old for a change, and the next one is not due
	members := len(c.listed())
	if n := len(c.taken(backup.ReasonBeforeChange)); n != 0 {
		t.Fatalf("%d backups were taken before a change, and there was none", n)
	}

	at := c.revision()
	leader := c.agree()
	done := make(chan result, 1)
	go func() {
		done <- c.etcdadm("member", "remove", string(c.host(without(3, leader)[0]).id()), "--hold", "--yes", "--data-dir", leader.dir, "--timeout=60s")
	}()
	c.backedUpBefore(backup.ReasonBeforeChange, at, "a member is taken out", func(ctx context.Context) (bool, error) {
		list, err := c.etcd().MemberList(ctx)
		return err == nil && len(list.Members) < members, err
	})
	if r := <-done; r.code != cli.ExitOK {
		t.Fatal(r)
	}
	c.configure(3) // which lifts the hold, too
	on := c.members(2*time.Minute, 3)
	c.later(30 * time.Minute)
	at = c.revision()
	c.asks(testetcd.V37, 3)
	c.backedUpBefore(backup.ReasonBeforeVersion, at, "a member runs another release", func(context.Context) (bool, error) {
		moved, _ := c.split(testetcd.V37, on...)
		return len(moved) > 0, nil
	})
	c.runs(3*time.Minute, on...)
	w.check()
	w.neverBack()
}

// A change of version for which no backup can be taken waits, says what for, and
// touches nobody; it goes on by itself once one could be taken.
func TestVersionWaitsForABackup(t *testing.T) {
	longOnly(t)
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	c := formed(t, 3, options{version: testetcd.V36, store: objectStore(t, server, teststore.Versitygw, proxy.URL), flags: []string{"--backup-interval=2h"}})
	w := c.write()
	c.takeBackup()
	c.later(10 * time.Minute)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if uploads(r) {
			return teststore.Fail
		}
		return teststore.Pass
	})
	pids := c.pids()
	at := c.revision()
	c.asks(testetcd.V37, 3)
	c.blocked(c.agree(), "a backup is wanted first, and the last try failed", testetcd.V37)
	c.passes(10 * time.Second)
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("without a backup the etcds had the pids %v and have %v", pids, now)
	}
	proxy.Inject(nil)
	eventually(t, 3*time.Minute, "a backup before the version changes", func(context.Context) error {
		if len(c.taken(backup.ReasonBeforeVersion)) == 0 {
			return fmt.Errorf("there is %+v", c.listBackups())
		}
		return nil
	})
	c.backedUpBefore(backup.ReasonBeforeVersion, at, "a member runs another release", func(context.Context) (bool, error) {
		moved, _ := c.split(testetcd.V37, 1, 2, 3)
		return len(moved) > 0, nil
	})
	c.runs(3*time.Minute, 1, 2, 3)
	w.check()
	w.neverBack()
}
