package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/cli"
)

// All hosts lose everything, with their names or under new ones. The daemons
// found nothing by themselves: they say what is to be done, and one command
// brings the cluster back.
func TestTotalLoss(t *testing.T) {
	t.Parallel()
	for what, keepIdentity := range map[string]bool{"same names": true, "new names": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if !keepIdentity && !*long {
				t.Skip("the same names are enough for every day: -e2e.long")
			}
			c := formed(t, 3, options{})
			c.fill("k/", 5000)
			name := c.takeBackup()
			c.wipeAll(keepIdentity)
			c.start(1, 2, 3)
			c.blocked(c.host(1), "etcd has 0 members registered; must issue restore-backup command to proceed", name, "etcdadm restore "+name)
			c.said(soon, "etcd has 0 members registered; must issue restore-backup command to proceed")
			if r := c.ctl("--backup-store="+c.storeURL(), "list-backups"); !strings.Contains(r.stdout, name+"\n") {
				t.Errorf("%s", r)
			}
			began := time.Now()
			command := c.restoreByCtl(name)
			c.takesWrites()
			serving := time.Since(began)
			c.generation(2, 1, 2, 3)
			t.Logf("5000 keys: ordinary clients are served %s after the command, by three voters after %s",
				serving.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			w := c.write()
			c.ended(command, "done")
			if n := c.countKeys("k/"); n != 5000 {
				t.Errorf("there are %d keys, want 5000", n)
			}
			w.check()
		})
	}
}

// wipeAll has every host lose its processes and its disk.
func (c *testCluster) wipeAll(keepIdentity bool) {
	c.t.Helper()
	for _, h := range c.hosts {
		h.crash()
	}
	for _, h := range c.hosts {
		h.wipe(keepIdentity)
	}
}

// takesWrites waits until an ordinary client can write.
func (c *testCluster) takesWrites() {
	c.t.Helper()
	client := c.newClient()
	defer client.Close()
	eventually(c.t, restoreWithin, "a write by an ordinary client", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second) // a member in the way holds up no other
		defer cancel()
		_, err := client.Put(ctx, "served", "again")
		return err
	})
}

// Two of three machines are gone with their disks, and the third lost its own.
// The restore names whose word is missing, takes a person's for it, and founds
// the cluster on what is there: the old machine and a new one.
func TestRestoreWithoutTheOldMachines(t *testing.T) {
	if !*long {
		t.Skip("TestTotalLoss is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{hosts: 4})
	c.fill("k/", 200)
	name := c.takeBackup()
	two, three := string(c.host(2).id()), string(c.host(3).id())
	for _, n := range []int{1, 2, 3} {
		c.host(n).crash()
		c.host(n).wipe(true)
	}
	c.start(1, 4)
	c.leader(soon, c.host(4))
	command := c.restoreByCtl(name)
	c.blocked(c.host(1), "have to stop and promise", "--lost "+two, "--lost "+three)
	// The ctl's command cannot name them; etcdadm's takes its place.
	if r := c.restore(name, "--lost", two, "--lost", three); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.ended(command, "rejected")
	c.generation(2, 1, 4)
	if n := c.countKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
	c.addHost().start()
	c.voters(restoreWithin, 1, 4, 5)
}
