package restore

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
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
			if !keepIdentity && !*rig.Long {
				t.Skip("the same names are enough for every day: -e2e.long")
			}
			c := rig.Formed(t, 3, rig.Options{})
			c.Fill("k/", 5000)
			name := c.TakeBackup()
			c.WipeAll(keepIdentity)
			c.Start(1, 2, 3)
			c.Blocked(c.Host(1), "etcd has 0 members registered; must issue restore-backup command to proceed", name, "etcdadm restore "+name)
			c.Said(rig.Soon, "etcd has 0 members registered; must issue restore-backup command to proceed")
			if r := c.Ctl("--backup-store="+c.StoreURL(), "list-backups"); !strings.Contains(r.Stdout, name+"\n") {
				t.Errorf("%s", r)
			}
			began := time.Now()
			command := c.RestoreByCtl(name)
			c.TakesWrites()
			serving := time.Since(began)
			c.Generation(2, 1, 2, 3)
			t.Logf("5000 keys: ordinary clients are served %s after the command, by three voters after %s",
				serving.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			w := c.Write()
			c.Ended(command, "done")
			if n := c.CountKeys("k/"); n != 5000 {
				t.Errorf("there are %d keys, want 5000", n)
			}
			w.Check()
		})
	}
}

// Two of three machines are gone with their disks, and the third lost its own.
// The restore names whose word is missing, takes a person's for it, and founds
// the cluster on what is there: the old machine and a new one.
func TestRestoreWithoutTheOldMachines(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestTotalLoss is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4})
	c.Fill("k/", 200)
	name := c.TakeBackup()
	two, three := string(c.Host(2).ID()), string(c.Host(3).ID())
	for _, n := range []int{1, 2, 3} {
		c.Host(n).Crash()
		c.Host(n).Wipe(true)
	}
	c.Start(1, 4)
	c.Leader(rig.Soon, c.Host(4))
	command := c.RestoreByCtl(name)
	c.Blocked(c.Host(1), "have to stop and fence it off", "--lost "+two, "--lost "+three)
	// The ctl's command cannot name them; etcdadm's takes its place.
	if r := c.Restore(name, "--lost", two, "--lost", three); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Ended(command, "rejected")
	c.Generation(2, 1, 4)
	if n := c.CountKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
	c.AddHost().Start()
	c.Voters(rig.RestoreWithin, 1, 4, 5)
}
