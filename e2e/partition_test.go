package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// mark is how long a daemon's log is now.
func (h *host) mark() int {
	h.c.t.Helper()
	data, err := os.ReadFile(h.log)
	if err != nil {
		h.c.t.Fatal(err)
	}
	return len(data)
}

// actions are the steps that a daemon has decided on since a mark.
func (h *host) actions(since int) []string {
	h.c.t.Helper()
	data, err := os.ReadFile(h.log)
	if err != nil {
		h.c.t.Fatal(err)
	}
	var out []string
	for line := range bytes.Lines(data[since:]) {
		if bytes.Contains(line, []byte("msg=decision")) && bytes.Contains(line, []byte(" action=")) {
			out = append(out, string(line))
		}
	}
	return out
}

// idle complains when a daemon has decided on a step since a mark.
func (h *host) idle(since int) {
	h.c.t.Helper()
	if steps := h.actions(since); len(steps) > 0 {
		h.c.t.Errorf("host %d decided on what it must not touch:\n%s", h.n, strings.Join(steps, ""))
	}
}

// same complains when hosts have other members than before.
func same(t *testing.T, before, after []*etcdserverpb.Member) {
	t.Helper()
	for i := range before {
		if before[i].ID != after[i].ID {
			t.Errorf("member %x became %x", before[i].ID, after[i].ID)
		}
	}
}

// passes lets time pass in which something must not happen.
func (c *testCluster) passes(d time.Duration) {
	c.t.Helper()
	end := time.Now().Add(d)
	eventually(c.t, d+soon, "time passes", func(context.Context) error {
		if left := time.Until(end); left > 0 {
			return fmt.Errorf("%s left", left)
		}
		return nil
	})
}

// The leading daemon is cut off with the smaller half of the voters, though
// with most of the hosts: it may go on leading there, and finds nothing that it
// may do, whatever the spec says. The others get a leader and serve on. When
// all is one again, the spec is carried out.
func TestLeadingDaemonInMinority(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes most of a minute: -e2e.long")
	}
	c := formed(t, 3, options{hosts: 5, network: true, flags: []string{"--dead-after=3s"}})
	w := c.write()
	c.start(4, 5)
	leader := c.agree()
	before := c.voters(soon, 1, 2, 3)
	voter := leader
	if leader.n > 3 {
		voter = c.host(1)
	}
	most := without(3, voter)
	c.partition([]int{voter.n, 4, 5}, most)
	few := []*host{voter, c.host(4), c.host(5)}
	var marks []int
	for _, h := range few {
		marks = append(marks, h.mark())
	}
	c.leader(10*time.Second, c.host(most[0]), few...)
	c.configure(5)
	c.passes(4 * time.Second) // beyond --dead-after
	for i, h := range few {
		h.idle(marks[i])
	}
	for _, n := range []int{4, 5} {
		if pid := c.host(n).etcdPID(); pid != 0 {
			t.Errorf("host %d runs etcd, pid %d: there is no quorum on its side", n, pid)
		}
	}
	w.waitFor(20)
	c.heal()
	c.voters(3*time.Minute, 1, 2, 3, 4, 5)
	same(t, before, c.voters(soon, 1, 2, 3, 4, 5)[:3])
	c.agree()
	w.check()
}

// The member that leads raft is cut off alone: it acknowledges nothing, the two
// others elect one and serve on, and no daemon takes the silence for a reason to
// restart or replace anything.
func TestRaftLeaderInMinority(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{network: true})
	w := c.write()
	before := c.voters(soon, 1, 2, 3)
	led := c.raftLeader(1, 2, 3)
	most, pid := without(3, led), led.etcdPID()
	c.partition([]int{led.n}, most)
	next := c.raftLeader(most...)
	client := c.newClient(led.n)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := client.Put(ctx, "alone", "nobody else hears it"); err == nil {
		t.Errorf("host %d acknowledges a write that no other has", led.n)
	}
	w.waitFor(20)
	if next == led {
		t.Errorf("host %d leads raft in spite of its being cut off", led.n)
	}
	c.heal()
	same(t, before, c.voters(soon, 1, 2, 3))
	if now := led.etcdPID(); now != pid {
		t.Errorf("etcd of host %d was restarted: pid %d, now %d", led.n, pid, now)
	}
	w.check()
}

// One host hears another and is not heard by it, while a third hears and is
// heard by both: nobody is taken for dead, though each of the two is silent for
// the other for longer than --dead-after. Once with the daemons' leader in the
// middle of it, once with raft's.
func TestOneWayPartition(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes most of a minute: -e2e.long")
	}
	c := formed(t, 3, options{hosts: 4, network: true, flags: []string{"--dead-after=3s"}})
	w := c.write()
	c.start(4) // could take a dead one's place
	before := c.voters(soon, 1, 2, 3)
	for _, deaf := range []func() *host{func() *host { return c.host(without(3, c.agree())[0]) }, func() *host { return c.raftLeader(1, 2, 3) }} {
		to := deaf()
		from := c.host(without(3, to)[0])
		c.cut(from.n, to.n)
		t.Logf("host %d does not hear host %d", to.n, from.n)
		c.passes(6 * time.Second)
		w.waitFor(20)
		c.leader(soon, c.host(without(3, from, to)[0]))
		c.heal()
		same(t, before, c.voters(soon, 1, 2, 3))
		c.agree()
	}
	w.check()
}

// Every host is alone: nothing is acknowledged and nothing is changed, by
// three daemons that each see themselves alone; then all is as before.
func TestThreeWaySplit(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes half a minute: -e2e.long")
	}
	c := formed(t, 3, options{hosts: 4, network: true, flags: []string{"--dead-after=3s"}})
	w := c.write()
	c.start(4)
	c.agree()
	before := c.voters(soon, 1, 2, 3)
	c.partition([]int{1}, []int{2}, []int{3}, []int{4})
	var marks []int
	for _, h := range c.hosts {
		marks = append(marks, h.mark())
	}
	c.passes(time.Second) // what was under way
	from := w.count()
	c.passes(5 * time.Second)
	if more := w.count() - from; more > 0 {
		t.Errorf("%d writes were acknowledged without a quorum", more)
	}
	for i, h := range c.hosts {
		h.idle(marks[i])
	}
	c.heal()
	same(t, before, c.voters(soon, 1, 2, 3))
	c.agree()
	w.check()
}
