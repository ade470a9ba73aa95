package members

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
)

// A member that dies is started again by its own daemon, whether it leads raft
// or not, and only the member is new: same ID, same data.
func TestEtcdIsKilled(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	before := c.Voters(rig.Soon, 1, 2, 3)
	for range 2 {
		leader := c.RaftLeader(1, 2, 3)
		follower := c.Host(rig.Without(3, leader)[0])
		for _, h := range []*rig.Host{follower, leader} {
			old := h.KillEtcd()
			rig.Eventually(t, rig.Soon, "another etcd in its place", func(context.Context) error {
				if pid := h.EtcdPID(); pid == 0 || pid == old {
					return fmt.Errorf("its pid is %d, and was %d", pid, old)
				}
				return nil
			})
			h.Serves(rig.Soon)
		}
	}
	after := c.Voters(rig.Soon, 1, 2, 3)
	rig.Same(t, before, after)
	w.Check()
}

// A daemon that is killed takes no etcd with it: the member serves on, and the
// next daemon adopts it, same pid, and starts no second one. Another daemon
// leads meanwhile.
func TestDaemonIsKilled(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	leader := c.Leader(rig.Soon, c.Host(1))
	follower := c.Host(rig.Without(3, leader)[0])
	for _, h := range []*rig.Host{follower, leader} {
		pid := h.EtcdPID()
		h.Kill()
		h.Serves(rig.Soon)
		other := c.Host(rig.Without(3, h)[1])
		c.Leader(10*time.Second, other, h)
		h.Start()
		c.Process(h, other, "adopted", func(p cluster.Process) bool {
			return p.Adopted && p.PID == pid && p.State == cluster.ProcessRunning
		})
		if now := h.EtcdPID(); now != pid {
			t.Errorf("etcd of host %d had pid %d and has %d", h.N, pid, now)
		}
	}
	// An adopted etcd is looked after like a child.
	old := follower.KillEtcd()
	rig.Eventually(t, rig.Soon, "another etcd in place of the adopted one", func(context.Context) error {
		if pid := follower.EtcdPID(); pid == 0 || pid == old {
			return fmt.Errorf("its pid is %d, and was %d", pid, old)
		}
		return nil
	})
	// Both at once, as a crash of the machine.
	leader.Crash()
	w.WaitFor(10)
	leader.Start()
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()
}

// SIGTERM stops etcd as well, unless --on-sigterm=leave: then the next daemon
// adopts it.
func TestSigterm(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{})
	h := c.Host(1)
	h.Term()
	if pid := h.EtcdPID(); pid != 0 {
		t.Fatalf("etcd %d outlives SIGTERM", pid)
	}
	h.Flags = []string{"--on-sigterm=leave"}
	h.Start()
	h.Serves(rig.Soon)
	pid := h.EtcdPID()
	h.Term()
	h.Serves(5 * time.Second)
	h.Start()
	c.Process(h, h, "adopted", func(p cluster.Process) bool { return p.Adopted && p.PID == pid })
	h.Interrupt() // stops an adopted one too
}

// SIGINT hands raft's leadership over before it stops the member, so that
// nobody waits for an election.
func TestInterruptMovesRaftLeader(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	h := c.RaftLeader(1, 2, 3)
	h.Interrupt()
	h.Said(time.Second, "moved raft's leadership")
	w.WaitFor(10)
	h.Start()
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()
	data, err := os.ReadFile(h.Log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "panic") {
		t.Error("the daemon panicked")
	}
}

// A hung leading daemon is no reason to wait: another leads soon
// (4.2 s on an idle machine), and when the first goes on it does no harm and
// follows.
func TestLeadingDaemonStandsStill(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	leader := c.Leader(rig.Soon, c.Host(1))
	others := rig.Without(3, leader)
	leader.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	next := c.Leader(rig.Soon, c.Host(others[0]), leader)
	t.Logf("led again after %s", time.Since(stopped))
	w.WaitFor(10)
	leader.Signal(syscall.SIGCONT)
	c.Voters(rig.Soon, 1, 2, 3)
	one := c.Leader(rig.Soon, leader)
	for _, h := range c.Hosts {
		if l := c.Leader(rig.Soon, h); l != one {
			t.Errorf("host %d follows host %d, host %d follows host %d", h.N, l.N, leader.N, one.N)
		}
	}
	t.Logf("host %d stood still, host %d took over, host %d leads at the end", leader.N, next.N, one.N)
	w.Check()
}

// Everything loses power at once and comes back: the same cluster, the same
// members, every acknowledged write.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	w.WaitFor(50)
	before := c.Voters(rig.Soon, 1, 2, 3)
	for range 2 {
		for _, h := range c.Hosts {
			for _, pid := range rig.ProcessesOf(h.Dir) {
				syscall.Kill(pid, syscall.SIGKILL) // all of them before any is waited for
			}
		}
		for _, h := range c.Hosts {
			h.Crash()
		}
		c.Start(3, 1, 2)
		after := c.Voters(rig.Soon, 1, 2, 3)
		rig.Same(t, before, after)
	}
	w.Check()
}
