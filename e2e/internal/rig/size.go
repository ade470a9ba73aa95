package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Members waits until the cluster has n voters, no learner, all healthy, on
// any of the hosts, and returns those hosts.
func (c *Cluster) Members(within time.Duration, n int) []int {
	c.T.Helper()
	var on []int
	Eventually(c.T, within, fmt.Sprintf("%d voters", n), func(ctx context.Context) error {
		list, err := c.Etcd().MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		on = nil
		for _, m := range list.Members {
			for _, h := range c.Hosts {
				if len(m.ClientURLs) > 0 && m.ClientURLs[0] == h.ClientURL() && !m.IsLearner {
					on = append(on, h.N)
				}
			}
		}
		if len(list.Members) != n || len(on) != n {
			return fmt.Errorf("there are %v, of which voters on hosts %v", list.Members, on)
		}
		for _, i := range on {
			if err := c.Host(i).Healthy(ctx); err != nil {
				return err
			}
		}
		again, err := c.Etcd().MemberList(ctx)
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

// Changes waits until there is another number of members than n.
func (c *Cluster) Changes(n int) {
	c.T.Helper()
	Eventually(c.T, Soon, "the change begins", func(ctx context.Context) error {
		list, err := c.Etcd().MemberList(ctx)
		if err == nil && len(list.Members) == n {
			err = fmt.Errorf("there are still %d members", n)
		}
		return err
	})
}

// Free waits until a host that was taken out runs no etcd, has its data set
// aside, and could be used again.
func (c *Cluster) Free(within time.Duration, h *Host, seenBy *Host) {
	c.T.Helper()
	h.Stopped(within)
	id := h.ID()
	Eventually(c.T, within, fmt.Sprintf("host %d is free again", h.N), func(ctx context.Context) error {
		r, err := c.Report(ctx, seenBy)
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

// Others are the hosts that are not among some.
func (c *Cluster) Others(some []int) []*Host {
	var out []*Host
	for _, h := range c.Hosts {
		taken := false
		for _, n := range some {
			taken = taken || n == h.N
		}
		if !taken {
			out = append(out, h)
		}
	}
	return out
}

// PausesAt stops the daemon when its log has a text after a mark.
func (h *Host) PausesAt(mark int, text *regexp.Regexp) {
	h.C.T.Helper()
	for deadline := time.Now().Add(Soon); ; time.Sleep(time.Millisecond) { // what follows in the daemon takes a few
		if time.Now().After(deadline) {
			h.C.T.Fatalf("host %d does not say %s", h.N, text)
		}
		data, err := os.ReadFile(h.Log)
		if err != nil {
			h.C.T.Fatal(err)
		}
		if text.Match(data[mark:]) {
			h.Signal(syscall.SIGSTOP)
			return
		}
	}
}

// Listed are the IDs of the members.
func (c *Cluster) Listed() []uint64 {
	c.T.Helper()
	var ids []uint64
	Eventually(c.T, Soon, "a member list", func(ctx context.Context) error {
		list, err := c.Etcd().MemberList(ctx)
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
