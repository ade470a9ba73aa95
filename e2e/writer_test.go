package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// writer puts keys of its own, one after the other, through whatever happens,
// and remembers what was acknowledged: that must be there for ever.
type writer struct {
	t      *testing.T
	client *clientv3.Client
	prefix string
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	acked   map[string]string
	failed  int
	longest time.Duration // between two acknowledgements
	last    time.Time
	back    []string // acknowledged at a lower revision than one before
}

// write begins to write until check or the end of the test.
func (c *testCluster) write() *writer {
	c.t.Helper()
	return c.writeUnder("written/")
}

// writeUnder is write with keys that begin like this.
func (c *testCluster) writeUnder(prefix string) *writer {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{t: c.t, client: c.newClient(), prefix: prefix + c.block.prefix + time.Now().Format("150405.000000") + "/",
		stop: cancel, acked: map[string]string{}}
	clients := slices.Repeat([]*clientv3.Client{w.client}, writers)
	if c.net != nil {
		// One for each host: the one whose member cannot write holds up no other.
		clients = nil
		for _, h := range c.hosts {
			clients = append(clients, c.newClient(h.n))
		}
	}
	for i, client := range clients {
		w.done.Go(func() { w.run(ctx, i, client) })
	}
	c.t.Cleanup(func() { // before the cluster ends
		w.end()
		for _, client := range append(clients, w.client) {
			client.Close()
		}
	})
	w.waitFor(1)
	return w
}

// writers is how many puts are under way at a time: one that hangs in a member
// without a leader does not hold up the others.
const writers = 3

func (w *writer) run(ctx context.Context, series int, client *clientv3.Client) {
	var revision int64
	for n := 0; ctx.Err() == nil; n++ {
		key, value := fmt.Sprintf("%s%d/%08d", w.prefix, series, n), fmt.Sprint(time.Now().UnixNano())
		callCtx, cancel := context.WithTimeout(ctx, 3*time.Second)
		put, err := client.Put(callCtx, key, value)
		cancel()
		now := time.Now()
		w.mu.Lock()
		if err == nil {
			if !w.last.IsZero() {
				w.longest = max(w.longest, now.Sub(w.last))
			}
			w.acked[key], w.last = value, now
			if at := put.Header.Revision; at <= revision {
				w.back = append(w.back, fmt.Sprintf("%s at %d after %d", key, at, revision))
			} else {
				revision = at
			}
		} else {
			w.failed++
		}
		w.mu.Unlock()
		pause := 10 * time.Millisecond // a load, not a benchmark
		if err != nil {
			pause = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// waitFor waits for more writes to be acknowledged.
func (w *writer) waitFor(more int) {
	w.t.Helper()
	from := w.count()
	eventually(w.t, soon, fmt.Sprintf("%d more writes acknowledged", more), func(context.Context) error {
		if n := w.count() - from; n < more {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
}

func (w *writer) end() {
	w.stop()
	w.done.Wait()
}

// check ends the writing and looks for every acknowledged write.
func (w *writer) check() {
	w.t.Helper()
	w.waitFor(1)
	w.end()
	w.compare(w.client)
}

// neverBack: every write got a higher revision than the one before it.
func (w *writer) neverBack() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.back) > 0 {
		w.t.Errorf("revisions went back: %s", w.back[0])
	}
}

// compare looks for every acknowledged write through a client.
func (w *writer) compare(client *clientv3.Client) {
	w.t.Helper()
	found := map[string]string{}
	eventually(w.t, soon, "reading back", func(ctx context.Context) error {
		got, err := client.Get(ctx, w.prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			found[string(kv.Key)] = string(kv.Value)
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := 0
	for key, value := range w.acked {
		if found[key] != value {
			lost++
			if lost <= 5 {
				w.t.Errorf("acknowledged write lost: %s", key)
			}
		}
	}
	if lost > 0 {
		w.t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.acked))
	}
	w.t.Logf("writer: %d acknowledged, %d failed, the longest time without was %s", len(w.acked), w.failed, w.longest.Round(time.Millisecond))
}
