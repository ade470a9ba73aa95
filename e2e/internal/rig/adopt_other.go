package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/internal/testetcd"
)

// OneAuthority has members and clients trust the same one, as kubeadm does.
func (c *Cluster) OneAuthority() {
	c.T.Helper()
	for _, suffix := range []string{".crt", ".key"} {
		if !c.Options.TLS {
			return
		}
		content, err := os.ReadFile(filepath.Join(c.PKIDir(), "etcd-clients-ca"+suffix))
		if err != nil {
			c.T.Fatal(err)
		}
		Put(c.T, filepath.Join(c.PKIDir(), "etcd-peers-ca"+suffix), content, 0o600)
	}
}

// FormByHand is formTheirs with nothing of etcd-manager: no store, and the data
// where a person had it.
func (c *Cluster) FormByHand(hosts ...int) *Theirs {
	c.T.Helper()
	x := c.FormTheirs(hosts...)
	x.Kill(hosts...)
	x.byHand = true
	for _, n := range hosts {
		dir := c.Host(n).Dir
		if err := os.Rename(filepath.Join(dir, "data", x.token), x.handDir(n)); err != nil {
			c.T.Fatal(err)
		}
		if c.Host(n).Secure() {
			x.certsByHand(n)
		}
		if err := os.RemoveAll(dir); err != nil {
			c.T.Fatal(err)
		}
	}
	if err := os.RemoveAll(c.Store); err != nil {
		c.T.Fatal(err)
	}
	x.Start("existing", hosts...)
	return x
}

func (x *Theirs) handDir(n int) string { return filepath.Join(x.c.Dir, fmt.Sprintf("hand%d", n)) }

// certsByHand are the files as kubeadm names them. Its one authority is that for
// peers here, and for clients, too.
func (x *Theirs) certsByHand(n int) {
	x.c.T.Helper()
	dir := filepath.Join(x.c.Dir, fmt.Sprintf("certs%d", n))
	for from, to := range map[string]string{
		filepath.Join(x.pki(n, "peers"), "me.crt"): "peer.crt", filepath.Join(x.pki(n, "peers"), "me.key"): "peer.key",
		filepath.Join(x.pki(n, "clients"), "server.crt"): "server.crt", filepath.Join(x.pki(n, "clients"), "server.key"): "server.key",
		filepath.Join(x.c.PKIDir(), "etcd-clients-ca.crt"): "ca.crt", filepath.Join(x.c.PKIDir(), "etcd-clients-ca.key"): "ca.key",
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			x.c.T.Fatal(err)
		}
		Put(x.c.T, filepath.Join(dir, to), content, 0o600)
	}
}

// AdoptByHand takes one host over as a person would.
func (c *Cluster) AdoptByHand(x *Theirs, n int) {
	c.T.Helper()
	var all []string
	for _, h := range c.Hosts {
		all = append(all, h.ClientURL())
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.T.Fatal(err)
	}
	args := []string{"adopt", "--endpoints=" + strings.Join(all, ","), "--store=" + c.StoreURL(), "--cluster-name=" + c.Name,
		"--etcd-data-dir=" + x.handDir(n), "--data-dir=" + c.Host(n).Dir, "--release-dir=" + cache}
	if c.Options.TLS {
		c.ClientTLS()
		dir := filepath.Join(c.Dir, "client")
		args = append(args, "--cacert="+filepath.Join(dir, "ca.crt"), "--cert="+filepath.Join(dir, "etcdadm.crt"), "--key="+filepath.Join(dir, "etcdadm.key"),
			"--certs-dir="+filepath.Join(c.Dir, fmt.Sprintf("certs%d", n)), "--pki-dir="+c.PKIDir())
	}
	args = append(args, c.userFlags()...)
	if n == 1 {
		if r := c.Etcdadm(args...); !strings.Contains(r.Stdout, "To be done:") || Exists(c.Host(1).Dir) || Exists(c.Store) {
			c.T.Errorf("the dry run: %s", r)
		}
	}
	if r := c.Etcdadm(append(args, "--yes")...); r.Code != 0 || !strings.Contains(r.Stdout, "run this again") {
		c.T.Fatalf("%s", r)
	}
	x.Kill(n)
	if r := c.Etcdadm(append(args, "--yes")...); r.Code != 0 || !strings.Contains(r.Stdout, "etcd-manager --cluster-name") {
		c.T.Fatalf("%s", r)
	}
	c.Start(n)
	c.Host(n).Serves(Soon)
}

// StaysDown checks that what ran a member before cannot start an empty one in its place.
func (x *Theirs) StaysDown(n int) {
	x.c.T.Helper()
	x.c.Host(n).Interrupt()
	x.launch(n, "new")
	e := x.running[n]
	Eventually(x.c.T, Soon, "the former etcd ends at its start", func(context.Context) error {
		select {
		case <-e.done:
			return nil
		default:
			return fmt.Errorf("it runs (etcd %s)", testetcd.V36)
		}
	})
	delete(x.running, n)
	x.c.Host(n).Start()
	x.c.Host(n).Serves(Soon)
}
