package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// formed is a cluster of n voters on hosts 1 to n.
func formed(t *testing.T, n int, o options) *testCluster {
	t.Helper()
	o.hosts = max(o.hosts, n)
	c := newCluster(t, o)
	c.form(n)
	return c
}

// form makes a cluster of n voters on hosts 1 to n.
func (c *testCluster) form(n int) {
	c.t.Helper()
	c.configure(n)
	hosts := numbers(n)
	c.start(hosts...)
	c.voters(soon, hosts...)
	// The members serve a moment before the leader has written that down; what a
	// test does to the cluster is done to one that is on record.
	eventually(c.t, soon, "the founding is on record", func(context.Context) error {
		if in := c.intent(); in.State != cluster.IntentFounded {
			return fmt.Errorf("generation %d is %s", in.Generation, in.State)
		}
		return nil
	})
}

func numbers(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// without are the hosts of a cluster of n but for some.
func without(n int, left ...*host) []int {
	return slices.DeleteFunc(numbers(n), func(i int) bool {
		return slices.ContainsFunc(left, func(h *host) bool { return h.n == i })
	})
}

// process waits for what the leading daemon says of a host's process.
func (c *testCluster) process(h, seenBy *host, what string, fits func(cluster.Process) bool) {
	c.t.Helper()
	id := h.id()
	eventually(c.t, soon, fmt.Sprintf("the process of host %d is %s", h.n, what), func(ctx context.Context) error {
		r, err := c.report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Observation == nil {
			return errors.New("there is no observation")
		}
		for _, s := range r.Observation.Hosts {
			if s.Host == id {
				if !fits(s.Process) {
					return fmt.Errorf("it is %+v", s.Process)
				}
				return nil
			}
		}
		return errors.New("the host is not in the observation")
	})
}

// A member that dies is started again by its own daemon, whether it leads raft
// or not, and only the member is new: same ID, same data.
func TestEtcdIsKilled(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	before := c.voters(soon, 1, 2, 3)
	for range 2 {
		leader := c.raftLeader(1, 2, 3)
		follower := c.host(without(3, leader)[0])
		for _, h := range []*host{follower, leader} {
			old := h.killEtcd()
			eventually(t, soon, "another etcd in its place", func(context.Context) error {
				if pid := h.etcdPID(); pid == 0 || pid == old {
					return fmt.Errorf("its pid is %d, and was %d", pid, old)
				}
				return nil
			})
			h.serves(soon)
		}
	}
	after := c.voters(soon, 1, 2, 3)
	same(t, before, after)
	w.check()
}

// A daemon that is killed takes no etcd with it: the member serves on, and the
// next daemon adopts it, same pid, and starts no second one. Another daemon
// leads meanwhile.
func TestDaemonIsKilled(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	leader := c.leader(soon, c.host(1))
	follower := c.host(without(3, leader)[0])
	for _, h := range []*host{follower, leader} {
		pid := h.etcdPID()
		h.kill()
		h.serves(soon)
		other := c.host(without(3, h)[1])
		c.leader(10*time.Second, other, h)
		h.start()
		c.process(h, other, "adopted", func(p cluster.Process) bool {
			return p.Adopted && p.PID == pid && p.State == cluster.ProcessRunning
		})
		if now := h.etcdPID(); now != pid {
			t.Errorf("etcd of host %d had pid %d and has %d", h.n, pid, now)
		}
	}
	// An adopted etcd is looked after like a child.
	old := follower.killEtcd()
	eventually(t, soon, "another etcd in place of the adopted one", func(context.Context) error {
		if pid := follower.etcdPID(); pid == 0 || pid == old {
			return fmt.Errorf("its pid is %d, and was %d", pid, old)
		}
		return nil
	})
	// Both at once, as a crash of the machine.
	leader.crash()
	w.waitFor(10)
	leader.start()
	c.voters(soon, 1, 2, 3)
	w.check()
}

// SIGTERM stops etcd as well, unless --on-sigterm=leave: then the next daemon
// adopts it.
func TestSigterm(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{})
	h := c.host(1)
	h.term()
	if pid := h.etcdPID(); pid != 0 {
		t.Fatalf("etcd %d outlives SIGTERM", pid)
	}
	h.flags = []string{"--on-sigterm=leave"}
	h.start()
	h.serves(soon)
	pid := h.etcdPID()
	h.term()
	h.serves(5 * time.Second)
	h.start()
	c.process(h, h, "adopted", func(p cluster.Process) bool { return p.Adopted && p.PID == pid })
	h.interrupt() // stops an adopted one too
}

// SIGINT hands raft's leadership over before it stops the member, so that
// nobody waits for an election.
func TestInterruptMovesRaftLeader(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	h := c.raftLeader(1, 2, 3)
	h.interrupt()
	h.said(time.Second, "moved raft's leadership")
	w.waitFor(10)
	h.start()
	c.voters(soon, 1, 2, 3)
	w.check()
	data, err := os.ReadFile(h.log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "panic") {
		t.Error("the daemon panicked")
	}
}

// A leading daemon that stands still is no reason to wait: another leads
// within five seconds, and when the first goes on it does no harm and follows.
func TestLeadingDaemonStandsStill(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	leader := c.leader(soon, c.host(1))
	others := without(3, leader)
	leader.signal(syscall.SIGSTOP)
	next := c.leader(5*time.Second, c.host(others[0]), leader)
	w.waitFor(10)
	leader.signal(syscall.SIGCONT)
	c.voters(soon, 1, 2, 3)
	one := c.leader(soon, leader)
	for _, h := range c.hosts {
		if l := c.leader(soon, h); l != one {
			t.Errorf("host %d follows host %d, host %d follows host %d", h.n, l.n, leader.n, one.n)
		}
	}
	t.Logf("host %d stood still, host %d took over, host %d leads at the end", leader.n, next.n, one.n)
	w.check()
}

// Everything loses power at once and comes back: the same cluster, the same
// members, every acknowledged write.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	w.waitFor(50)
	before := c.voters(soon, 1, 2, 3)
	for range 2 {
		for _, h := range c.hosts {
			for _, pid := range processesOf(h.dir) {
				syscall.Kill(pid, syscall.SIGKILL) // all of them before any is waited for
			}
		}
		for _, h := range c.hosts {
			h.crash()
		}
		c.start(3, 1, 2)
		after := c.voters(soon, 1, 2, 3)
		same(t, before, after)
	}
	w.check()
}
