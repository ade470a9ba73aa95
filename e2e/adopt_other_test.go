package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// A cluster that was started by hand, each member in a directory of its own, goes
// over host by host with `etcdadm adopt`, while a client writes.
func TestAdoptOther(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]options{"plain": {hosts: 3}, "tls": {hosts: 3, tls: true}, "password": {hosts: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, o)
			c.oneAuthority()
			x := c.formByHand(1, 2, 3)
			id, members := x.memberIDs()
			if name == "password" {
				c.authByHand()
			}
			w := c.write()
			for n := 1; n <= 3; n++ {
				c.adoptByHand(x, n)
				w.waitFor(10)
			}
			c.generation(1, 1, 2, 3)
			if gotID, got := x.memberIDs(); gotID != id || !maps.Equal(got, members) {
				t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
			}
			x.staysDown(1)
			w.check()
		})
	}
}

// oneAuthority has members and clients trust the same one, as kubeadm does.
func (c *testCluster) oneAuthority() {
	c.t.Helper()
	for _, suffix := range []string{".crt", ".key"} {
		if !c.options.tls {
			return
		}
		content, err := os.ReadFile(filepath.Join(c.pkiDir(), "etcd-clients-ca"+suffix))
		if err != nil {
			c.t.Fatal(err)
		}
		put(c.t, filepath.Join(c.pkiDir(), "etcd-peers-ca"+suffix), content, 0o600)
	}
}

// formByHand is formTheirs with nothing of etcd-manager: no store, and the data
// where a person had it.
func (c *testCluster) formByHand(hosts ...int) *theirs {
	c.t.Helper()
	x := c.formTheirs(hosts...)
	x.kill(hosts...)
	x.byHand = true
	for _, n := range hosts {
		dir := c.host(n).dir
		if err := os.Rename(filepath.Join(dir, "data", x.token), x.handDir(n)); err != nil {
			c.t.Fatal(err)
		}
		if c.options.tls {
			x.certsByHand(n)
		}
		if err := os.RemoveAll(dir); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := os.RemoveAll(c.store); err != nil {
		c.t.Fatal(err)
	}
	x.start("existing", hosts...)
	return x
}

func (x *theirs) handDir(n int) string { return filepath.Join(x.c.dir, fmt.Sprintf("hand%d", n)) }

// certsByHand are the files as kubeadm names them. Its one authority is that for
// peers here, and for clients, too.
func (x *theirs) certsByHand(n int) {
	x.c.t.Helper()
	dir := filepath.Join(x.c.dir, fmt.Sprintf("certs%d", n))
	for from, to := range map[string]string{
		filepath.Join(x.pki(n, "peers"), "me.crt"): "peer.crt", filepath.Join(x.pki(n, "peers"), "me.key"): "peer.key",
		filepath.Join(x.pki(n, "clients"), "server.crt"): "server.crt", filepath.Join(x.pki(n, "clients"), "server.key"): "server.key",
		filepath.Join(x.c.pkiDir(), "etcd-clients-ca.crt"): "ca.crt", filepath.Join(x.c.pkiDir(), "etcd-clients-ca.key"): "ca.key",
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			x.c.t.Fatal(err)
		}
		put(x.c.t, filepath.Join(dir, to), content, 0o600)
	}
}

// adoptByHand takes one host over as a person would.
func (c *testCluster) adoptByHand(x *theirs, n int) {
	c.t.Helper()
	var all []string
	for _, h := range c.hosts {
		all = append(all, h.clientURL())
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.t.Fatal(err)
	}
	args := []string{"adopt", "--endpoints=" + strings.Join(all, ","), "--store=" + c.storeURL(), "--cluster-name=" + c.name,
		"--etcd-data-dir=" + x.handDir(n), "--data-dir=" + c.host(n).dir, "--release-dir=" + cache}
	if c.options.tls {
		c.clientTLS()
		dir := filepath.Join(c.dir, "client")
		args = append(args, "--cacert="+filepath.Join(dir, "ca.crt"), "--cert="+filepath.Join(dir, "etcdadm.crt"), "--key="+filepath.Join(dir, "etcdadm.key"),
			"--certs-dir="+filepath.Join(c.dir, fmt.Sprintf("certs%d", n)), "--pki-dir="+c.pkiDir())
	}
	args = append(args, c.userFlags()...)
	if n == 1 {
		if r := c.etcdadm(args...); !strings.Contains(r.stdout, "To be done:") || exists(c.host(1).dir) || exists(c.store) {
			c.t.Errorf("the dry run: %s", r)
		}
	}
	if r := c.etcdadm(append(args, "--yes")...); r.code != 0 || !strings.Contains(r.stdout, "run this again") {
		c.t.Fatalf("%s", r)
	}
	x.kill(n)
	if r := c.etcdadm(append(args, "--yes")...); r.code != 0 || !strings.Contains(r.stdout, "etcd-manager --cluster-name") {
		c.t.Fatalf("%s", r)
	}
	c.start(n)
	c.host(n).serves(soon)
}

// staysDown: what ran a member before cannot start an empty one in its place.
func (x *theirs) staysDown(n int) {
	x.c.t.Helper()
	x.c.host(n).interrupt()
	x.launch(n, "new")
	e := x.running[n]
	eventually(x.c.t, soon, "the former etcd ends at its start", func(context.Context) error {
		select {
		case <-e.done:
			return nil
		default:
			return fmt.Errorf("it runs (etcd %s)", testetcd.V36)
		}
	})
	delete(x.running, n)
	x.c.host(n).start()
	x.c.host(n).serves(soon)
}
