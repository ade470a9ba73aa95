package rig

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Outage is the longest time between two acknowledged writes.
func (w *writer) Outage() time.Duration {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Longest.Round(time.Millisecond)
}

// Holds waits until the copy that watches keep is what is there.
func (m *Mirror) Holds(c *Cluster) {
	c.T.Helper()
	if _, err := c.Etcd().Put(c.T.Context(), m.Prefix+"last", "one"); err != nil {
		c.T.Fatal(err)
	}
	Eventually(c.T, Soon, "the copy is what is there", func(ctx context.Context) error {
		got, err := c.Etcd().Get(ctx, m.Prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		keys := map[string]string{}
		for _, kv := range got.Kvs {
			keys[string(kv.Key)] = string(kv.Value)
		}
		return m.Is(keys)
	})
	c.T.Logf("the copy was listed %d times, and its watches ended by a compaction %d times", m.Lists.Load(), m.Compacted.Load())
}

// KillWhen kills the daemon whose log says that it has decided so.
func (c *Cluster) KillWhen(ctx context.Context, words string) error {
	for {
		for _, h := range c.Hosts {
			if data, err := os.ReadFile(h.Log); err == nil && strings.Contains(string(data), words) {
				h.Kill()
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
