package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// members waits until the cluster has n voters, no learner, all healthy, on
// any of the hosts, and returns those hosts.
func (c *testCluster) members(within time.Duration, n int) []int {
	c.t.Helper()
	var on []int
	eventually(c.t, within, fmt.Sprintf("%d voters", n), func(ctx context.Context) error {
		list, err := c.etcd().MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		on = nil
		for _, m := range list.Members {
			for _, h := range c.hosts {
				if len(m.ClientURLs) > 0 && m.ClientURLs[0] == h.clientURL() && !m.IsLearner {
					on = append(on, h.n)
				}
			}
		}
		if len(list.Members) != n || len(on) != n {
			return fmt.Errorf("there are %v, of which voters on hosts %v", list.Members, on)
		}
		for _, i := range on {
			if err := c.host(i).healthy(ctx); err != nil {
				return err
			}
		}
		again, err := c.etcd().MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members again: %w", err)
		}
		if !slices.EqualFunc(list.Members, again.Members, func(a, b *etcdserverpb.Member) bool { return a.ID == b.ID }) {
			return fmt.Errorf("the members changed meanwhile: %v", again.Members)
		}
		return nil
	})
	return on
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

// free waits until a host that was taken out runs no etcd, has its data set
// aside, and could be used again.
func (c *testCluster) free(within time.Duration, h *host, seenBy *host) {
	c.t.Helper()
	h.stopped(within)
	id := h.id()
	eventually(c.t, within, fmt.Sprintf("host %d is free again", h.n), func(ctx context.Context) error {
		r, err := c.report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Observation == nil {
			return errors.New("there is no observation")
		}
		for _, s := range r.Observation.Hosts {
			switch {
			case s.Host != id:
			case !s.Free():
				return fmt.Errorf("it is not free: %+v", s.Local)
			case len(s.SetAside) == 0:
				return errors.New("nothing is set aside on it")
			default:
				return nil
			}
		}
		return errors.New("the leading daemon does not see it")
	})
}

// others are the hosts that are not among some.
func (c *testCluster) others(some []int) []*host {
	var out []*host
	for _, h := range c.hosts {
		taken := false
		for _, n := range some {
			taken = taken || n == h.n
		}
		if !taken {
			out = append(out, h)
		}
	}
	return out
}

// oneOfFive is a cluster of one member among five hosts.
func oneOfFive(t *testing.T) *testCluster {
	t.Helper()
	c := newCluster(t, options{hosts: 5})
	c.configure(1)
	c.start(1, 2, 3, 4, 5)
	c.members(soon, 1)
	return c
}

// A cluster grows and shrinks through 1, 3, 5, 3, 1 and back to 3 while clients
// write; a host that is taken out stops its etcd, sets the data aside and can
// be used again.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 5})
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	w := c.write()
	c.start(2, 3, 4, 5)
	on := []int{1}
	for _, n := range []int{3, 5, 3, 1, 3} {
		was := on
		c.configure(n)
		on = c.members(90*time.Second, n)
		for _, h := range c.others(on) {
			if slices.Contains(was, h.n) {
				c.free(soon, h, c.host(on[0]))
			}
		}
	}
	w.check()
}

// The spec is changed back while the cluster grows, and again while it
// shrinks; whatever was begun is finished or undone, and the last word counts.
func TestSpecChangesHalfWay(t *testing.T) {
	t.Parallel()
	c := oneOfFive(t)
	w := c.write()
	c.configure(5)
	c.changes(1)
	c.configure(1)
	c.members(90*time.Second, 1)
	c.configure(3)
	c.members(90*time.Second, 3)
	c.configure(5)
	c.changes(3)
	c.configure(3)
	c.members(90*time.Second, 3)
	c.configure(1)
	c.changes(3)
	c.configure(3)
	c.members(90*time.Second, 3)
	w.check()
}

// The leading daemon is killed while the cluster grows, and while it shrinks:
// the next one goes on where it was.
func TestLeadingDaemonDiesWhileSizeChanges(t *testing.T) {
	t.Parallel()
	c := oneOfFive(t)
	w := c.write()
	size := 1
	for i, n := range []int{5, 3, 5, 1} {
		leader := c.leader(soon, c.host(1))
		c.configure(n)
		c.changes(size)
		if i%2 == 0 {
			leader.kill()
		} else {
			leader.crash()
		}
		t.Logf("killed the leading daemon of host %d on the way from %d to %d", leader.n, size, n)
		leader.start()
		c.members(2*time.Minute, n)
		size = n
	}
	w.check()
}

// The leading daemon stands still in the midst of a change; another finishes
// it; then the first goes on, and what it still wants to do is refused.
func TestPausedLeaderActsLate(t *testing.T) {
	t.Parallel()
	c := oneOfFive(t)
	w := c.write()
	rounds := []int{3, 5, 3, 1, 5, 1, 3, 1, 5, 3}
	if !*long {
		rounds = []int{3, 1, 3}
		t.Run("more rounds", func(t *testing.T) { t.Skip("take minutes: -e2e.long") })
	}
	size := 1
	for _, n := range rounds {
		leader := c.leader(soon, c.host(1))
		c.configure(n)
		c.changes(size)
		leader.signal(syscall.SIGSTOP)
		// The others cannot do all without that host's promise if it carries a
		// voter; give them the time to take the lead.
		c.leader(10*time.Second, c.host(without(5, leader)[0]), leader)
		leader.signal(syscall.SIGCONT)
		c.members(2*time.Minute, n)
		size = n
	}
	time.Sleep(2 * time.Second) // a late action would come now
	c.members(soon, size)
	w.check()
}

// The leading daemon stands still when it has decided on a removal, somewhere
// between its last look and the call; the others take over and the spec is
// changed meanwhile; then it goes on. Nothing is removed that would take the
// quorum, and the last word of the spec counts.
func TestLeaderPausedBeforeRemoval(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	c := oneOfFive(t)
	w := c.write()
	late := 0
	for range 3 {
		c.configure(3)
		on := c.members(90*time.Second, 3)
		leader := c.leader(soon, c.host(on[0]))
		mark := leader.mark()
		c.configure(1)
		leader.pausesAt(mark, removal)
		before := c.listed()
		c.leader(10*time.Second, c.host(without(5, leader)[0]), leader)
		// A daemon that stands still while it writes to the store keeps the
		// lock of a store that is a directory; then the spec waits for it.
		changed := c.ctl("-member-count=3", "--backup-store="+c.storeURL(), "-etcd-version="+c.options.version, "configure-cluster")
		if changed.code != 0 && !strings.Contains(changed.stderr, "lock") {
			t.Fatal(changed)
		}
		victim := c.host(on[0])
		if victim == leader {
			victim = c.host(on[1])
		}
		for _, pid := range victim.etcdPIDs() { // one that the late removal may count on, if it is still a member
			syscall.Kill(pid, syscall.SIGKILL)
		}
		leader.signal(syscall.SIGCONT)
		if changed.code != 0 {
			c.configure(3)
		}
		if len(before) == 3 {
			late++
		}
		c.members(2*time.Minute, 3)
	}
	t.Logf("the leading daemon stood still before the removal was done in %d of 3 rounds", late)
	w.check()
}

// removal is what a daemon says before it removes a member.
var removal = regexp.MustCompile(`msg=decision .* action="[^"]*: remove `)

// pausesAt stops the daemon when its log has a text after a mark.
func (h *host) pausesAt(mark int, text *regexp.Regexp) {
	h.c.t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(time.Millisecond) { // what follows in the daemon takes a few
		if time.Now().After(deadline) {
			h.c.t.Fatalf("host %d does not say %s", h.n, text)
		}
		data, err := os.ReadFile(h.log)
		if err != nil {
			h.c.t.Fatal(err)
		}
		if text.Match(data[mark:]) {
			h.signal(syscall.SIGSTOP)
			return
		}
	}
}

// listed are the IDs of the members.
func (c *testCluster) listed() []uint64 {
	c.t.Helper()
	var ids []uint64
	eventually(c.t, soon, "a member list", func(ctx context.Context) error {
		list, err := c.etcd().MemberList(ctx)
		if err != nil {
			return err
		}
		ids = nil
		for _, m := range list.Members {
			ids = append(ids, m.ID)
		}
		return nil
	})
	return ids
}

// A founder loses its disk right after the founding. It comes back as another
// member, and nothing that was acknowledged is lost: it must not vote as the
// member that it was.
func TestFounderIsWipedAtOnce(t *testing.T) {
	t.Parallel()
	for _, keepIdentity := range []bool{true, false} {
		t.Run(fmt.Sprintf("identity kept %v", keepIdentity), func(t *testing.T) {
			c := newCluster(t, options{hosts: 3})
			c.configure(3)
			c.start(1, 2, 3)
			w := c.write() // waits for the first acknowledged write
			before := c.voters(soon, 1, 2, 3)
			leader := c.raftLeader(1, 2, 3)
			c.host(leader.n).crash()
			leader.wipe(keepIdentity)
			leader.start()
			after := c.voters(90*time.Second, 1, 2, 3)
			if before[leader.n-1].ID == after[leader.n-1].ID {
				t.Errorf("the wiped host %d is member %x again", leader.n, before[leader.n-1].ID)
			}
			w.check()
		})
	}
}

// Three are asked for and two hosts are up: they form a cluster, and the third
// joins when it comes.
func TestTwoOfThreeHostsForm(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	c.start(1, 2) // before there is a spec
	c.said(soon, "no spec")
	c.configure(3)
	c.members(90*time.Second, 2)
	w := c.write()
	r := c.etcdadm("status", "--data-dir", c.host(1).dir)
	if r.code != 0 || !strings.Contains(r.stdout, "wanted: 3 members") {
		t.Errorf("%s", r)
	}
	c.start(3)
	c.voters(soon, 1, 2, 3)
	w.check()
}
