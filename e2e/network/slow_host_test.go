package network

import (
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// One host gets a fifth of its processor, while a backup is taken and while one is
// restored: raft's leader, and one that is not. All is done, only later; nobody is
// replaced for it, and nothing that was acknowledged is lost.
func TestSlowHost(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	c.Fill("k/", 5000)
	before := c.Voters(rig.Soon, 1, 2, 3)
	for round, leads := range []bool{true, false} {
		w := c.Write()
		h := c.RaftLeader(1, 2, 3)
		if !leads {
			h = c.Host(rig.Without(3, h)[0])
		}
		fast := h.SlowDown()
		w.WaitFor(50)
		began := time.Now()
		c.TakeBackup()
		t.Logf("host %d is slow, was raft's leader: %t: a backup after %s", h.N, leads, time.Since(began).Round(time.Millisecond))
		w.WaitFor(20)
		w.Check()
		if round == 0 { // a restore makes others of them
			rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
		}
		name := c.TakeBackup() // of all that w wrote
		began = time.Now()
		if r := c.Restore(name); r.Code != cli.ExitOK {
			t.Fatalf("host %d is slow: %s", h.N, r)
		}
		t.Logf("a restore after %s", time.Since(began).Round(time.Millisecond))
		c.Generation(uint64(round+2), 1, 2, 3)
		fast()
		w.Compare(c.Etcd())
	}
	c.Write().Check()
}
