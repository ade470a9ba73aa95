package e2e

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
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// learners counts the learners that voters list at a time, on whatever port they
// listen.
type learners struct {
	most atomic.Int64
	end  func()
}

func (c *testCluster) countLearners() *learners {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var l learners
	var asking sync.WaitGroup
	for _, h := range c.hosts {
		for _, url := range []string{h.clientURL(), h.scheme() + "://" + c.block.at(h.place, portQuarantine)} {
			client, err := c.dial(url)
			if err != nil {
				c.t.Fatal(err)
			}
			asking.Go(func() {
				defer client.Close()
				l.ask(ctx, client)
			})
		}
	}
	l.end = func() {
		cancel()
		asking.Wait()
	}
	c.t.Cleanup(l.end)
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
			for was := l.most.Load(); n > was && !l.most.CompareAndSwap(was, n); was = l.most.Load() {
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// two waits until two learners are listed at a time. On a fast machine the first is
// a voter a moment after the second was added, so the leading daemon is held at that
// point until the caller lets it go on.
func (l *learners) two(c *testCluster, leader *host) {
	c.t.Helper()
	began := time.Now()
	for !c.addedLearners(2) {
		if time.Since(began) > restoreWithin {
			c.t.Fatalf("no second learner was added within %s", restoreWithin)
		}
		time.Sleep(2 * time.Millisecond) // other processes give no events
	}
	leader.signal(syscall.SIGSTOP)
	eventually(c.t, soon, "two learners at a time", func(context.Context) error {
		if n := l.most.Load(); n < 2 {
			return fmt.Errorf("at most %d", n)
		}
		return nil
	})
}

// aLearner is a host whose member is a learner by what the founder lists.
func (c *testCluster) aLearner() (learns *host) {
	c.t.Helper()
	at := c.hosts[slices.IndexFunc(c.hosts, func(h *host) bool { return h.id() == c.intent().Founders[0].Host })]
	client, err := c.dial(at.clientURL(), at.scheme()+"://"+c.block.at(at.place, portQuarantine))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	eventually(c.t, soon, "a member that is a learner", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			for _, h := range c.hosts {
				if m.IsLearner && slices.Contains(m.PeerURLs, h.scheme()+"://"+c.block.at(h.place, portPeer)) {
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
func (c *testCluster) addedLearners(want int) bool {
	n := 0
	for _, h := range c.hosts {
		said, _ := os.ReadFile(h.log)
		n += strings.Count(string(said), `op="add-learner `)
	}
	return n >= want
}

// On 3.6 and later the two that join a restored founder are learners at the same
// time, and become voters both, also when one of them dies meanwhile and comes
// back, or comes back with an empty disk.
func TestTwoLearners(t *testing.T) {
	longOnly(t)
	for _, wiped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wiped %t", wiped), func(t *testing.T) {
			t.Parallel()
			c := formed(t, 3, options{})
			c.fillLarge("large/", 150) // so that it takes some time to catch up
			w := c.write()
			w.check()
			name := c.takeBackup()
			l, leader := c.countLearners(), c.agree()
			command := c.restoreByCtl(name)
			l.two(c, leader)
			dies := c.aLearner() // of two voters none can be spared
			dies.crash()
			if wiped {
				dies.wipe(true)
			}
			if dies != leader {
				leader.signal(syscall.SIGCONT)
			}
			c.ended(command, "done")
			c.passes(2 * time.Second)
			dies.start()
			c.generation(2, 1, 2, 3)
			l.end()
			if n := l.most.Load(); n != 2 {
				t.Errorf("%d learners were listed at a time, want 2", n)
			}
			w.compare(c.etcd())
			c.write().check()
		})
	}
}

// Where a member of 3.5 is among them, which takes one learner only, there is
// never a second one: in a restore, and in a cluster that is half way to 3.6.
func TestOneLearnerBeside35(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{hosts: 5, version: testetcd.V35})
	c.start(4, 5)
	c.fillLarge("large/", 100)
	w := c.write()
	w.check()
	name := c.takeBackup()
	l := c.countLearners()
	if r := c.restore(name); r.code != cli.ExitOK {
		t.Fatal(r)
	}
	c.members(2*time.Minute, 3)
	w.compare(c.etcd())
	if n := l.most.Load(); n > 1 {
		t.Errorf("%d learners were listed at a time with 3.5", n)
	}
	r := c.upgrade(c.host(1), testetcd.V36, "--pause-before-last", "--wait=3m")
	if r.code != cli.ExitOK || !strings.Contains(r.stdout, "the last one is kept on "+testetcd.V35) {
		t.Fatal(r)
	}
	c.options.version = testetcd.V36
	if r := c.ctl("-member-count=5", "--backup-store="+c.storeURL(), "configure-cluster"); r.code != cli.ExitOK {
		t.Fatal(r)
	}
	on := c.members(2*time.Minute, 5)
	if _, left := c.split(testetcd.V36, on...); len(left) == 0 {
		t.Error("no member of 3.5 was left while the cluster grew")
	}
	l.end()
	if n := l.most.Load(); n != 1 {
		t.Errorf("%d learners were listed at a time beside a member of 3.5, want 1", n)
	}
	if r := c.upgrade(c.host(1), "--resume", "--wait=3m"); r.code != cli.ExitOK {
		t.Fatal(r)
	}
	c.runs(soon, on...)
	w.compare(c.etcd())
	c.write().check()
}
