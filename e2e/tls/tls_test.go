package tls

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// With TLS on both sides three daemons need the directory of the authorities
// and nothing else; people find in access.json what etcdctl needs, and etcdadm
// needs only the data directory. No key is readable by others, none is logged.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{TLS: true})
	w := c.Write()
	for _, h := range c.Hosts {
		for _, version := range testetcd.Versions() {
			if r := c.Etcdctl(h, version, "put", "k", version); r.Code != 0 {
				t.Fatalf("host %d: %s", h.N, r)
			}
			if r := c.Etcdctl(h, version, "get", "--print-value-only", "k"); r.Stdout != version+"\n" {
				t.Fatalf("host %d: %s", h.N, r)
			}
		}
	}
	// Without a certificate nobody is let in.
	bare := c.Run([]string{"ETCDCTL_API=3"}, testetcd.Binary(t, testetcd.V36).Etcdctl,
		"--endpoints="+c.Host(1).ClientURL(), "--cacert="+c.Access(c.Host(1)).Etcd.CA, "--command-timeout=2s", "get", "k")
	if bare.Code == 0 {
		t.Errorf("etcd answers a client without a certificate: %s", bare)
	}
	c.SeesTheCluster(t)

	before := c.Host(2).EtcdPID()
	c.Host(2).Kill()
	c.Host(2).Start()
	c.Host(3).Interrupt()
	c.Host(3).Start()
	c.Voters(rig.Soon, 1, 2, 3)
	if now := c.Host(2).EtcdPID(); now != before {
		t.Errorf("the daemon of host 2 was killed; its etcd had pid %d and has %d", before, now)
	}
	w.Check()
	c.KeepsItsKeys(t)
}

// With authentication on, TLS is enough: the daemon's own certificate says
// root, and it goes on managing.
func TestAuthWithCertificates(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true})
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	c.EnableAuth("root", "--no-password")
	w := c.Write() // as root, by certificate
	c.Start(2, 3)
	c.Configure(3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.Host(2).Interrupt()
	c.Host(2).Start()
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()
}

// With authentication on and neither certificate nor password, the daemon says
// so once, as one blocker, and touches nothing; with a password it goes on.
func TestAuthWithoutCredential(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	c.EnableAuth("root:" + rig.RootPassword)
	c.Password = rig.RootPassword
	pid := c.Host(1).EtcdPID()
	c.Configure(3)
	c.Start(2, 3)
	rig.Eventually(t, rig.Soon, "one blocker that names the credential", func(ctx context.Context) error {
		r, err := c.Report(ctx, c.Host(1))
		if err != nil {
			return err
		}
		if r.Decision == nil || r.Decision.Action != nil || len(r.Decision.Blockers) == 0 || !strings.Contains(r.Decision.Blockers[0].Sentence.String(), "auth") {
			return fmt.Errorf("the decision is %+v", r.Decision)
		}
		return nil
	})
	if now := c.Host(1).EtcdPID(); now != pid {
		t.Errorf("etcd was restarted: pid %d, now %d", pid, now)
	}
	c.Passwords()
	c.Voters(rig.Soon, 1, 2, 3)
	if now := c.Host(1).EtcdPID(); now != pid {
		t.Errorf("etcd was restarted: pid %d, now %d", pid, now)
	}
}

// A cluster with passwords and no certificates grows like any other, and
// replaces a host that lost its disk, with each release of etcd: the learner's
// daemon shows the password to a voter, because a learner gives out no tokens.
func TestAuthWithPasswordGrows(t *testing.T) {
	rig.TakesLong(t, "15 s")
	t.Parallel()
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if version != testetcd.V36 && !*rig.Long {
				t.Skip("one release is enough for every day: -e2e.long")
			}
			c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: version})
			c.Configure(1)
			c.Start(1)
			c.Voters(rig.Soon, 1)
			c.EnableAuth("root:" + rig.RootPassword)
			c.Password = rig.RootPassword
			c.Passwords()
			w := c.Write()
			c.Configure(3)
			c.Voters(rig.Soon, 1, 2, 3)
			c.Host(2).Crash()
			c.Host(2).Wipe(true)
			c.Host(2).Start()
			c.Voters(rig.Soon, 1, 2, 3)
			w.Check()
			for _, h := range c.Hosts {
				if data, err := os.ReadFile(h.Log); err != nil || strings.Contains(string(data), rig.RootPassword) {
					t.Errorf("the password is in the log of host %d (%v)", h.N, err)
				}
			}
		})
	}
}

// Who may only read is told so, by whatever changes something and by what is for
// operators, and hears nothing of daemons that do not answer or of hosts out of sight; nor
// is one cluster asked for what somebody asked of another.
func TestReadersAreTold(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{TLS: true})
	h, dir := c.Host(1), filepath.Join(c.Dir, "alice")
	if r := c.Etcdadm("pki", "issue", "alice", "--role", "reader", "--cluster-name", c.Name, "--pki-dir", c.PKIDir(), "--out", dir); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	as := func(name string, words ...string) rig.Result {
		return c.Etcdadm(append(words, "--endpoint", h.Endpoint(), "--cluster-name", name, "--credentials", dir)...)
	}
	if r := as(c.Name, "status"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	if r := as("another", "status"); r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, `for cluster "`+c.Name+`"`) {
		t.Errorf("the cluster is another one than the certificate's: %s", r)
	}
	for _, words := range [][]string{
		{"member", "remove", string(h.ID()), "--yes"}, {"defrag", "--yes"}, {"alarm", "disarm"},
		{"recover"}, {"host", "forget", "gone"}, {"host", "prune", "--dir", "x", "--yes"}, {"host", "reset-fence", "--yes"},
	} {
		r := as(c.Name, words...)
		said := r.Stdout + r.Stderr
		if r.Code != cli.ExitError || !strings.Contains(said, "not allowed") || !strings.Contains(said, "--role operator") ||
			strings.Contains(said, "no daemon answers") || strings.Contains(said, "is the daemon running") || strings.Contains(said, "unreachable") {
			t.Errorf("%s: %s", words, r)
		}
	}
}

// A restore and a recovery say what they would do, and queue nothing.
func TestGenerationsOnTrial(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{})
	name := c.TakeBackup()
	id := string(c.Host(1).ID())
	if r := c.Etcdadm("restore", name, "--dry-run", "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "would queue: restore, of the backup "+name) {
		t.Errorf("%s", r)
	}
	if r := c.Etcdadm("restore", name, "--dry-run", "--members", "4", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitUsage {
		t.Errorf("a count that is refused: %s", r)
	}
	if r := c.Etcdadm("recover", "--from", id, "--dry-run", "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "has a quorum") {
		t.Errorf("%s", r)
	}
	if r := c.Etcdadm("recover", "--dry-run", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	if r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands"); r.Code != cli.ExitOK || strings.Contains(r.Stdout, "restore") || strings.Contains(r.Stdout, "recover") {
		t.Errorf("something was queued: %s", r)
	}
	if in := c.Intent(); in.Generation != 1 {
		t.Errorf("the generation is %d", in.Generation)
	}
}
