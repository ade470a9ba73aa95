package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A restore is interrupted at a random moment, by the end of whatever has a
// part in it, and is finished all the same: by the next leader, by the next
// daemon, by the next start of etcd. One cluster serves at a time, and nothing
// that the new one acknowledged is lost.
func TestRestoreIsInterrupted(t *testing.T) {
	if !*long {
		t.Skip("takes a dozen restores: -e2e.long")
	}
	t.Parallel()
	const rounds = 3
	for what, harm := range interruptions() {
		seed := uint64(time.Now().UnixNano())
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			c := formed(t, 3, options{})
			w := c.writeInGenerations()
			for round := range rounds {
				c.interruptedRestore(round, random, harm)
			}
			w.check()
		})
	}
}

// interruptions are what happens in the middle of a restore. What was killed is
// started again by the caller, or by its daemon.
func interruptions() map[string]func(c *testCluster, random *rand.Rand) {
	return map[string]func(*testCluster, *rand.Rand){
		"the leading daemon is killed": func(c *testCluster, _ *rand.Rand) {
			c.leader(soon, c.host(1)).kill()
		},
		"the founder's daemon is killed": func(c *testCluster, random *rand.Rand) {
			c.founder(random).kill()
		},
		"the founder's etcd is killed": func(c *testCluster, random *rand.Rand) {
			for _, pid := range c.founder(random).etcdPIDs() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
			}
		},
		"the founder's machine crashes": func(c *testCluster, random *rand.Rand) {
			c.founder(random).crash()
		},
		"all daemons are killed": func(c *testCluster, _ *rand.Rand) {
			for _, h := range c.hosts {
				h.kill()
			}
		},
		"the power is cut": func(c *testCluster, _ *rand.Rand) {
			for _, h := range c.hosts {
				h.crash()
			}
		},
	}
}

// founder is the host that the newest intent begins with; any, if that one has
// several.
func (c *testCluster) founder(random *rand.Rand) *host {
	c.t.Helper()
	founders := c.intent().Founders
	for _, h := range c.hosts {
		if len(founders) == 1 && h.id() == founders[0].Host {
			return h
		}
	}
	return c.hosts[random.IntN(len(c.hosts))]
}

// interruptedRestore takes a backup, restores it, and does harm meanwhile.
func (c *testCluster) interruptedRestore(round int, random *rand.Rand, harm func(*testCluster, *rand.Rand)) {
	c.t.Helper()
	before := c.intent().Generation
	inside, dropped := fmt.Sprintf("inside/%d", round), fmt.Sprintf("dropped/%d", round)
	c.put(inside)
	name := c.takeBackup()
	c.put(dropped)
	command := c.restoreByCtl(name)
	pause := time.Duration(random.IntN(4000)) * time.Millisecond
	time.Sleep(pause) // somewhere on the way
	harm(c, random)
	c.t.Logf("round %d: %s after the command; generation %d is %s then", round, pause, c.intent().Generation, c.intent().State)
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
	for _, h := range c.hosts {
		if !h.running() {
			h.start()
		}
	}
	c.ended(command, "done")
	in := c.intent()
	if in.Generation <= before || in.CommandID != command {
		c.t.Fatalf("round %d: generation %d came of command %s, after generation %d; want one of command %s", round, in.Generation, in.CommandID, before, command)
	}
	c.generation(in.Generation, 1, 2, 3)
	c.oneClusterServes()
	if c.countKeys(inside) != 1 || c.countKeys(dropped) != 0 {
		c.t.Errorf("round %d: %s is there %d times, %s %d times; want 1 and 0", round, inside, c.countKeys(inside), dropped, c.countKeys(dropped))
	}
}

func (c *testCluster) put(key string) {
	c.t.Helper()
	eventually(c.t, soon, "put "+key, func(ctx context.Context) error {
		_, err := c.etcd().Put(ctx, key, "x")
		return err
	})
}

// oneClusterServes asks every member for its cluster's ID.
func (c *testCluster) oneClusterServes() {
	c.t.Helper()
	var ids []uint64
	for _, h := range c.hosts {
		client := c.newClient(h.n)
		got, err := client.Get(c.t.Context(), "any", clientv3.WithSerializable())
		client.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, got.Header.ClusterId)
	}
	if len(slices.Compact(ids)) != 1 {
		c.t.Errorf("the members are of the clusters %x", ids)
	}
}

// generations is a writer that knows which cluster acknowledged what: what an
// old generation took may be lost with it, what the last one took may not, and
// one that was superseded takes nothing any more.
type generations struct {
	c    *testCluster
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex          // guards what follows
	order []uint64            // clusters, as they acknowledged
	acked map[uint64][]string // keys by the cluster that took them
}

func (c *testCluster) writeInGenerations() *generations {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &generations{c: c, stop: cancel, acked: map[uint64][]string{}}
	client := c.newClient()
	w.done.Go(func() {
		defer client.Close()
		for n := 0; ctx.Err() == nil; n++ {
			w.put(ctx, client, fmt.Sprintf("generations/%08d", n))
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	c.t.Cleanup(w.end)
	return w
}

func (w *generations) put(ctx context.Context, client *clientv3.Client, key string) {
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
		w.c.t.Errorf("cluster %x acknowledged %s after %x had taken its place", id, key, w.order[len(w.order)-1])
	}
	w.acked[id] = append(w.acked[id], key)
}

func (w *generations) end() {
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

// check looks for what the generation that serves has acknowledged.
func (w *generations) check() {
	w.c.t.Helper()
	var serves uint64
	eventually(w.c.t, soon, "writes acknowledged by the cluster that serves", func(ctx context.Context) error {
		got, err := w.c.etcd().Get(ctx, "any")
		if err != nil {
			return err
		}
		serves = got.Header.ClusterId
		if id, keys := w.last(); id != serves || len(keys) < 10 {
			return fmt.Errorf("cluster %x serves, and %x took %d", serves, id, len(keys))
		}
		return nil
	})
	w.end()
	_, acked := w.last()
	found := map[string]bool{}
	eventually(w.c.t, soon, "reading back", func(ctx context.Context) error {
		got, err := w.c.etcd().Get(ctx, "generations/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
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
		w.c.t.Errorf("%d of %d writes that the last generation acknowledged are lost: %v …", len(lost), len(acked), lost[:min(5, len(lost))])
	}
	w.c.t.Logf("%d generations took writes; the last one %d", len(w.order), len(acked))
}
