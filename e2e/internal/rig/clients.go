package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Revisions is what all clients of a test have seen of keys that are written one at
// a time, by revision. A revision is one write for ever: a client that saw one
// which a restore dropped must never see another in its place.
type Revisions struct {
	T    *testing.T
	Mu   sync.Mutex // guards seen
	Seen map[int64]string
}

func (h *Revisions) saw(revision int64, key, value string) {
	is := key + " is " + value
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if was, known := h.Seen[revision]; known && was != is {
		h.T.Errorf("revision %d was %q, and is %q", revision, was, is)
	}
	h.Seen[revision] = is
}

// Mirror keeps a copy of a prefix as Kubernetes' API servers do: it lists, and
// watches from there on, until it is told that it has to list again.
type Mirror struct {
	Client  *clientv3.Client
	Prefix  string
	History *Revisions

	Lists     atomic.Int64
	Compacted atomic.Int64 // watches that ended so

	mu   sync.Mutex // guards what follows
	last int64      // the highest revision seen
	keys map[string]string
}

func (m *Mirror) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.list(ctx); err == nil {
			m.Watch(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Reaches notes a revision, which is never a lower one than before.
func (m *Mirror) Reaches(revision int64, how string) {
	if revision < m.last {
		m.History.T.Errorf("%s goes back from revision %d to %d", how, m.last, revision)
	}
	m.last = max(m.last, revision)
}

func (m *Mirror) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	got, err := m.Client.Get(ctx, m.Prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	m.Lists.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Reaches(got.Header.Revision, "a list")
	m.keys = map[string]string{}
	for _, kv := range got.Kvs {
		m.History.saw(kv.ModRevision, string(kv.Key), string(kv.Value))
		m.keys[string(kv.Key)] = string(kv.Value)
	}
	return nil
}

// Watch returns when the watch has ended, as it does when a member becomes one of
// a new generation.
func (m *Mirror) Watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range m.Client.Watch(ctx, m.Prefix, clientv3.WithPrefix(), clientv3.WithRev(m.Seen()+1)) {
		if r.CompactRevision > 0 {
			m.Compacted.Add(1)
		}
		if r.Err() != nil {
			return
		}
		m.apply(r)
	}
}

func (m *Mirror) apply(r clientv3.WatchResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range r.Events {
		m.Reaches(e.Kv.ModRevision, "a watch")
		if key := string(e.Kv.Key); e.Type == mvccpb.DELETE {
			m.History.saw(e.Kv.ModRevision, key, "deleted")
			delete(m.keys, key)
		} else {
			m.History.saw(e.Kv.ModRevision, key, string(e.Kv.Value))
			m.keys[key] = string(e.Kv.Value)
		}
	}
}

func (m *Mirror) Seen() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Is compares the copy with what is there.
func (m *Mirror) Is(keys map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.keys, keys) {
		return fmt.Errorf("the copy at revision %d has %d keys, and there are %d, or others", m.last, len(m.keys), len(keys))
	}
	return nil
}

// During runs a function until the end of the test, or until the returned one is
// called.
func (c *Cluster) During(run func(ctx context.Context, client *clientv3.Client)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client := c.NewClient()
	var done sync.WaitGroup
	done.Go(func() { run(ctx, client) })
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
		client.Close()
	})
	c.T.Cleanup(stop)
	return stop
}

// Rewrites writes a few keys again and again, each time with another value.
func Rewrites(h *Revisions, prefix string) func(context.Context, *clientv3.Client) {
	return func(ctx context.Context, client *clientv3.Client) {
		for n := 0; ctx.Err() == nil; n++ {
			key, value := fmt.Sprintf("%s%02d", prefix, n%40), fmt.Sprintf("%d at %d", n, time.Now().UnixNano())
			callCtx, cancel := context.WithTimeout(ctx, time.Second)
			put, err := client.Put(callCtx, key, value)
			if err == nil {
				h.saw(put.Header.Revision, key, value)
			}
			if n%7 == 6 {
				_, _ = client.Delete(callCtx, key) // whatever comes of it, the mirrors see it
			}
			cancel()
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// beats is a lease that is kept alive over one stream.
type beats struct {
	ID    clientv3.LeaseID
	count atomic.Int64
	Ended chan struct{} // closed when the client gives up
}

// KeepAlive grants a lease to a key, and keeps it alive until it is stopped.
func (c *Cluster) KeepAlive(key string, ttl int64) (b *beats, stop func()) {
	c.T.Helper()
	granted, err := c.Etcd().Grant(c.T.Context(), ttl)
	if err != nil {
		c.T.Fatal(err)
	}
	if _, err := c.Etcd().Put(c.T.Context(), key, "leased", clientv3.WithLease(granted.ID)); err != nil {
		c.T.Fatal(err)
	}
	b = &beats{ID: granted.ID, Ended: make(chan struct{})}
	stop = c.During(func(ctx context.Context, client *clientv3.Client) {
		defer close(b.Ended)
		answers, err := client.KeepAlive(ctx, b.ID)
		if err != nil {
			return
		}
		for range answers {
			b.count.Add(1)
		}
	})
	b.More(c.T, 1)
	return b, stop
}

// More waits for more answers.
func (b *beats) More(t *testing.T, n int64) {
	t.Helper()
	from := b.count.Load()
	Eventually(t, Soon, fmt.Sprintf("%d more answers to the keep-alives of lease %x", n, b.ID), func(context.Context) error {
		select {
		case <-b.Ended:
			return errors.New("the client has given up")
		default:
		}
		if now := b.count.Load(); now < from+n {
			return fmt.Errorf("%d came", now-from)
		}
		return nil
	})
}
