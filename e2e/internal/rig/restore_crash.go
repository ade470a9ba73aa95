package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Founder is the host that the newest intent begins with; any, if that one has
// several.
func (c *Cluster) Founder(random *rand.Rand) *Host {
	c.T.Helper()
	founders := c.Intent().Founders
	for _, h := range c.Hosts {
		if len(founders) == 1 && h.ID() == founders[0].Host {
			return h
		}
	}
	return c.Hosts[random.IntN(len(c.Hosts))]
}

// InterruptedRestore takes a backup, restores it, and does harm meanwhile.
func (c *Cluster) InterruptedRestore(round int, random *rand.Rand, harm func(*Cluster, *rand.Rand)) {
	c.T.Helper()
	before := c.Intent().Generation
	inside, dropped := fmt.Sprintf("inside/%d", round), fmt.Sprintf("dropped/%d", round)
	c.Put(inside)
	name := c.TakeBackup()
	c.Put(dropped)
	command := c.RestoreByCtl(name)
	pause := time.Duration(random.IntN(4000)) * time.Millisecond
	time.Sleep(pause) // somewhere on the way
	harm(c, random)
	c.T.Logf("round %d: %s after the command; generation %d is %s then", round, pause, c.Intent().Generation, c.Intent().State)
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
	for _, h := range c.Hosts {
		if !h.Running() {
			h.Start()
		}
	}
	c.Ended(command, "done")
	in := c.Intent()
	if in.Generation <= before || in.CommandID != command {
		c.T.Fatalf("round %d: generation %d came of command %s, after generation %d; want one of command %s", round, in.Generation, in.CommandID, before, command)
	}
	c.Generation(in.Generation, 1, 2, 3)
	c.oneClusterServes()
	if c.CountKeys(inside) != 1 || c.CountKeys(dropped) != 0 {
		c.T.Errorf("round %d: %s is there %d times, %s %d times; want 1 and 0", round, inside, c.CountKeys(inside), dropped, c.CountKeys(dropped))
	}
}

func (c *Cluster) Put(key string) {
	c.T.Helper()
	Eventually(c.T, Soon, "put "+key, func(ctx context.Context) error {
		_, err := c.Etcd().Put(ctx, key, "x")
		return err
	})
}

// oneClusterServes asks every member for its cluster's ID.
func (c *Cluster) oneClusterServes() {
	c.T.Helper()
	var ids []uint64
	for _, h := range c.Hosts {
		client := c.NewClient(h.N)
		got, err := client.Get(c.T.Context(), "any", clientv3.WithSerializable())
		client.Close()
		if err != nil {
			c.T.Fatal(err)
		}
		ids = append(ids, got.Header.ClusterId)
	}
	if len(slices.Compact(ids)) != 1 {
		c.T.Errorf("the members are of the clusters %x", ids)
	}
}

// generations is a writer that knows which cluster acknowledged what: what an
// old generation took may be lost with it, what the last one took may not, and
// one that was superseded takes nothing any more.
type generations struct {
	c    *Cluster
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex          // guards what follows
	order []uint64            // clusters, as they acknowledged
	acked map[uint64][]string // keys by the cluster that took them
}

func (c *Cluster) WriteInGenerations() *generations {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &generations{c: c, stop: cancel, acked: map[uint64][]string{}}
	client := c.NewClient()
	w.done.Go(func() {
		defer client.Close()
		for n := 0; ctx.Err() == nil; n++ {
			w.Put(ctx, client, fmt.Sprintf("generations/%08d", n))
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	c.T.Cleanup(w.End)
	return w
}

func (w *generations) Put(ctx context.Context, client *clientv3.Client, key string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	got, err := client.Put(ctx, key, "x")
	if err != nil {
		return
	}
	id := got.Header.ClusterId
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.order) == 0 || !slices.Contains(w.order, id):
		w.order = append(w.order, id)
	case w.order[len(w.order)-1] != id:
		w.c.T.Errorf("cluster %x acknowledged %s after %x had taken its place", id, key, w.order[len(w.order)-1])
	}
	w.acked[id] = append(w.acked[id], key)
}

func (w *generations) End() {
	w.stop()
	w.done.Wait()
}

// last is the cluster that acknowledged last, and what it did.
func (w *generations) last() (id uint64, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) > 0 {
		id = w.order[len(w.order)-1]
	}
	return id, slices.Clone(w.acked[id])
}

// Check looks for what the generation that serves has acknowledged.
func (w *generations) Check() {
	w.c.T.Helper()
	var serves uint64
	Eventually(w.c.T, Soon, "writes acknowledged by the cluster that serves", func(ctx context.Context) error {
		got, err := w.c.Etcd().Get(ctx, "any")
		if err != nil {
			return err
		}
		serves = got.Header.ClusterId
		if id, keys := w.last(); id != serves || len(keys) < 10 {
			return fmt.Errorf("cluster %x serves, and %x took %d", serves, id, len(keys))
		}
		return nil
	})
	w.End()
	_, acked := w.last()
	found := map[string]bool{}
	Eventually(w.c.T, Soon, "reading back", func(ctx context.Context) error {
		got, err := w.c.Etcd().Get(ctx, "generations/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			found[string(kv.Key)] = true
		}
		return nil
	})
	lost := slices.DeleteFunc(slices.Clone(acked), func(key string) bool { return found[key] })
	if len(lost) > 0 {
		w.c.T.Errorf("%d of %d writes that the last generation acknowledged are lost: %v …", len(lost), len(acked), lost[:min(5, len(lost))])
	}
	w.c.T.Logf("%d generations took writes; the last one %d", len(w.order), len(acked))
}
