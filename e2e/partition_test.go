package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
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
	c := formed(t, 3, options{hosts: 5, network: true, flags: []string{"--dead-after=3s"}})
	w := c.write()
	leader := c.leader(soon, c.host(1))
	c.start(4, 5)
	c.agree()
	before := c.voters(soon, 1, 2, 3)
	leader = c.leader(soon, c.host(1)) // one of the new ones may lead now
	voter := leader
	if leader.n > 3 {
		voter = c.host(1)
	}
	most := without(3, voter)
	c.partition([]int{voter.n, 4, 5}, most)
	cut, marks := time.Now(), []int{voter.mark(), c.host(4).mark(), c.host(5).mark()}
	c.leader(10*time.Second, c.host(most[0]), voter, c.host(4), c.host(5))
	t.Logf("another daemon leads after %s", time.Since(cut).Round(time.Millisecond))
	w.waitFor(20)
	c.configure(5)
	c.passes(6 * time.Second)
	for i, h := range []*host{voter, c.host(4), c.host(5)} {
		h.idle(marks[i])
	}
	for _, n := range []int{4, 5} {
		if pid := c.host(n).etcdPID(); pid != 0 {
			t.Errorf("host %d runs etcd, pid %d: there is no quorum on its side", n, pid)
		}
	}
	w.waitFor(20)
	c.heal()
	c.members(90*time.Second, 5)
	after := c.voters(soon, 1, 2, 3, 4, 5)
	same(t, before, after[:3])
	c.agree()
	w.check()
}

// Three are wanted of four hosts, of which two hear each other, and the other
// two; all reach the store. There is one cluster, ever: the side that comes
// second to the store founds nothing.
func TestTwoHalvesFoundOneCluster(t *testing.T) {
	t.Parallel()
	rounds := 1
	if *long {
		rounds = 3
	}
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := newCluster(t, options{hosts: 4, network: true})
			c.configure(3)
			c.partition([]int{1, 2}, []int{3, 4})
			c.start(1, 3, 2, 4)
			on := c.members(soon, 2)
			w := c.write()
			far := c.others(on)
			c.passes(6 * time.Second) // the others have long looked and waited
			for _, h := range far {
				if pid := h.etcdPID(); pid != 0 {
					t.Errorf("host %d runs etcd, pid %d: the cluster is on hosts %v", h.n, pid, on)
				}
			}
			c.heal()
			c.members(90*time.Second, 3)
			c.oneCluster()
			w.check()
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
			entries, err := os.ReadDir(h.dir + "/" + dir)
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
