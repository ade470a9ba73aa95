package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// only forms a cluster whose hosts have these releases and no others, and runs the
// first of them.
func only(t *testing.T, members int, o options, releases ...string) *testCluster {
	t.Helper()
	o.hosts, o.version = members, releases[0]
	c := newCluster(t, o)
	var hosts []int
	for n := range members {
		c.host(n + 1).releases(releases...)
		hosts = append(hosts, n+1)
	}
	c.configure(members)
	c.start(hosts...)
	c.voters(soon, hosts...)
	return c
}

// outage is the longest time between two acknowledged writes.
func (w *writer) outage() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest.Round(time.Millisecond)
}

// From 3.4 to 3.6 where 3.5 is not installed, and back: all members are stopped and a
// new generation is made from what they have. Nothing that was acknowledged is
// lost, no revision goes back, leases live on and watches go on or are told to list
// again.
func TestOverALine(t *testing.T) {
	t.Parallel()
	c := only(t, 3, options{}, testetcd.V34, testetcd.V36)
	w := c.write()
	h := &revisions{t: t, seen: map[int64]string{}}
	m := &mirror{prefix: "m/", history: h}
	c.during(func(ctx context.Context, client *clientv3.Client) {
		m.client = client
		m.run(ctx)
	})
	stopWriting := c.during(rewrites(h, "m/"))
	kept, _ := c.keepAlive("/kept", 60)
	if r := c.upgrade(c.host(1), testetcd.V36); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "--accept-outage") {
		t.Errorf("%s", r)
	}
	if r := c.upgrade(c.host(1), testetcd.V36, "--accept-outage", "--wait=3m"); r.code != cli.ExitOK || !strings.Contains(r.stdout, "every member runs etcd "+testetcd.V36) {
		t.Fatalf("%s", r)
	}
	c.options.version = testetcd.V36
	c.runs(soon, 1, 2, 3)
	c.generation(2, 1, 2, 3)
	t.Logf("%s up: no write was acknowledged for %s", testetcd.V34, w.outage())
	kept.more(t, 1)
	c.passes(time.Second)
	stopWriting()
	m.holds(c)
	w.check()
	w.neverBack()

	down := c.write()
	c.to(testetcd.V34, 1, 2, 3) // as the predecessor's users ask for it
	c.generation(3, 1, 2, 3)
	t.Logf("%s down: no write was acknowledged for %s", testetcd.V36, down.outage())
	kept.more(t, 1)
	down.check()
	down.neverBack()
	w.compare(c.etcd())
}

// holds waits until the copy that watches keep is what is there.
func (m *mirror) holds(c *testCluster) {
	c.t.Helper()
	if _, err := c.etcd().Put(c.t.Context(), m.prefix+"last", "one"); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, soon, "the copy is what is there", func(ctx context.Context) error {
		got, err := c.etcd().Get(ctx, m.prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		keys := map[string]string{}
		for _, kv := range got.Kvs {
			keys[string(kv.Key)] = string(kv.Value)
		}
		return m.is(keys)
	})
	c.t.Logf("the copy was listed %d times, and its watches ended by a compaction %d times", m.lists.Load(), m.compacted.Load())
}

// Down over two lines at once, from the newest, with TLS; and one member.
func TestDownOverALine(t *testing.T) {
	t.Parallel()
	for _, members := range []int{3, 1} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			if members == 1 && !*long {
				t.Skip("only with -e2e.long")
			}
			c := only(t, members, options{tls: true}, testetcd.V37, testetcd.V35)
			w := c.write()
			var hosts []int
			for n := range members {
				hosts = append(hosts, n+1)
			}
			c.to(testetcd.V35, hosts...)
			t.Logf("no write was acknowledged for %s", w.outage())
			w.check()
			w.neverBack()
		})
	}
}

// The leading daemon is killed at each step of the way: whoever leads next goes on
// with it, or takes it back.
func TestLeaderKilledOverALine(t *testing.T) {
	longOnly(t)
	for _, step := range []string{"try out on host", "stop all members", "makes it ready", "write down generation 2", "write that down", "set its data aside", "begin generation 2", "write down that it exists"} {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			c := only(t, 3, options{}, testetcd.V34, testetcd.V36)
			w := c.write()
			killed := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			go func() { killed <- c.killWhen(ctx, step) }()
			c.asks(testetcd.V36, 3)
			if err := <-killed; err != nil {
				t.Skipf("the step was not seen: %v", err)
			}
			c.passes(time.Second)
			for n := range 3 {
				if !c.host(n + 1).running() {
					c.host(n + 1).start()
				}
			}
			c.runs(2*time.Minute, 1, 2, 3)
			c.generation(2, 1, 2, 3)
			t.Logf("no write was acknowledged for %s", w.outage())
			w.check()
			w.neverBack()
		})
	}
}

// killWhen kills the daemon whose log says that it has decided so.
func (c *testCluster) killWhen(ctx context.Context, words string) error {
	for {
		for _, h := range c.hosts {
			if data, err := os.ReadFile(h.log); err == nil && strings.Contains(string(data), words) {
				h.kill()
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New(words)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
