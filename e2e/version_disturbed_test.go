package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// upAndDown changes the version from the middle release to another one, and
// disturbs that half way.
func upAndDown(t *testing.T, o options, disturb func(c *testCluster, to string)) {
	longOnly(t)
	for _, to := range []string{testetcd.V37, testetcd.V35} {
		t.Run("to "+to, func(t *testing.T) {
			t.Parallel()
			c := formed(t, 3, o)
			w := c.write()
			c.asks(to, 3)
			disturb(c, to)
			w.check()
			w.neverBack()
		})
	}
}

// The leading daemon is killed at any moment, again and again; the next one
// goes on with what it sees.
func TestDaemonsDieAmidVersions(t *testing.T) {
	upAndDown(t, options{}, func(c *testCluster, to string) {
		for range 6 {
			c.passes(time.Duration(rand.IntN(4000)) * time.Millisecond)
			leader := c.leader(soon, c.host(1))
			leader.kill()
			next := c.host(without(3, leader)[rand.IntN(2)])
			c.leader(soon, next, leader)
			leader.start()
		}
		c.runs(3*time.Minute, 1, 2, 3)
		c.voters(soon, 1, 2, 3)
	})
}

// Members die at any moment, those that have changed and those that have not.
func TestEtcdDiesAmidVersions(t *testing.T) {
	upAndDown(t, options{}, func(c *testCluster, to string) {
		before := c.voters(soon, 1, 2, 3)
		c.midway(to, 1, 2, 3)
		for range 4 {
			h := c.host(1 + rand.IntN(3))
			if h.etcdPID() != 0 {
				h.killEtcd()
			}
			c.passes(time.Duration(rand.IntN(3000)) * time.Millisecond)
		}
		c.runs(3*time.Minute, 1, 2, 3)
		same(c.t, before, c.voters(soon, 1, 2, 3))
	})
}

// A host is away in the middle: everything waits for it, and says so.
func TestHostIsAwayAmidVersions(t *testing.T) {
	upAndDown(t, options{}, func(c *testCluster, to string) {
		before := c.voters(soon, 1, 2, 3)
		moved, _ := c.midway(to, 1, 2, 3)
		away := moved[0]
		away.crash()
		other := c.host(without(3, away)[0])
		c.blocked(other, "every voter", "up")
		c.passes(8 * time.Second)
		for _, n := range without(3, away) {
			c.host(n).serves(soon)
		}
		if _, left := c.split(to, 1, 2, 3); len(left) < 2 { // the one that is away is among them
			c.t.Errorf("every member runs etcd %s: the last one was taken down with a voter away", to)
		}
		away.start()
		c.runs(3*time.Minute, 1, 2, 3)
		same(c.t, before, c.voters(soon, 1, 2, 3))
	})
}

// A host that has changed loses its disk: its member is replaced, and then it
// goes on.
func TestHostIsWipedAmidVersions(t *testing.T) {
	upAndDown(t, options{}, func(c *testCluster, to string) {
		moved, _ := c.midway(to, 1, 2, 3)
		moved[0].crash()
		moved[0].wipe(true)
		moved[0].start()
		c.runs(4*time.Minute, 1, 2, 3)
		c.voters(soon, 1, 2, 3)
	})
}

// A host is gone for good in the middle: another one takes its place, while
// going down by a line after a cancel, because etcd accepts no joiner then.
func TestVoterIsLostAmidVersions(t *testing.T) {
	upAndDown(t, options{hosts: 4, flags: []string{"--dead-after=5s"}}, func(c *testCluster, to string) {
		c.start(4)
		moved, _ := c.midway(to, 1, 2, 3)
		moved[0].crash()
		rest := without(4, moved[0])
		c.voters(2*time.Minute, rest...)
		c.runs(4*time.Minute, rest...)
		if to == testetcd.V35 {
			c.said(time.Second, "cancel the downgrade")
		}
	})
}

// More members are asked for in the middle.
func TestGrowsAmidVersions(t *testing.T) {
	upAndDown(t, options{hosts: 5}, func(c *testCluster, to string) {
		c.midway(to, 1, 2, 3)
		c.start(4, 5)
		c.configure(5)
		c.voters(3*time.Minute, 1, 2, 3, 4, 5)
		c.runs(4*time.Minute, 1, 2, 3, 4, 5)
	})
}
