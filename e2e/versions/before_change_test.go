package versions

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// Before a member is taken out on purpose, and before the first member is
// restarted with another release, a backup is taken, and it lies in the store
// before anybody is touched.
func TestBackupBeforeChange(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Version: testetcd.V36, Flags: []string{"--backup-interval=2h"}})
	c.Start(4)
	w := c.Write()
	c.TakeBackup()
	c.Later(10 * time.Minute) // that one is too old for a change, and the next one is not due
	members := len(c.Listed())
	if n := len(c.Taken(backup.ReasonBeforeChange)); n != 0 {
		t.Fatalf("%d backups were taken before a change, and there was none", n)
	}

	at := c.Revision()
	leader := c.Agree()
	done := make(chan rig.Result, 1)
	go func() {
		done <- c.Etcdadm("member", "remove", string(c.Host(rig.Without(3, leader)[0]).ID()), "--hold", "--yes", "--data-dir", leader.Dir, "--timeout=60s")
	}()
	c.BackedUpBefore(backup.ReasonBeforeChange, at, "a member is taken out", func(ctx context.Context) (bool, error) {
		list, err := c.Etcd().MemberList(ctx)
		return err == nil && len(list.Members) < members, err
	})
	if r := <-done; r.Code != cli.ExitOK {
		t.Fatal(r)
	}
	c.Configure(3) // which lifts the hold, too
	on := c.Members(2*time.Minute, 3)
	c.Later(30 * time.Minute)
	at = c.Revision()
	c.Asks(testetcd.V37, 3)
	c.BackedUpBefore(backup.ReasonBeforeVersion, at, "a member runs another release", func(context.Context) (bool, error) {
		moved, _ := c.Split(testetcd.V37, on...)
		return len(moved) > 0, nil
	})
	c.Runs(3*time.Minute, on...)
	w.Check()
	w.NeverBack()
}

// A change of version for which no backup can be taken waits, says what for, and
// touches nobody; it goes on by itself once one could be taken.
func TestVersionWaitsForABackup(t *testing.T) {
	rig.LongOnly(t)
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V36, Store: rig.ObjectStore(t, server, teststore.Versitygw, proxy.URL), Flags: []string{"--backup-interval=2h"}})
	w := c.Write()
	c.TakeBackup()
	c.Later(10 * time.Minute)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if rig.Uploads(r) {
			return teststore.Fail
		}
		return teststore.Pass
	})
	pids := c.Pids()
	at := c.Revision()
	c.Asks(testetcd.V37, 3)
	c.Blocked(c.Agree(), "a backup has to come first, and the last try failed", testetcd.V37)
	c.Passes(10 * time.Second)
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("without a backup the etcds had the pids %v and have %v", pids, now)
	}
	proxy.Inject(nil)
	rig.Eventually(t, 3*time.Minute, "a backup before the version changes", func(context.Context) error {
		if len(c.Taken(backup.ReasonBeforeVersion)) == 0 {
			return fmt.Errorf("there is %+v", c.ListBackups())
		}
		return nil
	})
	c.BackedUpBefore(backup.ReasonBeforeVersion, at, "a member runs another release", func(context.Context) (bool, error) {
		moved, _ := c.Split(testetcd.V37, 1, 2, 3)
		return len(moved) > 0, nil
	})
	c.Runs(3*time.Minute, 1, 2, 3)
	w.Check()
	w.NeverBack()
}
