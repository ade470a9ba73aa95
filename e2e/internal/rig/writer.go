package rig

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
	Prefix string
	stop   context.CancelFunc
	done   sync.WaitGroup

	Mu      sync.Mutex // guards what follows
	Acked   map[string]string
	failed  int
	Longest time.Duration // between two acknowledgements
	last    time.Time
	back    []string // acknowledged at a lower revision than one before
}

// Write begins to write until check or the end of the test.
func (c *Cluster) Write() *writer {
	c.T.Helper()
	return c.WriteUnder("written/")
}

// WriteUnder is write with keys that begin like this, by way of some hosts; none: of all.
func (c *Cluster) WriteUnder(prefix string, hosts ...int) *writer {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{t: c.T, client: c.NewClient(hosts...), Prefix: prefix + c.Block.prefix + time.Now().Format("150405.000000") + "/",
		stop: cancel, Acked: map[string]string{}}
	clients := slices.Repeat([]*clientv3.Client{w.client}, writers)
	if c.Net != nil {
		// One for each host: the one whose member cannot write holds up no other.
		clients = nil
		for _, h := range c.Hosts {
			clients = append(clients, c.NewClient(h.N))
		}
	}
	for i, client := range clients {
		w.done.Go(func() { w.Run(ctx, i, client) })
	}
	c.T.Cleanup(func() { // before the cluster ends
		w.End()
		for _, client := range append(clients, w.client) {
			client.Close()
		}
	})
	w.WaitFor(1)
	return w
}

// writers is how many puts are under way at a time: one that hangs in a member
// without a leader does not hold up the others.
const writers = 3

func (w *writer) Run(ctx context.Context, series int, client *clientv3.Client) {
	var revision int64
	for n := 0; ctx.Err() == nil; n++ {
		key, value := fmt.Sprintf("%s%d/%08d", w.Prefix, series, n), fmt.Sprint(time.Now().UnixNano())
		callCtx, cancel := context.WithTimeout(ctx, 3*time.Second)
		put, err := client.Put(callCtx, key, value)
		cancel()
		now := time.Now()
		w.Mu.Lock()
		if err == nil {
			if !w.last.IsZero() {
				w.Longest = max(w.Longest, now.Sub(w.last))
			}
			w.Acked[key], w.last = value, now
			if at := put.Header.Revision; at <= revision {
				w.back = append(w.back, fmt.Sprintf("%s at %d after %d", key, at, revision))
			} else {
				revision = at
			}
		} else {
			w.failed++
		}
		w.Mu.Unlock()
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

func (w *writer) Count() int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return len(w.Acked)
}

// Failed is how many writes failed. None is tried again.
func (w *writer) Failed() int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.failed
}

// WaitFor waits for more writes to be acknowledged.
func (w *writer) WaitFor(more int) {
	w.t.Helper()
	from := w.Count()
	Eventually(w.t, Soon, fmt.Sprintf("%d more writes acknowledged", more), func(context.Context) error {
		if n := w.Count() - from; n < more {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
}

func (w *writer) End() {
	w.stop()
	w.done.Wait()
}

// Check ends the writing and looks for every acknowledged write.
func (w *writer) Check() {
	w.t.Helper()
	w.WaitFor(1)
	w.End()
	w.Compare(w.client)
}

// NeverBack: every write got a higher revision than the one before it.
func (w *writer) NeverBack() {
	w.t.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if len(w.back) > 0 {
		w.t.Errorf("revisions went back: %s", w.back[0])
	}
}

// Compare looks for every acknowledged write through a client.
func (w *writer) Compare(client *clientv3.Client) {
	w.t.Helper()
	found := map[string]string{}
	Eventually(w.t, Soon, "reading back", func(ctx context.Context) error {
		got, err := client.Get(ctx, w.Prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			found[string(kv.Key)] = string(kv.Value)
		}
		return nil
	})
	w.Mu.Lock()
	defer w.Mu.Unlock()
	lost := 0
	for key, value := range w.Acked {
		if found[key] != value {
			lost++
			if lost <= 5 {
				w.t.Errorf("acknowledged write lost: %s", key)
			}
		}
	}
	if lost > 0 {
		w.t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.Acked))
	}
	w.t.Logf("writer: %d acknowledged, %d failed, the longest time without was %s", len(w.Acked), w.failed, w.Longest.Round(time.Millisecond))
}
