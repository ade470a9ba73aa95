package network

import (
	"context"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// The leading daemon is cut off with the smaller half of the voters, though
// with most of the hosts: it may go on leading there, and finds nothing that it
// may do, whatever the spec says. The others get a leader and serve on. When
// all is one again, the spec is carried out.
func TestLeadingDaemonInMinority(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes most of a minute: -e2e.long")
	}
	c := rig.Formed(t, 3, rig.Options{Hosts: 5, Network: true, Flags: []string{"--dead-after=3s"}})
	w := c.Write()
	c.Start(4, 5)
	leader := c.Agree()
	before := c.Voters(rig.Soon, 1, 2, 3)
	voter := leader
	if leader.N > 3 {
		voter = c.Host(1)
	}
	most := rig.Without(3, voter)
	c.Partition([]int{voter.N, 4, 5}, most)
	few := []*rig.Host{voter, c.Host(4), c.Host(5)}
	var marks []int
	for _, h := range few {
		marks = append(marks, h.Mark())
	}
	c.Leader(10*time.Second, c.Host(most[0]), few...)
	c.Configure(5)
	c.Passes(4 * time.Second) // beyond --dead-after
	for i, h := range few {
		h.Idle(marks[i])
	}
	for _, n := range []int{4, 5} {
		if pid := c.Host(n).EtcdPID(); pid != 0 {
			t.Errorf("host %d runs etcd, pid %d: there is no quorum on its side", n, pid)
		}
	}
	w.WaitFor(20)
	c.Heal()
	c.Voters(3*time.Minute, 1, 2, 3, 4, 5)
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3, 4, 5)[:3])
	c.Agree()
	w.Check()
}

// The member that leads raft is cut off alone: it acknowledges nothing, the two
// others elect one and serve on, and no daemon takes the silence for a reason to
// restart or replace anything.
func TestRaftLeaderInMinority(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Network: true})
	w := c.Write()
	before := c.Voters(rig.Soon, 1, 2, 3)
	led := c.RaftLeader(1, 2, 3)
	most, pid := rig.Without(3, led), led.EtcdPID()
	c.Partition([]int{led.N}, most)
	next := c.RaftLeader(most...)
	client := c.NewClient(led.N)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := client.Put(ctx, "alone", "nobody else hears it"); err == nil {
		t.Errorf("host %d acknowledges a write that no other has", led.N)
	}
	w.WaitFor(20)
	if next == led {
		t.Errorf("host %d leads raft in spite of its being cut off", led.N)
	}
	c.Heal()
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	if now := led.EtcdPID(); now != pid {
		t.Errorf("etcd of host %d was restarted: pid %d, now %d", led.N, pid, now)
	}
	w.Check()
}

// One host hears another and is not heard by it, while a third hears and is
// heard by both: nobody is taken for dead, though each of the two is silent for
// the other for longer than --dead-after. Once with the daemons' leader in the
// middle of it, once with raft's.
func TestOneWayPartition(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes most of a minute: -e2e.long")
	}
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Network: true, Flags: []string{"--dead-after=3s"}})
	w := c.Write()
	c.Start(4) // could take a dead one's place
	before := c.Voters(rig.Soon, 1, 2, 3)
	for _, deaf := range []func() *rig.Host{func() *rig.Host { return c.Host(rig.Without(3, c.Agree())[0]) }, func() *rig.Host { return c.RaftLeader(1, 2, 3) }} {
		to := deaf()
		from := c.Host(rig.Without(3, to)[0])
		c.Cut(from.N, to.N)
		t.Logf("host %d does not hear host %d", to.N, from.N)
		c.Passes(6 * time.Second)
		w.WaitFor(20)
		c.Leader(rig.Soon, c.Host(rig.Without(3, from, to)[0]))
		c.Heal()
		rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
		c.Agree()
	}
	w.Check()
}

// Every host is alone: nothing is acknowledged and nothing is changed, by
// three daemons that each see themselves alone; then all is as before.
func TestThreeWaySplit(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes half a minute: -e2e.long")
	}
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Network: true, Flags: []string{"--dead-after=3s"}})
	w := c.Write()
	c.Start(4)
	c.Agree()
	before := c.Voters(rig.Soon, 1, 2, 3)
	c.Partition([]int{1}, []int{2}, []int{3}, []int{4})
	var marks []int
	for _, h := range c.Hosts {
		marks = append(marks, h.Mark())
	}
	c.Passes(time.Second) // what was under way
	from := w.Count()
	c.Passes(5 * time.Second)
	if more := w.Count() - from; more > 0 {
		t.Errorf("%d writes were acknowledged without a quorum", more)
	}
	for i, h := range c.Hosts {
		h.Idle(marks[i])
	}
	c.Heal()
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	c.Agree()
	w.Check()
}
