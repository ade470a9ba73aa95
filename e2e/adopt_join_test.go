package e2e

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
)

// A cluster whose members are elsewhere goes over to our hosts: they join, and its
// members are removed, while a client writes that follows the member list.
func TestAdoptByJoining(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		options options
		members int // of theirs, and then of ours
		auth    bool
	}{
		{"one", options{hosts: 2}, 1, false},
		{"password", options{hosts: 2}, 1, true},
		{"tls", options{hosts: 6, tls: true}, 3, false},
		{"passwords", options{hosts: 6}, 3, true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if v.members > 1 && !*long {
				t.Skip("one member is enough for every day: -e2e.long")
			}
			c := newCluster(t, v.options)
			c.oneAuthority()
			x := c.formByHand(upTo(v.members)...)
			id, _ := x.memberIDs()
			if v.auth {
				c.authByHand()
			}
			w := c.writeFollowing()
			if r := c.join(v.members + 1); r.code != 0 || !strings.Contains(r.stdout, "To be done:") || exists(c.host(v.members+1).dir) || exists(c.store) {
				t.Errorf("the dry run: %s", r)
			}
			var ours []int
			for n := v.members + 1; n <= 2*v.members; n++ {
				c.joinWith(n)
				w.waitFor(10)
				ours = append(ours, n)
			}
			c.generation(1, ours...)
			c.onlyOurs(id, ours...)
			w.check()
			w.neverBack()
			c.host(ours[0]).crash() // from here on it is one like any other
			c.host(ours[0]).start()
			c.host(ours[0]).serves(soon)
			c.voters(soon, ours...)
			if r := c.join(ours[0]); r.code != 0 || !strings.Contains(r.stdout, "ours already") {
				t.Errorf("once more: %s", r)
			}
		})
	}
}

func upTo(n int) (hosts []int) {
	for i := range n {
		hosts = append(hosts, i+1)
	}
	return hosts
}

// Daemons are there before, the command is killed again and again, a member dies
// before the removals, the leading daemon while they are under way, and two people
// run the command.
func TestAdoptByJoiningDisturbed(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes most of a minute: -e2e.long")
	}
	c := newCluster(t, options{hosts: 6, version: testetcd.V35})
	x := c.formByHand(1, 2, 3)
	id, _ := x.memberIDs()
	w := c.writeFollowing()
	for n := 4; n <= 6; n++ {
		if n > 4 {
			c.start(n) // the marker keeps it from founding anything
		}
		for try := range 8 {
			c.killedAfter(time.Duration(150+100*try)*time.Millisecond, n, "--keep")
		}
		if n == 4 {
			c.start(n)
		}
		if r := c.join(n, "--yes", "--keep", "--wait=90s"); r.code != 0 || !strings.Contains(r.stdout, "Done") {
			t.Fatalf("%s", r)
		}
		w.waitFor(10)
	}
	if r := c.join(4, "--keep"); !strings.Contains(r.stdout, "cluster "+fmt.Sprintf("%x", id)+" of 6 members") {
		t.Errorf("before the removals: %s", r)
	}
	c.blocked(c.host(4), "is being taken over", "etcdadm adopt --join")
	x.kill(2)
	leads := c.leader(soon, c.host(4))
	leads.kill() // its etcd goes on
	both := make(chan result, 2)
	for _, n := range []int{5, 6} {
		go func() { both <- c.join(n, "--yes", "--wait=90s") }()
	}
	c.killedAfter(500*time.Millisecond, 4)
	eventually(t, soon, "our members only", func(ctx context.Context) error {
		list, err := c.etcd().MemberList(ctx)
		if err == nil && len(list.Members) != 3 {
			err = fmt.Errorf("%d members", len(list.Members))
		}
		return err
	})
	leads.start()
	for range 2 {
		if r := <-both; r.code != 0 || !strings.Contains(r.stdout, "Done") && !strings.Contains(r.stdout, "ours already") {
			t.Errorf("%s", r)
		}
	}
	c.generation(1, 4, 5, 6)
	c.onlyOurs(id, 4, 5, 6)
	w.check()
	w.neverBack()
}

// killedAfter runs the command on a host, and kills it after some time.
func (c *testCluster) killedAfter(d time.Duration, n int, more ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	_ = exec.CommandContext(ctx, filepath.Join(programs, "etcdadm"), c.joinArgs(n, append(more, "--yes")...)...).Run() // it is killed, and may be through before
}

// What cannot work is refused in words, before anything is changed.
func TestAdoptByJoiningRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 2, tls: true})
	c.oneAuthority()
	x := c.formByHand(1)
	_, before := x.memberIDs()
	other := filepath.Join(c.dir, "other-pki")
	if _, err := pki.Create(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	refused := func(words string, more ...string) {
		t.Helper()
		r := c.join(2, append(more, "--yes")...)
		if r.code == 0 || !strings.Contains(r.stderr, words) || exists(filepath.Join(c.host(2).dir, "etcdadm")) {
			t.Errorf("want a refusal with %q: %s", words, r)
		}
	}
	refused("as this host's member would", "--pki-dir="+other)
	refused("authority for peers is needed", "--pki-dir="+filepath.Join(c.dir, "none"))
	refused("both with TLS, or both without", "--peer-urls=http://"+c.block.at(2, portPeer), "--client-urls=http://"+c.block.at(2, portClient))
	refused("no etcd "+testetcd.V36, "--release-dir="+t.TempDir())
	refused("in place", "--peer-urls="+x.url(1, portPeer))
	learner, err := c.etcd().MemberAddAsLearner(t.Context(), []string{"https://" + c.block.at(2, portPeer+7)})
	if err != nil {
		t.Fatal(err)
	}
	refused("is a learner")
	if _, err := c.etcd().MemberRemove(t.Context(), learner.Member.ID); err != nil {
		t.Fatal(err)
	}
	if _, after := x.memberIDs(); !maps.Equal(before, after) || exists(filepath.Join(c.store, "control")) {
		t.Errorf("members %x became %x, or the store was written", before, after)
	}
}

// joinArgs is the command for a host of ours.
func (c *testCluster) joinArgs(n int, more ...string) []string {
	c.t.Helper()
	h := c.host(n)
	var theirs []string
	for k := range len(c.hosts) / 2 {
		theirs = append(theirs, c.host(k+1).clientURL())
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
	return lastWins(slices.Concat(args, c.userFlags(), more))
}

// authByHand turns authentication on, in a cluster that has no daemon yet: the user root
// is who everybody is from then on.
func (c *testCluster) authByHand() {
	c.t.Helper()
	client := c.newClient(1)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	defer cancel()
	_, err := client.UserAdd(ctx, "root", rootPassword)
	if err == nil {
		_, err = client.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = client.AuthEnable(ctx)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if c.client != nil { // it is nobody
		c.client.Close()
		c.client = nil
	}
	c.password = rootPassword
	file := filepath.Join(c.dir, "password")
	put(c.t, file, []byte(rootPassword+"\n"), 0o600)
	for _, h := range c.hosts {
		h.flags = append(h.flags, "--etcd-user=root", "--etcd-password-file="+file)
	}
}

// userFlags say to `etcdadm adopt` who everybody is.
func (c *testCluster) userFlags() []string {
	if c.password == "" {
		return nil
	}
	return []string{"--user=root", "--password-file=" + filepath.Join(c.dir, "password")}
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
}

// writeFollowing is write with a client that follows the member list.
func (c *testCluster) writeFollowing() *writer {
	w := c.write()
	var all []string
	for _, h := range c.hosts {
		all = append(all, h.clientURL())
	}
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
