package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// learners counts the learners that voters list at a time, on whatever port they
// listen.
type learners struct {
	Most atomic.Int64
	End  func()
}

func (c *Cluster) CountLearners() *learners {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var l learners
	var asking sync.WaitGroup
	for _, h := range c.Hosts {
		for _, url := range []string{h.ClientURL(), h.Scheme() + "://" + c.Block.At(h.Place, portQuarantine)} {
			client, err := c.Dial(url)
			if err != nil {
				c.T.Fatal(err)
			}
			asking.Go(func() {
				defer client.Close()
				l.ask(ctx, client)
			})
		}
	}
	l.End = func() {
		cancel()
		asking.Wait()
	}
	c.T.Cleanup(l.End)
	return &l
}

func (l *learners) ask(ctx context.Context, client *clientv3.Client) {
	for ctx.Err() == nil {
		callCtx, cancel := context.WithTimeout(ctx, time.Second)
		list, err := client.MemberList(callCtx)
		cancel()
		if err == nil {
			n := int64(0)
			for _, m := range list.Members {
				if m.IsLearner {
					n++
				}
			}
			for was := l.Most.Load(); n > was && !l.Most.CompareAndSwap(was, n); was = l.Most.Load() {
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Two waits until two learners are listed at a time. On a fast machine the first is
// a voter a moment after the second was added, so the leading daemon is held at that
// point until the caller lets it go on.
func (l *learners) Two(c *Cluster, leader *Host) {
	c.T.Helper()
	began := time.Now()
	for !c.addedLearners(2) {
		if time.Since(began) > RestoreWithin {
			c.T.Fatalf("no second learner was added within %s", RestoreWithin)
		}
		time.Sleep(2 * time.Millisecond) // other processes give no events
	}
	leader.Signal(syscall.SIGSTOP)
	Eventually(c.T, Soon, "two learners at a time", func(context.Context) error {
		if n := l.Most.Load(); n < 2 {
			return fmt.Errorf("at most %d", n)
		}
		return nil
	})
}

// ALearner is a host whose member is a learner by what the founder lists.
func (c *Cluster) ALearner() (learns *Host) {
	c.T.Helper()
	at := c.Hosts[slices.IndexFunc(c.Hosts, func(h *Host) bool { return h.ID() == c.Intent().Founders[0].Host })]
	client, err := c.Dial(at.ClientURL(), at.Scheme()+"://"+c.Block.At(at.Place, portQuarantine))
	if err != nil {
		c.T.Fatal(err)
	}
	defer client.Close()
	Eventually(c.T, Soon, "a member that is a learner", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			for _, h := range c.Hosts {
				if m.IsLearner && slices.Contains(m.PeerURLs, h.Scheme()+"://"+c.Block.At(h.Place, PortPeer)) {
					learns = h
				}
			}
		}
		if learns == nil {
			err = errors.New("there is none")
		}
		return err
	})
	return learns
}

// addedLearners: the hosts have added so many, by their daemons' logs.
func (c *Cluster) addedLearners(want int) bool {
	n := 0
	for _, h := range c.Hosts {
		said, _ := os.ReadFile(h.Log)
		n += strings.Count(string(said), `op="add-learner `)
	}
	return n >= want
}
