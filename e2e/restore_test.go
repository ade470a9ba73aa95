package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/cli"
)

// restoreWithin bounds a restore, which takes some seconds on an idle machine.
const restoreWithin = 2 * time.Minute

func (c *testCluster) openStore() blob.Store {
	c.t.Helper()
	store, err := open.Open(c.t.Context(), c.storeURL(), open.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	return store
}

// restore runs etcdadm restore and waits for its end.
func (c *testCluster) restore(words ...string) result {
	c.t.Helper()
	return c.etcdadm(append([]string{"restore", "--store", c.storeURL(), "--yes", "--wait", "100s"}, words...)...)
}

// restoreByCtl queues a restore as users of the predecessor do.
func (c *testCluster) restoreByCtl(backup string) (command string) {
	c.t.Helper()
	r := c.ctl("--backup-store="+c.storeURL(), "restore-backup", backup)
	_, rest, ok := strings.Cut(r.stdout, "added restore-backup command: ")
	if r.code != cli.ExitOK || !ok {
		c.t.Fatalf("%s", r)
	}
	command, _, _ = strings.Cut(rest, "\n")
	return command
}

// intent reads the created marker.
func (c *testCluster) intent() *cluster.Intent {
	c.t.Helper()
	in, _, _, err := c.folder().ReadIntent(c.t.Context())
	if err != nil || in == nil {
		c.t.Fatalf("read the intent: %v (%v)", in, err)
	}
	return in
}

// generation waits until a generation serves without quarantine on the hosts
// as voters.
func (c *testCluster) generation(n uint64, hosts ...int) {
	c.t.Helper()
	eventually(c.t, restoreWithin, fmt.Sprintf("generation %d out of quarantine", n), func(context.Context) error {
		if in := c.intent(); in.Generation != n || in.State != cluster.IntentFounded || in.Quarantined {
			return fmt.Errorf("generation %d is %s, quarantined %t", in.Generation, in.State, in.Quarantined)
		}
		return nil
	})
	c.voters(restoreWithin, hosts...)
}

// asideOn are the directories that a host set aside.
func (c *testCluster) asideOn(h *host) []string {
	c.t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.dir, "data-trashcan"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A client that asks again and again sees no revision go back, whatever
// happens in between.
type poller struct {
	t    *testing.T
	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex // guards last
	last int64
}

// reaches waits until a revision was seen that is at least so high.
func (p *poller) reaches(revision int64) {
	p.t.Helper()
	eventually(p.t, soon, fmt.Sprintf("revision %d seen", revision), func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last < revision {
			return fmt.Errorf("the last one was %d", p.last)
		}
		return nil
	})
}

func (c *testCluster) poll() *poller {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := c.newClient()
	p := &poller{t: c.t, stop: cancel}
	p.done.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			callCtx, cancel := context.WithTimeout(ctx, 3*time.Second)
			got, err := client.Get(callCtx, "any")
			cancel()
			if err == nil {
				p.mu.Lock()
				if got.Header.Revision < p.last {
					c.t.Errorf("the revision went back from %d to %d", p.last, got.Header.Revision)
				}
				p.last = got.Header.Revision
				p.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	c.t.Cleanup(p.end)
	return p
}

func (p *poller) end() {
	p.stop()
	p.done.Wait()
}

// A running cluster is restored under its clients: users, roles, leases and
// keys are those of the backup, watchers learn that they must list again,
// revisions never go back, and what is written from then on stays.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3, tls: true})
	c.configure(3)
	c.start(1, 2, 3)
	c.voters(soon, 1, 2, 3)
	c.enableAuth("root", "--no-password")
	client := c.etcd()
	ctx := t.Context()
	lease := c.grant("/leased")
	c.mayRead("app", "k/")
	c.fill("k/", 500)
	before, err := client.Get(ctx, "k/000000")
	if err != nil {
		t.Fatal(err)
	}
	name := c.takeBackup()
	if _, err := client.Put(ctx, "after", "the backup"); err != nil {
		t.Fatal(err)
	}
	relist := c.watch("k/", before.Header.Revision)
	p := c.poll()
	p.reaches(before.Header.Revision)

	began := time.Now()
	if r := c.restore(name); r.code != cli.ExitOK || !strings.Contains(r.stdout, "done: generation 2 serves") {
		t.Fatalf("%s", r)
	}
	told := time.Since(began)
	c.generation(2, 1, 2, 3)
	t.Logf("restored after %s, three voters after %s", told.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	w := c.write()

	if got, err := client.Get(ctx, "after"); err != nil || got.Count != 0 {
		t.Errorf("what was written after the backup is still there: %v (%v)", got, err)
	}
	if n := c.countKeys("k/"); n != 500 {
		t.Errorf("there are %d keys, want 500", n)
	}
	select {
	case err := <-relist:
		if err != nil {
			t.Errorf("the watch ends with %v, want that it is compacted", err)
		}
	case <-time.After(soon):
		t.Error("the watch at an old revision is not told to list again")
	}
	c.kept(lease, "/leased")
	c.keptUser("app", "k/")
	for _, h := range c.hosts {
		if len(c.asideOn(h)) == 0 {
			t.Errorf("host %d set nothing aside", h.n)
		}
	}
	p.reaches(before.Header.Revision + 1_000_000_000)
	p.end()
	reasons := c.listBackups()
	if !slices.ContainsFunc(reasons, func(b listed) bool { return b.Reason == "before-restore" }) {
		t.Errorf("no backup was taken before the restore: %+v", reasons)
	}
	c.seesTheCluster(t)
	w.check()
}

// grant gives a key to a lease.
func (c *testCluster) grant(key string) clientv3.LeaseID {
	c.t.Helper()
	granted, err := c.etcd().Grant(c.t.Context(), 3600)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.etcd().Put(c.t.Context(), key, "leased", clientv3.WithLease(granted.ID)); err != nil {
		c.t.Fatal(err)
	}
	return granted.ID
}

// kept looks for a lease and its key, and whether it can be kept alive.
func (c *testCluster) kept(id clientv3.LeaseID, key string) {
	c.t.Helper()
	left, err := c.etcd().TimeToLive(c.t.Context(), id, clientv3.WithAttachedKeys())
	if err != nil || left.TTL <= 0 || left.GrantedTTL != 3600 || len(left.Keys) != 1 || string(left.Keys[0]) != key {
		c.t.Errorf("the lease is %+v (%v)", left, err)
	}
	if _, err := c.etcd().KeepAliveOnce(c.t.Context(), id); err != nil {
		c.t.Errorf("the lease cannot be kept alive: %v", err)
	}
}

// mayRead makes a user with a role that reads below a prefix.
func (c *testCluster) mayRead(user, prefix string) {
	c.t.Helper()
	for _, words := range []string{
		"role add " + user, "role grant-permission " + user + " read --prefix=true " + prefix,
		"user add " + user + ":" + rootPassword, "user grant-role " + user + " " + user,
	} {
		if r := c.etcdctl(c.host(1), c.options.version, strings.Fields(words)...); r.code != 0 {
			c.t.Fatal(r)
		}
	}
}

// keptUser is that the user may do what it could, and nothing else.
func (c *testCluster) keptUser(user, prefix string) {
	c.t.Helper()
	as := func(words string) result {
		return c.etcdctl(c.host(2), c.options.version, append([]string{"--user=" + user + ":" + rootPassword}, strings.Fields(words)...)...)
	}
	if r := as("get --prefix " + prefix + " --count-only -w fields"); r.code != 0 {
		c.t.Errorf("user %s cannot read any more: %s", user, r)
	}
	if r := as("put " + prefix + "x y"); r.code == 0 {
		c.t.Errorf("user %s can write: %s", user, r)
	}
	if r := as("get /leased"); r.code == 0 {
		c.t.Errorf("user %s can read everything: %s", user, r)
	}
}

// watch follows a prefix from a revision, again and again as clients do whom a
// learner sends away, and tells nothing when it ends as one that was compacted.
func (c *testCluster) watch(prefix string, from int64) <-chan error {
	c.t.Helper()
	client := c.newClient()
	ended, created := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		defer client.Close()
		for c.t.Context().Err() == nil {
			for r := range client.Watch(c.t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1), clientv3.WithCreatedNotify()) {
				if r.Created {
					select {
					case created <- struct{}{}:
					default:
					}
				}
				if r.CompactRevision > 0 {
					ended <- nil
					return
				}
				if r.Canceled && !strings.Contains(r.Err().Error(), "not supported for learner") {
					ended <- r.Err()
					return
				}
			}
		}
	}()
	select {
	case <-created:
	case <-time.After(soon):
		c.t.Fatal("the watch does not begin")
	}
	return ended
}
