package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// A cluster whose members are elsewhere goes over to our hosts: they join, and its
// members are removed, while a client writes that follows the member list.
func TestAdoptByJoining(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		options options
		long    bool
	}{
		{"plain", options{hosts: 6}, false},
		{"tls", options{hosts: 6, tls: true}, true},
		{"3.5", options{hosts: 6, version: testetcd.V35}, true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if v.long && !*long {
				t.Skip("the plain one is enough for every day: -e2e.long")
			}
			c := newCluster(t, v.options)
			c.oneAuthority()
			x := c.formByHand(1, 2, 3)
			id, _ := x.memberIDs()
			w := c.writeFollowing()
			if r := c.join(4); r.code != 0 || !strings.Contains(r.stdout, "To be done:") || exists(c.host(4).dir) || exists(c.store) {
				t.Errorf("the dry run: %s", r)
			}
			for n := 4; n <= 6; n++ {
				c.joinWith(n)
				w.waitFor(10)
			}
			c.generation(1, 4, 5, 6)
			c.onlyOurs(id, 4, 5, 6)
			w.check()
			w.neverBack()
			t.Logf("%d writes acknowledged, %d attempts failed, longest time without one %s", w.count(), w.failed, w.longest.Round(time.Millisecond))
			c.host(5).crash() // from here on it is one like any other
			c.host(5).start()
			c.host(5).serves(soon)
			c.voters(soon, 4, 5, 6)
		})
	}
}

// joinArgs is the command for a host of ours.
func (c *testCluster) joinArgs(n int, more ...string) []string {
	c.t.Helper()
	h := c.host(n)
	var theirs []string
	for k := 1; k <= 3; k++ {
		theirs = append(theirs, c.host(k).clientURL())
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.t.Fatal(err)
	}
	url := func(port int) string { return h.scheme() + "://" + c.block.at(h.place, port) }
	args := []string{
		"adopt", "--join", "--endpoints=" + strings.Join(theirs, ","), "--store=" + c.storeURL(), "--cluster-name=" + c.name, "--data-dir=" + h.dir,
		"--peer-urls=" + url(portPeer), "--client-urls=" + url(portClient), "--quarantine-client-urls=" + url(portQuarantine), "--release-dir=" + cache,
	}
	if c.options.tls {
		c.clientTLS()
		dir := filepath.Join(c.dir, "client")
		args = append(args, "--pki-dir="+c.pkiDir(), "--cacert="+filepath.Join(dir, "ca.crt"), "--cert="+filepath.Join(dir, "etcdadm.crt"), "--key="+filepath.Join(dir, "etcdadm.key"))
	}
	return append(args, more...)
}

func (c *testCluster) join(n int, more ...string) result {
	c.t.Helper()
	return c.etcdadm(c.joinArgs(n, more...)...)
}

// joinWith joins a host as a person would: the command ends while the daemon is not
// there, and goes on once it is.
func (c *testCluster) joinWith(n int, more ...string) {
	c.t.Helper()
	// etcd takes a member only once those that are there have heard of each other for
	// five seconds.
	eventually(c.t, soon, fmt.Sprintf("host %d is told to start its daemon", n), func(context.Context) error {
		if r := c.join(n, append(more, "--yes", "--wait=1s")...); r.code == 0 || !strings.Contains(r.stdout, "etcd-manager --cluster-name") || !strings.Contains(r.stderr, "run this again") {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	c.start(n)
	r := c.join(n, append(more, "--yes", "--wait=90s")...)
	if r.code != 0 || !strings.Contains(r.stdout, "Done") {
		c.t.Fatalf("%s", r)
	}
	c.t.Logf("%s", r)
}

// writeFollowing is write with a client that follows the member list.
func (c *testCluster) writeFollowing() *writer {
	w := c.write()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for {
			try, end := context.WithTimeout(ctx, 2*time.Second)
			_ = w.client.Sync(try) // the next one may do
			end()
			select {
			case <-ctx.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return w
}

// onlyOurs: the cluster is the same, its members are on these hosts, and all of them
// have the same data.
func (c *testCluster) onlyOurs(id uint64, hosts ...int) {
	c.t.Helper()
	client := c.newClient(hosts...)
	defer client.Close()
	eventually(c.t, soon, "a list of our members only, with equal data", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		if list.Header.ClusterId != id || len(list.Members) != len(hosts) {
			return fmt.Errorf("cluster %x with %v, want %x with %d members", list.Header.ClusterId, list.Members, id, len(hosts))
		}
		return c.equalData(ctx, client, hosts...)
	})
}

// equalData has the members hash what they hold at one revision.
func (c *testCluster) equalData(ctx context.Context, client *clientv3.Client, hosts ...int) error {
	got, err := client.Get(ctx, "none")
	if err != nil {
		return err
	}
	var first *clientv3.HashKVResponse
	for _, n := range hosts {
		hash, err := client.HashKV(ctx, c.host(n).clientURL(), got.Header.Revision)
		if err != nil {
			return err
		}
		if first == nil {
			first = hash
		}
		if hash.Hash != first.Hash || hash.CompactRevision != first.CompactRevision {
			return fmt.Errorf("host %d hashes %x at revision %d, host %d %x", n, hash.Hash, got.Header.Revision, hosts[0], first.Hash)
		}
	}
	return nil
}
