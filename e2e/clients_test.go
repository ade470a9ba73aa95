package e2e

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

	"etcdadm.io/internal/cli"
)

// revisions is what all clients of a test have seen of keys that are written one at
// a time, by revision. A revision is one write for ever: a client that saw one
// which a restore dropped must never see another in its place.
type revisions struct {
	t    *testing.T
	mu   sync.Mutex // guards seen
	seen map[int64]string
}

func (h *revisions) saw(revision int64, key, value string) {
	is := key + " is " + value
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, known := h.seen[revision]; known && was != is {
		h.t.Errorf("revision %d was %q, and is %q", revision, was, is)
	}
	h.seen[revision] = is
}

// mirror keeps a copy of a prefix as Kubernetes' API servers do: it lists, and
// watches from there on, until it is told that it has to list again.
type mirror struct {
	client  *clientv3.Client
	prefix  string
	history *revisions

	lists     atomic.Int64
	compacted atomic.Int64 // watches that ended so

	mu   sync.Mutex // guards what follows
	last int64      // the highest revision seen
	keys map[string]string
}

func (m *mirror) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.list(ctx); err == nil {
			m.watch(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// reaches notes a revision, which is never a lower one than before.
func (m *mirror) reaches(revision int64, how string) {
	if revision < m.last {
		m.history.t.Errorf("%s goes back from revision %d to %d", how, m.last, revision)
	}
	m.last = max(m.last, revision)
}

func (m *mirror) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	got, err := m.client.Get(ctx, m.prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	m.lists.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reaches(got.Header.Revision, "a list")
	m.keys = map[string]string{}
	for _, kv := range got.Kvs {
		m.history.saw(kv.ModRevision, string(kv.Key), string(kv.Value))
		m.keys[string(kv.Key)] = string(kv.Value)
	}
	return nil
}

// watch returns when the watch has ended, as it does when a member becomes one of
// a new generation.
func (m *mirror) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range m.client.Watch(ctx, m.prefix, clientv3.WithPrefix(), clientv3.WithRev(m.seen()+1)) {
		if r.CompactRevision > 0 {
			m.compacted.Add(1)
		}
		if r.Err() != nil {
			return
		}
		m.apply(r)
	}
}

func (m *mirror) apply(r clientv3.WatchResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range r.Events {
		m.reaches(e.Kv.ModRevision, "a watch")
		if key := string(e.Kv.Key); e.Type == mvccpb.DELETE {
			m.history.saw(e.Kv.ModRevision, key, "deleted")
			delete(m.keys, key)
		} else {
			m.history.saw(e.Kv.ModRevision, key, string(e.Kv.Value))
			m.keys[key] = string(e.Kv.Value)
		}
	}
}

func (m *mirror) seen() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// is compares the copy with what is there.
func (m *mirror) is(keys map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.keys, keys) {
		return fmt.Errorf("the copy at revision %d has %d keys, and there are %d, or others", m.last, len(m.keys), len(keys))
	}
	return nil
}

// during runs a function until the end of the test, or until the returned one is
// called.
func (c *testCluster) during(run func(ctx context.Context, client *clientv3.Client)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client := c.newClient()
	var done sync.WaitGroup
	done.Go(func() { run(ctx, client) })
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
		client.Close()
	})
	c.t.Cleanup(stop)
	return stop
}

// rewrites writes a few keys again and again, each time with another value.
func rewrites(h *revisions, prefix string) func(context.Context, *clientv3.Client) {
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
	id    clientv3.LeaseID
	count atomic.Int64
	ended chan struct{} // closed when the client gives up
}

// keepAlive grants a lease to a key, and keeps it alive until it is stopped.
func (c *testCluster) keepAlive(key string, ttl int64) (b *beats, stop func()) {
	c.t.Helper()
	granted, err := c.etcd().Grant(c.t.Context(), ttl)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.etcd().Put(c.t.Context(), key, "leased", clientv3.WithLease(granted.ID)); err != nil {
		c.t.Fatal(err)
	}
	b = &beats{id: granted.ID, ended: make(chan struct{})}
	stop = c.during(func(ctx context.Context, client *clientv3.Client) {
		defer close(b.ended)
		answers, err := client.KeepAlive(ctx, b.id)
		if err != nil {
			return
		}
		for range answers {
			b.count.Add(1)
		}
	})
	b.more(c.t, 1)
	return b, stop
}

// more waits for more answers.
func (b *beats) more(t *testing.T, n int64) {
	t.Helper()
	from := b.count.Load()
	eventually(t, soon, fmt.Sprintf("%d more answers to the keep-alives of lease %x", n, b.id), func(context.Context) error {
		select {
		case <-b.ended:
			return errors.New("the client has given up")
		default:
		}
		if now := b.count.Load(); now < from+n {
			return fmt.Errorf("%d came", now-from)
		}
		return nil
	})
}

// Clients hold watches and leases while the cluster is restored under them. The
// leases of the backup live on by the stream that was open, and end with it; the
// ones of after it are told to be gone. Watches end with an error; no revision
// goes back, none is given a second time to another value, and a copy that is kept by
// watches is the same as what is there.
func TestClientsAcrossARestore(t *testing.T) {
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	const ttl = 20
	c := formed(t, 3, options{})
	h := &revisions{t: t, seen: map[int64]string{}}
	mirrors := make([]*mirror, 3)
	for i := range mirrors {
		mirrors[i] = &mirror{prefix: "m/", history: h}
		c.during(func(ctx context.Context, client *clientv3.Client) {
			mirrors[i].client = client
			mirrors[i].run(ctx)
		})
	}
	stopWriting := c.during(rewrites(h, "m/"))
	kept, stop := c.keepAlive("/kept", ttl)
	p := c.poll()
	name := c.takeBackup()
	dropped, _ := c.keepAlive("/dropped", ttl)
	c.passes(2 * time.Second) // what is written now is dropped
	highest := mirrors[0].seen()

	if r := c.restore(name); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.generation(2, 1, 2, 3)
	p.reaches(highest + 1_000_000_000)
	kept.more(t, 2)
	select {
	case <-dropped.ended:
	case <-time.After(soon):
		t.Error("a lease that was granted after the backup is kept alive")
	}
	c.passes(2 * time.Second)
	stopWriting()
	if _, err := c.etcd().Put(t.Context(), "m/last", "one"); err != nil {
		t.Fatal(err)
	}
	for i, m := range mirrors {
		eventually(t, soon, fmt.Sprintf("copy %d is what is there", i), func(ctx context.Context) error {
			got, err := c.etcd().Get(ctx, "m/", clientv3.WithPrefix())
			if err != nil {
				return err
			}
			keys := map[string]string{}
			for _, kv := range got.Kvs {
				keys[string(kv.Key)] = string(kv.Value)
			}
			return m.is(keys)
		})
		if m.seen() < highest+1_000_000_000 {
			t.Errorf("copy %d is at revision %d, and the restore began above %d", i, m.seen(), highest)
		}
		// By a compaction, or by a member that is a learner yet and turns it away.
		if m.lists.Load() < 2 {
			t.Errorf("copy %d was never told to list again", i)
		}
		t.Logf("copy %d was listed %d times, and its watches ended by a compaction %d times", i, m.lists.Load(), m.compacted.Load())
	}
	h.mu.Lock()
	t.Logf("%d writes were seen", len(h.seen))
	h.mu.Unlock()

	left, err := c.etcd().TimeToLive(t.Context(), kept.id, clientv3.WithAttachedKeys())
	if err != nil || left.GrantedTTL != ttl || left.TTL > ttl || len(left.Keys) != 1 {
		t.Errorf("the lease is %+v (%v)", left, err)
	}
	stop()
	eventually(t, soon, "the key ends with its lease", func(ctx context.Context) error {
		got, err := c.etcd().Get(ctx, "/kept")
		if err == nil && got.Count > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}
