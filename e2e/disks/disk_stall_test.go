package disks

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// The disk of one host hangs: every write to it waits. That is the disk
// of raft's leader, of the host that takes a backup, and of the one that makes a
// restore ready. Whoever asks is told which disk it is, others go on where they
// can, and nothing waits for a person once the disk goes on.
func TestDiskStandsStill(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes some minutes: -e2e.long")
	}
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	for _, h := range c.Hosts {
		h.DiskOfItsOwn(3 << 30)
	}
	c.Configure(3)
	c.Start(1, 2, 3)
	before := c.Voters(rig.Soon, 1, 2, 3)
	c.FillLarge("large/", 300)
	w := c.Write()

	led := c.RaftLeader(1, 2, 3)
	thaw := led.Freeze()
	began := time.Now()
	w.WaitFor(20)
	t.Logf("the disk of raft's leader stands still: 20 writes more after %s", time.Since(began).Round(time.Millisecond))
	c.StatusSays(c.Host(rig.Without(3, led)[0]), led, "disk")
	thaw()
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))

	h, done := c.UnderWay("a backup", []string{"backup", "--store", c.StoreURL(), "create", "--wait=90s"}, func(s cluster.HostReport) bool {
		return s.Taken != nil && s.Taken.Running
	})
	thaw = h.Freeze()
	c.StatusSays(c.Host(rig.Without(3, h)[0]), h, "disk")
	w.WaitFor(20)
	thaw()
	if r := <-done; r.Code != cli.ExitOK {
		t.Errorf("the disk of the host that took it stood still: %s", r)
	}
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	w.Check()

	name := c.TakeBackup()
	h, done = c.UnderWay("staging", []string{"restore", "--store", c.StoreURL(), "--yes", "--wait=100s", name}, func(s cluster.HostReport) bool {
		return s.Staged != nil && (s.Staged.State == cluster.StageFetching || s.Staged.State == cluster.StageBuilding)
	})
	thaw = h.Freeze()
	c.StatusSays(c.Host(rig.Without(3, h)[0]), h, "disk")
	c.Passes(5 * time.Second)
	thaw()
	if r := <-done; r.Code != cli.ExitOK {
		t.Errorf("the disk of the host that made the restore ready stood still: %s", r)
	}
	c.Generation(2, 1, 2, 3)
	w.Compare(c.Etcd()) // all of it was before the backup
	c.Write().Check()
}
