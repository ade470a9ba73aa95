package restore

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// A restore is interrupted at a random moment, by the end of whatever has a
// part in it, and is finished all the same: by the next leader, by the next
// daemon, by the next start of etcd. One cluster serves at a time, and nothing
// that the new one acknowledged is lost.
func TestRestoreIsInterrupted(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a dozen restores: -e2e.long")
	}
	t.Parallel()
	const rounds = 3
	for what, harm := range interruptions() {
		seed := uint64(time.Now().UnixNano())
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			c := rig.Formed(t, 3, rig.Options{})
			w := c.WriteInGenerations()
			for round := range rounds {
				c.InterruptedRestore(round, random, harm)
			}
			w.Check()
		})
	}
}

// interruptions are what happens in the middle of a restore. What was killed is
// started again by the caller, or by its daemon.
func interruptions() map[string]func(c *rig.Cluster, random *rand.Rand) {
	return map[string]func(*rig.Cluster, *rand.Rand){
		"the leading daemon is killed": func(c *rig.Cluster, _ *rand.Rand) {
			c.Leader(rig.Soon, c.Host(1)).Kill()
		},
		"the founder's daemon is killed": func(c *rig.Cluster, random *rand.Rand) {
			c.Founder(random).Kill()
		},
		"the founder's etcd is killed": func(c *rig.Cluster, random *rand.Rand) {
			for _, pid := range c.Founder(random).EtcdPIDs() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
			}
		},
		"the founder's machine crashes": func(c *rig.Cluster, random *rand.Rand) {
			c.Founder(random).Crash()
		},
		"all daemons are killed": func(c *rig.Cluster, _ *rand.Rand) {
			for _, h := range c.Hosts {
				h.Kill()
			}
		},
		"the power is cut": func(c *rig.Cluster, _ *rand.Rand) {
			for _, h := range c.Hosts {
				h.Crash()
			}
		},
	}
}
