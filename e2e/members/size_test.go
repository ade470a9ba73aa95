package members

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// oneOfFive is a cluster of one member among five hosts.
func oneOfFive(t *testing.T) *rig.Cluster {
	t.Helper()
	c := rig.NewCluster(t, rig.Options{Hosts: 5})
	c.Configure(1)
	c.Start(1, 2, 3, 4, 5)
	c.Members(rig.Soon, 1)
	return c
}

// A cluster grows and shrinks through 1, 3, 5, 3, 1 and back to 3 while clients
// write; a host that is taken out stops its etcd, sets the data aside and can
// be used again.
func TestGrowAndShrink(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 5})
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	w := c.Write()
	c.Start(2, 3, 4, 5)
	on := []int{1}
	for _, n := range []int{3, 5, 3, 1, 3} {
		was := on
		c.Configure(n)
		on = c.Members(90*time.Second, n)
		for _, h := range c.Others(on) {
			if slices.Contains(was, h.N) {
				c.Free(rig.Soon, h, c.Host(on[0]))
			}
		}
	}
	w.Check()
}

// The spec is changed back while the cluster grows, and again while it
// shrinks; whatever was begun is finished or undone, and the last word counts.
func TestSpecChangesHalfWay(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := oneOfFive(t)
	w := c.Write()
	c.Configure(5)
	c.Changes(1)
	c.Configure(1)
	c.Members(90*time.Second, 1)
	c.Configure(3)
	c.Members(90*time.Second, 3)
	c.Configure(5)
	c.Changes(3)
	c.Configure(3)
	c.Members(90*time.Second, 3)
	c.Configure(1)
	c.Changes(3)
	c.Configure(3)
	c.Members(90*time.Second, 3)
	w.Check()
}

// The leading daemon is killed while the cluster grows, and while it shrinks:
// the next one goes on where it was.
func TestLeadingDaemonDiesWhileSizeChanges(t *testing.T) {
	rig.TakesLong(t, "40 s")
	t.Parallel()
	c := oneOfFive(t)
	w := c.Write()
	size := 1
	for i, n := range []int{5, 3, 5, 1} {
		leader := c.Leader(rig.Soon, c.Host(1))
		c.Configure(n)
		c.Changes(size)
		if i%2 == 0 {
			leader.Kill()
		} else {
			leader.Crash()
		}
		t.Logf("killed the leading daemon of host %d on the way from %d to %d", leader.N, size, n)
		leader.Start()
		c.Members(2*time.Minute, n)
		size = n
	}
	w.Check()
}

// The leading daemon stands still in the midst of a change; another finishes
// it; then the first goes on, and what it still wants to do is refused.
func TestPausedLeaderActsLate(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := oneOfFive(t)
	w := c.Write()
	rounds := []int{3, 5, 3, 1, 5, 1, 3, 1, 5, 3}
	if !*rig.Long {
		rounds = []int{3, 1, 3}
		t.Run("more rounds", func(t *testing.T) { t.Skip("take minutes: -e2e.long") })
	}
	size := 1
	for _, n := range rounds {
		leader := c.Leader(rig.Soon, c.Host(1))
		c.Configure(n)
		c.Changes(size)
		leader.Signal(syscall.SIGSTOP)
		// The others cannot do all without that host's promise if it carries a
		// voter; give them the time to take the lead.
		c.Leader(10*time.Second, c.Host(rig.Without(5, leader)[0]), leader)
		leader.Signal(syscall.SIGCONT)
		c.Members(2*time.Minute, n)
		size = n
	}
	time.Sleep(2 * time.Second) // a late action would come now
	c.Members(rig.Soon, size)
	w.Check()
}

// The leading daemon stands still when it has decided on a removal, somewhere
// between its last look and the call; the others take over and the spec is
// changed meanwhile; then it goes on. Nothing is removed that would take the
// quorum, and the last word of the spec counts.
func TestLeaderPausedBeforeRemoval(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	c := oneOfFive(t)
	w := c.Write()
	late := 0
	for range 3 {
		c.Configure(3)
		on := c.Members(90*time.Second, 3)
		leader := c.Leader(rig.Soon, c.Host(on[0]))
		mark := leader.Mark()
		c.Configure(1)
		leader.PausesAt(mark, removal)
		before := c.Listed()
		c.Leader(10*time.Second, c.Host(rig.Without(5, leader)[0]), leader)
		// A daemon that hangs while it writes to the store keeps the
		// lock of a store that is a directory; then the spec waits for it.
		changed := c.Ctl("-member-count=3", "--backup-store="+c.StoreURL(), "-etcd-version="+c.Options.Version, "configure-cluster")
		if changed.Code != 0 && !strings.Contains(changed.Stderr, "lock") {
			t.Fatal(changed)
		}
		victim := c.Host(on[0])
		if victim == leader {
			victim = c.Host(on[1])
		}
		for _, pid := range victim.EtcdPIDs() { // one that the late removal may count on, if it is still a member
			syscall.Kill(pid, syscall.SIGKILL)
		}
		leader.Signal(syscall.SIGCONT)
		if changed.Code != 0 {
			c.Configure(3)
		}
		if len(before) == 3 {
			late++
		}
		c.Members(2*time.Minute, 3)
	}
	t.Logf("the leading daemon stood still before the removal was done in %d of 3 rounds", late)
	w.Check()
}

// removal is what a daemon says before it removes a member.
var removal = regexp.MustCompile(`msg=decision .* action="[^"]*: remove `)

// A founder loses its disk right after the founding. It comes back as another
// member, and nothing that was acknowledged is lost: it must not vote as the
// member that it was.
func TestFounderIsWipedAtOnce(t *testing.T) {
	rig.TakesLong(t, "25 s")
	t.Parallel()
	for _, keepIdentity := range []bool{true, false} {
		t.Run(fmt.Sprintf("identity kept %v", keepIdentity), func(t *testing.T) {
			c := rig.NewCluster(t, rig.Options{Hosts: 3})
			c.Configure(3)
			c.Start(1, 2, 3)
			w := c.Write() // waits for the first acknowledged write
			before := c.Voters(rig.Soon, 1, 2, 3)
			leader := c.RaftLeader(1, 2, 3)
			c.Host(leader.N).Crash()
			leader.Wipe(keepIdentity)
			leader.Start()
			after := c.Voters(90*time.Second, 1, 2, 3)
			if before[leader.N-1].ID == after[leader.N-1].ID {
				t.Errorf("the wiped host %d is member %x again", leader.N, before[leader.N-1].ID)
			}
			w.Check()
		})
	}
}

// Three are asked for and two hosts are up: they form a cluster, and the third
// joins when it comes.
func TestTwoOfThreeHostsForm(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	c.Start(1, 2) // before there is a spec
	c.Said(rig.Soon, "no spec")
	c.Configure(3)
	c.Members(90*time.Second, 2)
	w := c.Write()
	rig.Eventually(t, rig.Soon, "the status of two members", func(context.Context) error { // that the cluster exists is written a moment after they serve
		if r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitDegraded || !strings.Contains(r.Stdout, "wanted: 3 members") {
			return errors.New(r.String())
		}
		return nil
	})
	c.Start(3)
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()
}
