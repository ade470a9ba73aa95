package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// agree waits until all daemons follow one.
func (c *testCluster) agree() *host {
	c.t.Helper()
	var led *host
	eventually(c.t, soon, "one daemon leads them all", func(ctx context.Context) error {
		led = nil
		for _, h := range c.hosts {
			r, err := c.report(ctx, h)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(c.hosts, func(x *host) bool { return x.endpoint() == r.LeaderEndpoint })
			if !r.Leading || at < 0 || led != nil && led != c.hosts[at] {
				return fmt.Errorf("host %d follows %q", h.n, r.LeaderEndpoint)
			}
			led = c.hosts[at]
		}
		return nil
	})
	return led
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
	c.voters(90*time.Second, 1, 2, 3, 4, 5)
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

// Three are wanted of four hosts, of which two hear each other, and the other
// two; all reach the store. There is one cluster, ever: the side that comes
// second to the store founds nothing. The network breaks before the first
// daemon starts, or when one has just written the intent.
func TestTwoHalvesFoundOneCluster(t *testing.T) {
	t.Parallel()
	t.Run("from the beginning", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, options{hosts: 4, network: true})
		c.configure(3)
		c.partition([]int{1, 2}, []int{3, 4})
		c.start(1, 3, 2, 4)
		on := c.members(soon, 2)
		w := c.write()
		c.passes(3 * time.Second) // the others have seen that they come second
		for _, h := range c.others(on) {
			if pid := h.etcdPID(); pid != 0 {
				t.Errorf("host %d runs etcd, pid %d: the cluster is on hosts %v", h.n, pid, on)
			}
		}
		c.heal()
		c.members(90*time.Second, 3)
		c.oneCluster()
		w.check()
	})
	for i, groups := range [][][]int{{{1, 2}, {3, 4}}, {{1, 3}, {2, 4}}} {
		t.Run(fmt.Sprintf("after the intent %d", i), func(t *testing.T) {
			t.Parallel()
			if !*long {
				t.Skip("takes half a minute: -e2e.long")
			}
			c := newCluster(t, options{hosts: 4, network: true})
			c.configure(3)
			c.start(1, 2, 3, 4)
			eventually(t, soon, "the intent", func(context.Context) error {
				if !exists(filepath.Join(c.store, "control", "etcd-cluster-created")) {
					return errors.New("it is not in the store")
				}
				return nil
			})
			c.partition(groups...)
			c.passes(5 * time.Second)
			c.heal()
			c.members(90*time.Second, 3)
			c.oneCluster()
			c.write().check()
		})
	}
}

// oneCluster complains when the members of the hosts are of more than one
// founding, ever.
func (c *testCluster) oneCluster() {
	c.t.Helper()
	tokens := map[string]bool{}
	for _, h := range c.hosts {
		for _, dir := range []string{"data", "data-trashcan"} {
			entries, err := os.ReadDir(filepath.Join(h.dir, dir))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				c.t.Fatal(err)
			}
			for _, e := range entries {
				token, _, _ := strings.Cut(e.Name(), ".")
				tokens[token] = true
			}
		}
	}
	if len(tokens) != 1 {
		c.t.Errorf("the hosts hold the data of %d clusters: %v", len(tokens), tokens)
	}
}

// A host comes back at another address, and nobody answers at the old one: it
// is the same member, and raft is told of the new peer URL. First one that
// follows, then the one whose daemon leads, then two at once, which are most of
// the voters.
func TestAddressesChange(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes half a minute: -e2e.long")
	}
	c := formed(t, 3, options{network: true})
	w := c.write()
	before := c.voters(soon, 1, 2, 3)
	place := 10
	moves := func(hosts ...*host) {
		t.Helper()
		for _, h := range hosts {
			h.crash()
			place++
			h.move(place)
		}
		for _, h := range hosts {
			h.start()
		}
		after := c.voters(90*time.Second, 1, 2, 3)
		same(t, before, after)
		for i, m := range after {
			if want := "http://" + c.block.at(c.host(i+1).place, portPeer); !slices.Equal(m.PeerURLs, []string{want}) {
				t.Errorf("the member of host %d is at %v for its peers, want %s", i+1, m.PeerURLs, want)
			}
		}
	}
	moves(c.host(without(3, c.agree())[0]))
	moves(c.agree())
	moves(c.host(1), c.host(2))
	w.end() // it knows the addresses that were
	w.compare(c.etcd())
	c.write().check()
}

// The network breaks while a cluster grows from one to three, each time between
// other hosts, and goes on after that: nothing is founded twice, nothing is
// lost, and three voters it is.
func TestPartitionWhileGrowing(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	for _, alone := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("host %d alone", alone), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{hosts: 3, network: true})
			c.configure(1)
			c.start(1)
			c.voters(soon, 1)
			w := c.write()
			c.start(2, 3)
			c.agree()
			c.configure(3)
			c.changes(1)
			c.partition([]int{alone}, without(3, c.host(alone)))
			c.passes(4 * time.Second)
			c.heal()
			c.voters(90*time.Second, 1, 2, 3)
			c.oneCluster()
			w.check()
		})
	}
}

// A host that lost its disk is being replaced, by itself, when the network
// breaks: between the new member and the others, or between the leading daemon
// and the rest.
func TestPartitionWhileReplacing(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	for _, alone := range []string{"the wiped host", "the leading daemon"} {
		t.Run(alone, func(t *testing.T) {
			t.Parallel()
			c := formed(t, 3, options{network: true})
			w := c.write()
			before := c.voters(soon, 1, 2, 3)
			leader := c.agree()
			wiped := c.host(without(3, leader)[0])
			wiped.crash()
			wiped.wipe(true)
			wiped.start()
			c.replaced(before[wiped.n-1].ID)
			cut := wiped
			if alone == "the leading daemon" {
				cut = leader
			}
			c.partition([]int{cut.n}, without(3, cut))
			c.passes(4 * time.Second)
			c.heal()
			after := c.voters(90*time.Second, 1, 2, 3)
			if before[wiped.n-1].ID == after[wiped.n-1].ID {
				t.Errorf("the wiped host %d is member %x again", wiped.n, before[wiped.n-1].ID)
			}
			c.oneCluster()
			w.check()
		})
	}
}

// changes waits until there is another number of members than n.
func (c *testCluster) changes(n int) {
	c.t.Helper()
	eventually(c.t, soon, "the change begins", func(ctx context.Context) error {
		list, err := c.etcd().MemberList(ctx)
		if err == nil && len(list.Members) == n {
			err = fmt.Errorf("there are still %d members", n)
		}
		return err
	})
}

// replaced waits until a member is no more.
func (c *testCluster) replaced(id uint64) {
	c.t.Helper()
	eventually(c.t, soon, "the old member is removed", func(ctx context.Context) error {
		list, err := c.etcd().MemberList(ctx)
		if err == nil && slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == id }) {
			err = fmt.Errorf("member %x is still there", id)
		}
		return err
	})
}
