package versions

import (
	"math/rand/v2"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// upAndDown changes the version from the middle release to another one, and
// disturbs that half way.
func upAndDown(t *testing.T, o rig.Options, disturb func(c *rig.Cluster, to string)) {
	rig.LongOnly(t)
	for _, to := range []string{testetcd.V37, testetcd.V35} {
		t.Run("to "+to, func(t *testing.T) {
			t.Parallel()
			c := rig.Formed(t, 3, o)
			w := c.Write()
			c.Asks(to, 3)
			disturb(c, to)
			w.Check()
			w.NeverBack()
		})
	}
}

// The leading daemon is killed at any moment, again and again; the next one
// goes on with what it sees.
func TestDaemonsDieAmidVersions(t *testing.T) {
	upAndDown(t, rig.Options{}, func(c *rig.Cluster, to string) {
		for range 6 {
			c.Passes(time.Duration(rand.IntN(4000)) * time.Millisecond)
			leader := c.Leader(rig.Soon, c.Host(1))
			leader.Kill()
			next := c.Host(rig.Without(3, leader)[rand.IntN(2)])
			c.Leader(rig.Soon, next, leader)
			leader.Start()
		}
		c.Runs(3*time.Minute, 1, 2, 3)
		c.Voters(rig.Soon, 1, 2, 3)
	})
}

// Members die at any moment, those that have changed and those that have not.
func TestEtcdDiesAmidVersions(t *testing.T) {
	upAndDown(t, rig.Options{}, func(c *rig.Cluster, to string) {
		before := c.Voters(rig.Soon, 1, 2, 3)
		c.Midway(to, 1, 2, 3)
		for range 4 {
			h := c.Host(1 + rand.IntN(3))
			if h.EtcdPID() != 0 {
				h.KillEtcd()
			}
			c.Passes(time.Duration(rand.IntN(3000)) * time.Millisecond)
		}
		c.Runs(3*time.Minute, 1, 2, 3)
		rig.Same(c.T, before, c.Voters(rig.Soon, 1, 2, 3))
	})
}

// A host is away in the middle: everything waits for it, and says so.
func TestHostIsAwayAmidVersions(t *testing.T) {
	upAndDown(t, rig.Options{}, func(c *rig.Cluster, to string) {
		before := c.Voters(rig.Soon, 1, 2, 3)
		moved, _ := c.Midway(to, 1, 2, 3)
		away := moved[0]
		away.Crash()
		other := c.Host(rig.Without(3, away)[0])
		c.Blocked(other, "every voter", "up")
		c.Passes(8 * time.Second)
		for _, n := range rig.Without(3, away) {
			c.Host(n).Serves(rig.Soon)
		}
		if _, left := c.Split(to, 1, 2, 3); len(left) < 2 { // the one that is away is among them
			c.T.Errorf("every member runs etcd %s: the last one was taken down with a voter away", to)
		}
		away.Start()
		c.Runs(3*time.Minute, 1, 2, 3)
		rig.Same(c.T, before, c.Voters(rig.Soon, 1, 2, 3))
	})
}

// A host that has changed loses its disk: its member is replaced, and then it
// goes on.
func TestHostIsWipedAmidVersions(t *testing.T) {
	upAndDown(t, rig.Options{}, func(c *rig.Cluster, to string) {
		moved, _ := c.Midway(to, 1, 2, 3)
		moved[0].Crash()
		moved[0].Wipe(true)
		moved[0].Start()
		c.Runs(4*time.Minute, 1, 2, 3)
		c.Voters(rig.Soon, 1, 2, 3)
	})
}

// A host is gone for good in the middle: another one takes its place, while
// going down by a line after a cancel, because etcd accepts no joiner then.
func TestVoterIsLostAmidVersions(t *testing.T) {
	upAndDown(t, rig.Options{Hosts: 4, Flags: []string{"--dead-after=5s"}}, func(c *rig.Cluster, to string) {
		c.Start(4)
		moved, _ := c.Midway(to, 1, 2, 3)
		moved[0].Crash()
		rest := rig.Without(4, moved[0])
		c.Voters(2*time.Minute, rest...)
		c.Runs(4*time.Minute, rest...)
		if to == testetcd.V35 {
			c.Said(time.Second, "cancel the downgrade")
		}
	})
}

// More members are asked for in the middle.
func TestGrowsAmidVersions(t *testing.T) {
	upAndDown(t, rig.Options{Hosts: 5}, func(c *rig.Cluster, to string) {
		c.Midway(to, 1, 2, 3)
		c.Start(4, 5)
		c.Configure(5)
		c.Voters(3*time.Minute, 1, 2, 3, 4, 5)
		c.Runs(4*time.Minute, 1, 2, 3, 4, 5)
	})
}
