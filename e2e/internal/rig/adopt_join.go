package rig

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// KilledAfter runs the command on a host, and kills it after some time.
func (c *Cluster) KilledAfter(d time.Duration, n int, more ...string) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), d)
	defer cancel()
	_ = exec.CommandContext(ctx, filepath.Join(Programs, "etcdadm"), c.joinArgs(n, append(more, "--yes")...)...).Run() // it is killed, and may be through before
}

// joinArgs is the command for a host of ours.
func (c *Cluster) joinArgs(n int, more ...string) []string {
	c.T.Helper()
	h := c.Host(n)
	var theirs []string
	for k := range len(c.Hosts) / 2 {
		theirs = append(theirs, c.Host(k+1).ClientURL())
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.T.Fatal(err)
	}
	url := func(port int) string { return h.Scheme() + "://" + c.Block.At(h.Place, port) }
	args := []string{
		"adopt", "--join", "--endpoints=" + strings.Join(theirs, ","), "--store=" + c.StoreURL(), "--cluster-name=" + c.Name, "--data-dir=" + h.Dir,
		"--peer-urls=" + url(PortPeer), "--client-urls=" + url(PortClient), "--quarantine-client-urls=" + url(portQuarantine), "--release-dir=" + cache,
	}
	if h.Secure() {
		c.ClientTLS()
		dir := filepath.Join(c.Dir, "client")
		args = append(args, "--pki-dir="+c.PKIDir(), "--cacert="+filepath.Join(dir, "ca.crt"), "--cert="+filepath.Join(dir, "etcdadm.crt"), "--key="+filepath.Join(dir, "etcdadm.key"))
	}
	return lastWins(slices.Concat(args, c.userFlags(), more))
}

// AuthByHand turns authentication on, in a cluster that has no daemon yet: the user root
// is who everybody is from then on.
func (c *Cluster) AuthByHand() {
	c.T.Helper()
	client := c.NewClient(1)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.T.Context(), Soon)
	defer cancel()
	_, err := client.UserAdd(ctx, "root", RootPassword)
	if err == nil {
		_, err = client.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = client.AuthEnable(ctx)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	if c.client != nil { // it is nobody
		c.client.Close()
		c.client = nil
	}
	c.Password = RootPassword
	file := filepath.Join(c.Dir, "password")
	Put(c.T, file, []byte(RootPassword+"\n"), 0o600)
	for _, h := range c.Hosts {
		h.Flags = append(h.Flags, "--etcd-user=root", "--etcd-password-file="+file)
	}
}

// userFlags say to `etcdadm adopt` who everybody is.
func (c *Cluster) userFlags() []string {
	if c.Password == "" {
		return nil
	}
	return []string{"--user=root", "--password-file=" + filepath.Join(c.Dir, "password")}
}

func (c *Cluster) Join(n int, more ...string) Result {
	c.T.Helper()
	return c.Etcdadm(c.joinArgs(n, more...)...)
}

// JoinWith joins a host as a person would: the command ends while the daemon is not
// there, and goes on once it is.
func (c *Cluster) JoinWith(n int, more ...string) {
	c.T.Helper()
	// etcd takes a member only once those that are there have heard of each other for
	// five seconds.
	Eventually(c.T, Soon, fmt.Sprintf("host %d is told to start its daemon", n), func(context.Context) error {
		if r := c.Join(n, append(more, "--yes", "--wait=1s")...); r.Code == 0 || !strings.Contains(r.Stdout, "etcd-manager --cluster-name") || !strings.Contains(r.Stderr, "run this again") {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	c.Start(n)
	r := c.Join(n, append(more, "--yes", "--wait=90s")...)
	if r.Code != 0 || !strings.Contains(r.Stdout, "Done") {
		c.T.Fatalf("%s", r)
	}
}

// WriteFollowing is write with a client that follows the member list.
func (c *Cluster) WriteFollowing() *writer {
	w := c.Write()
	var all []string
	for _, h := range c.Hosts {
		all = append(all, h.ClientURL())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.T.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for {
			try, end := context.WithTimeout(ctx, 2*time.Second)
			if err := w.client.Sync(try); err != nil && ctx.Err() == nil {
				// The only member that it knew may have been removed before it heard of the
				// next one: a client of a cluster of one has to be told where it goes.
				w.client.SetEndpoints(all...)
			}
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

// OnlyOurs checks that the cluster is the same, its members are on these hosts, and all of them
// have the same data.
func (c *Cluster) OnlyOurs(id uint64, hosts ...int) {
	c.T.Helper()
	client := c.NewClient(hosts...)
	defer client.Close()
	Eventually(c.T, Soon, "a list of our members only, with equal data", func(ctx context.Context) error {
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
func (c *Cluster) equalData(ctx context.Context, client *clientv3.Client, hosts ...int) error {
	got, err := client.Get(ctx, "none")
	if err != nil {
		return err
	}
	var first *clientv3.HashKVResponse
	for _, n := range hosts {
		hash, err := client.HashKV(ctx, c.Host(n).ClientURL(), got.Header.Revision)
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
