package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// v2Writer puts keys of version 2, through any member that takes them, and
// remembers which were acknowledged.
type v2Writer struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex // guards what follows
	acked map[string]string
}

func (c *testCluster) v2Write() *v2Writer {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &v2Writer{stop: cancel, acked: map[string]string{}}
	c.t.Cleanup(w.end)
	for i, h := range c.hosts {
		w.done.Go(func() {
			// Etcd 3.2 takes writes of version 2, too, and keeps them where no client of
			// version 3 sees them: so who writes those has to stop at the outage.
			for n := 0; ctx.Err() == nil && !c.halted(ctx); n++ {
				key, value := fmt.Sprintf("/written/%d/%06d", i, n), fmt.Sprint(time.Now().UnixNano())
				_, err := h.v2(ctx, http.MethodPut, "/v2/keys"+key, url.Values{"value": {value}})
				if err != nil {
					continue
				}
				w.mu.Lock()
				w.acked[key] = value
				w.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	eventually(c.t, soon, "writes of version 2", func(context.Context) error {
		if n := w.count(); n < 50 {
			return fmt.Errorf("%d were acknowledged", n)
		}
		return nil
	})
	return w
}

// halted: the members are to stop for a change of version.
func (c *testCluster) halted(ctx context.Context) bool {
	in, _, _, err := c.folder().ReadIntent(ctx)
	return err == nil && in.Halted() != nil
}

func (w *v2Writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

func (w *v2Writer) end() {
	w.stop()
	w.done.Wait()
}

// killLeaderAmid kills the leading daemon once the members are halted.
func (c *testCluster) killLeaderAmid() (done func()) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(c.t.Context())
	killed := ""
	wg.Go(func() {
		for ctx.Err() == nil {
			if !c.halted(ctx) {
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				continue
			}
			h := c.leader(soon, c.host(1))
			h.kill()
			killed = fmt.Sprint("the daemon of host ", h.n)
			h.start()
			return
		}
	})
	return func() {
		c.t.Helper()
		cancel()
		wg.Wait()
		if killed == "" {
			c.t.Error("no daemon was killed while the members were halted")
		}
		c.t.Log(killed)
	}
}

// Between versions 2 and 3 keys are carried over one by one: up from 2.3.8 while
// clients write, and back. What is lost is listed, and taken only by its digest.
func TestOldKeysCarriedOver(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	testetcd.Binary(t, testetcd.V32)
	for name, kill := range map[string]bool{"undisturbed": false, "leading daemon killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{hosts: 3, version: testetcd.V23})
			c.configure(3)
			c.start(1, 2, 3)
			c.v2Voters(soon, 1, 2, 3)
			up(c, kill)
			back(c, kill)
		})
	}
}

func (c *testCluster) disturbed(kill bool, change func()) {
	c.t.Helper()
	done := func() {}
	if kill {
		done = c.killLeaderAmid()
	}
	began := time.Now()
	change()
	c.t.Logf("etcd %s after %s", c.options.version, time.Since(began).Round(10*time.Millisecond))
	done()
}

func up(c *testCluster, kill bool) {
	t := c.t
	t.Helper()
	if _, err := c.host(1).v2(t.Context(), http.MethodPut, "/v2/keys/expiring", url.Values{"value": {"soon"}, "ttl": {"5000"}}); err != nil {
		t.Fatal(err)
	}
	w := c.v2Write()
	c.options.version = testetcd.V32
	if r := c.upgrade(c.host(1), testetcd.V32); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "--accept-outage") {
		t.Errorf("without a word for the outage: %s", r)
	}
	c.disturbed(kill, func() {
		if !kill { // the predecessor's command is a word for the outage itself
			c.configure(3)
		} else if r := c.upgrade(c.host(1), testetcd.V32, "--accept-outage", "--wait=110s"); r.code != cli.ExitOK {
			t.Errorf("%s", r)
		}
		c.runs(3*time.Minute, 1, 2, 3)
	})
	w.end()
	c.voters(soon, 1, 2, 3)
	client := c.newClient()
	defer client.Close()
	found := map[string]*clientv3.GetResponse{}
	eventually(t, soon, "reading all keys", func(ctx context.Context) (err error) {
		found["all"], err = client.Get(ctx, "/", clientv3.WithPrefix())
		return err
	})
	values, lease := map[string]string{}, clientv3.LeaseID(0)
	for _, kv := range found["all"].Kvs {
		values[string(kv.Key)] = string(kv.Value)
		if string(kv.Key) == "/expiring" {
			lease = clientv3.LeaseID(kv.Lease)
		}
	}
	lost := 0
	for key, value := range w.acked {
		if values[key] != value {
			lost++
		}
	}
	if lost > 0 || values["/expiring"] != "soon" {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.acked))
	}
	t.Logf("%d acknowledged writes are there", len(w.acked))
	if ttl, err := client.TimeToLive(t.Context(), lease); err != nil || ttl.TTL <= 4000 || ttl.TTL > 5000 {
		t.Errorf("the TTL became %+v (%v)", ttl, err)
	}
}

func back(c *testCluster, kill bool) {
	t := c.t
	t.Helper()
	w := c.writeUnder("/written-later/")
	w.waitFor(50)
	c.options.version = testetcd.V23
	if r := c.upgrade(c.host(1), testetcd.V23, "--accept-outage", "--accept-loss"); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "no list") {
		t.Errorf("a list was accepted that nobody made: %s", r)
	}
	if r := c.upgrade(c.host(1), testetcd.V23, "--accept-outage", "--wait=100s"); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "1 leases") || !strings.Contains(r.stderr, "--accept-loss=") {
		t.Fatalf("a lease was lost without a word: %s", r)
	}
	if r := c.upgrade(c.host(1), testetcd.V23, "--dry-run"); r.code != cli.ExitOK || !strings.Contains(r.stdout, "leases: 1 ") || !strings.Contains(r.stdout, "digest") {
		t.Errorf("%s", r)
	}
	w.waitFor(10) // nothing was stopped
	c.disturbed(kill, func() {
		if r := c.upgrade(c.host(1), testetcd.V23, "--accept-outage", "--accept-loss", "--wait=110s"); r.code != cli.ExitOK {
			t.Errorf("%s", r)
		}
		c.v2Voters(3*time.Minute, 1, 2, 3)
	})
	w.end()
	if in := c.intent(); in.Generation != 3 || in.Source.Accept == "" || in.Source.Kind != cluster.SourceHalted {
		t.Errorf("the intent is of generation %d, made from %+v", in.Generation, in.Source)
	}
	lost := 0
	for key, value := range w.acked {
		said, err := c.host(1).v2(t.Context(), http.MethodGet, "/v2/keys"+key, nil)
		if err != nil || said.Node.Value != value {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.acked))
	}
	t.Logf("%d acknowledged writes are there", len(w.acked))
	said, err := c.host(2).v2(t.Context(), http.MethodGet, "/v2/keys/expiring?quorum=true", nil)
	if err != nil || said.Node.Value != "soon" || said.Node.TTL <= 3000 || said.Node.TTL > 5000 {
		t.Errorf("the lease became %+v (%v)", said.Node, err)
	}
}
