package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// RestoreWithin bounds a restore, which takes some seconds on an idle machine.
const RestoreWithin = 2 * time.Minute

func (c *Cluster) OpenStore() blob.Store {
	c.T.Helper()
	store, err := open.Open(c.T.Context(), c.StoreURL(), open.Options{})
	if err != nil {
		c.T.Fatal(err)
	}
	return store
}

// Restore runs etcdadm restore and waits for its end.
func (c *Cluster) Restore(words ...string) Result {
	c.T.Helper()
	return c.Etcdadm(append([]string{"restore", "--store", c.StoreURL(), "--yes", "--wait", "100s"}, words...)...)
}

// RestoreByCtl queues a restore as users of the predecessor do.
func (c *Cluster) RestoreByCtl(backup string) (command string) {
	c.T.Helper()
	r := c.Ctl("--backup-store="+c.StoreURL(), "restore-backup", backup)
	_, rest, ok := strings.Cut(r.Stdout, "added restore-backup command: ")
	if r.Code != cli.ExitOK || !ok {
		c.T.Fatalf("%s", r)
	}
	command, _, _ = strings.Cut(rest, "\n")
	return command
}

// Intent reads the created marker.
func (c *Cluster) Intent() *cluster.Intent {
	c.T.Helper()
	in, _, _, err := c.Folder().ReadIntent(c.T.Context())
	if err != nil || in == nil {
		c.T.Fatalf("read the intent: %v (%v)", in, err)
	}
	return in
}

// Generation waits until a generation serves without quarantine on the hosts
// as voters.
func (c *Cluster) Generation(n uint64, hosts ...int) {
	c.T.Helper()
	Eventually(c.T, RestoreWithin, fmt.Sprintf("generation %d out of quarantine", n), func(context.Context) error {
		if in := c.Intent(); in.Generation != n || in.State != cluster.IntentFounded || in.Quarantined {
			return fmt.Errorf("generation %d is %s, quarantined %t", in.Generation, in.State, in.Quarantined)
		}
		return nil
	})
	c.Voters(RestoreWithin, hosts...)
}

// AsideOn are the directories that a host set aside.
func (c *Cluster) AsideOn(h *Host) []string {
	c.T.Helper()
	entries, err := os.ReadDir(filepath.Join(h.Dir, "data-trashcan"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.T.Fatal(err)
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

// Reaches waits until a revision was seen that is at least so high.
func (p *poller) Reaches(revision int64) {
	p.t.Helper()
	Eventually(p.t, Soon, fmt.Sprintf("revision %d seen", revision), func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last < revision {
			return fmt.Errorf("the last one was %d", p.last)
		}
		return nil
	})
}

func (c *Cluster) Poll() *poller {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := c.NewClient()
	p := &poller{t: c.T, stop: cancel}
	p.done.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			callCtx, cancel := context.WithTimeout(ctx, 3*time.Second)
			got, err := client.Get(callCtx, "any")
			cancel()
			if err == nil {
				p.mu.Lock()
				if got.Header.Revision < p.last {
					c.T.Errorf("the revision went back from %d to %d", p.last, got.Header.Revision)
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
	c.T.Cleanup(p.End)
	return p
}

func (p *poller) End() {
	p.stop()
	p.done.Wait()
}

// Grant gives a key to a lease.
func (c *Cluster) Grant(key string) clientv3.LeaseID {
	c.T.Helper()
	granted, err := c.Etcd().Grant(c.T.Context(), 3600)
	if err != nil {
		c.T.Fatal(err)
	}
	if _, err := c.Etcd().Put(c.T.Context(), key, "leased", clientv3.WithLease(granted.ID)); err != nil {
		c.T.Fatal(err)
	}
	return granted.ID
}

// Kept looks for a lease and its key, and whether it can be kept alive.
func (c *Cluster) Kept(id clientv3.LeaseID, key string) {
	c.T.Helper()
	left, err := c.Etcd().TimeToLive(c.T.Context(), id, clientv3.WithAttachedKeys())
	if err != nil || left.TTL <= 0 || left.GrantedTTL != 3600 || len(left.Keys) != 1 || string(left.Keys[0]) != key {
		c.T.Errorf("the lease is %+v (%v)", left, err)
	}
	if _, err := c.Etcd().KeepAliveOnce(c.T.Context(), id); err != nil {
		c.T.Errorf("the lease cannot be kept alive: %v", err)
	}
}

// MayRead makes a user with a role that reads below a prefix.
func (c *Cluster) MayRead(user, prefix string) {
	c.T.Helper()
	for _, words := range []string{
		"role add " + user, "role grant-permission " + user + " read --prefix=true " + prefix,
		"user add " + user + ":" + RootPassword, "user grant-role " + user + " " + user,
	} {
		if r := c.Etcdctl(c.Host(1), c.Options.Version, strings.Fields(words)...); r.Code != 0 {
			c.T.Fatal(r)
		}
	}
}

// KeptUser is that the user may do what it could, and nothing else.
func (c *Cluster) KeptUser(user, prefix string) {
	c.T.Helper()
	as := func(words string) Result {
		return c.Etcdctl(c.Host(2), c.Options.Version, append([]string{"--user=" + user + ":" + RootPassword}, strings.Fields(words)...)...)
	}
	if r := as("get --prefix " + prefix + " --count-only -w fields"); r.Code != 0 {
		c.T.Errorf("user %s cannot read any more: %s", user, r)
	}
	if r := as("put " + prefix + "x y"); r.Code == 0 {
		c.T.Errorf("user %s can write: %s", user, r)
	}
	if r := as("get /leased"); r.Code == 0 {
		c.T.Errorf("user %s can read everything: %s", user, r)
	}
}

// Watch follows a prefix from a revision, again and again as clients do whom a
// learner sends away, and tells nothing when it ends as one that was compacted.
func (c *Cluster) Watch(prefix string, from int64) <-chan error {
	c.T.Helper()
	client := c.NewClient()
	ended, created := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		defer client.Close()
		for c.T.Context().Err() == nil {
			for r := range client.Watch(c.T.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1), clientv3.WithCreatedNotify()) {
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
	case <-time.After(Soon):
		c.T.Fatal("the watch does not begin")
	}
	return ended
}
