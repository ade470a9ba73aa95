package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/plan"
)

// With TLS on both sides three daemons need the directory of the authorities
// and nothing else; people find in access.json what etcdctl needs, and etcdadm
// needs only the data directory. No key is readable by others, none is logged.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{tls: true})
	w := c.write()
	for _, h := range c.hosts {
		for _, version := range testetcd.Versions() {
			if r := c.etcdctl(h, version, "put", "k", version); r.code != 0 {
				t.Fatalf("host %d: %s", h.n, r)
			}
			if r := c.etcdctl(h, version, "get", "--print-value-only", "k"); r.stdout != version+"\n" {
				t.Fatalf("host %d: %s", h.n, r)
			}
		}
	}
	// Without a certificate nobody is let in.
	bare := c.run([]string{"ETCDCTL_API=3"}, testetcd.Binary(t, testetcd.V36).Etcdctl,
		"--endpoints="+c.host(1).clientURL(), "--cacert="+c.access(c.host(1)).Etcd.CA, "--command-timeout=2s", "get", "k")
	if bare.code == 0 {
		t.Errorf("etcd answers a client without a certificate: %s", bare)
	}
	c.seesTheCluster(t)

	before := c.host(2).etcdPID()
	c.host(2).kill()
	c.host(2).start()
	c.host(3).interrupt()
	c.host(3).start()
	c.voters(soon, 1, 2, 3)
	if now := c.host(2).etcdPID(); now != before {
		t.Errorf("the daemon of host 2 was killed; its etcd had pid %d and has %d", before, now)
	}
	w.check()
	c.keepsItsKeys(t)
}

// seesTheCluster asks with etcdadm, in JSON.
func (c *testCluster) seesTheCluster(t *testing.T) {
	t.Helper()
	for _, h := range c.hosts {
		r := c.etcdadm("status", "-o", "json", "--data-dir", h.dir)
		var report console.Report
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != 0 {
			t.Fatalf("%v: %s", err, r)
		}
		if report.Cluster != c.name || report.Observation == nil || len(report.Observation.Hosts) != 3 {
			t.Errorf("host %d: status shows cluster %q, observation %v", h.n, report.Cluster, report.Observation)
		}
		if len(report.Certificates) == 0 && c.options.tls {
			t.Error("status shows no certificates")
		}
		r = c.etcdadm("plan", "-o", "json", "--data-dir="+h.dir)
		var d plan.Decision
		if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.code != 0 {
			t.Fatalf("%v: %s", err, r)
		}
		if d.Action != nil || d.Rule != "steady" {
			t.Errorf("host %d: the plan of a complete cluster is %s %s", h.n, d.Rule, d.Reason)
		}
		r = c.etcdadm("member", "list", "-o", "json", "--data-dir", h.dir)
		var seats []map[string]any
		if err := json.Unmarshal([]byte(r.stdout), &seats); err != nil || r.code != 0 || len(seats) != 3 {
			t.Errorf("%v: %s", err, r)
		}
	}
	saved := filepath.Join(c.dir, "status.json")
	if err := os.WriteFile(saved, []byte(c.etcdadm("status", "-o", "json", "--data-dir", c.host(1).dir).stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.etcdadm("plan", "--from", saved); r.code != 0 || !strings.Contains(r.stdout, "steady") {
		t.Errorf("a saved observation is not planned again: %s", r)
	}
}

// keepsItsKeys looks at file modes and logs.
func (c *testCluster) keepsItsKeys(t *testing.T) {
	t.Helper()
	for _, h := range c.hosts {
		err := filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, ".key") && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("others can read the key %s: %s", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, log := range []string{h.log, filepath.Join(h.dir, "logs", "etcd.log")} {
			data, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "PRIVATE KEY") {
				t.Errorf("%s holds a key", log)
			}
		}
	}
}

// With authentication on, TLS is enough: the daemon's own certificate says
// root, and it goes on managing.
func TestAuthWithCertificates(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3, tls: true})
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	c.enableAuth("root", "--no-password")
	w := c.write() // as root, by certificate
	c.start(2, 3)
	c.configure(3)
	c.voters(soon, 1, 2, 3)
	c.host(2).interrupt()
	c.host(2).start()
	c.voters(soon, 1, 2, 3)
	w.check()
}

// With authentication on and neither certificate nor password, the daemon says
// so once, as one blocker, and touches nothing; with a password it goes on.
func TestAuthWithoutCredential(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	c.enableAuth("root:" + rootPassword)
	c.password = rootPassword
	pid := c.host(1).etcdPID()
	c.configure(3)
	c.start(2, 3)
	eventually(t, soon, "one blocker that names the credential", func(ctx context.Context) error {
		r, err := c.report(ctx, c.host(1))
		if err != nil {
			return err
		}
		if r.Decision == nil || r.Decision.Action != nil || len(r.Decision.Blockers) == 0 || !strings.Contains(r.Decision.Blockers[0].Sentence, "auth") {
			return fmt.Errorf("the decision is %+v", r.Decision)
		}
		return nil
	})
	if now := c.host(1).etcdPID(); now != pid {
		t.Errorf("etcd was restarted: pid %d, now %d", pid, now)
	}
	c.passwords()
	c.voters(soon, 1, 2, 3)
	if now := c.host(1).etcdPID(); now != pid {
		t.Errorf("etcd was restarted: pid %d, now %d", pid, now)
	}
}

const rootPassword = "secret-of-the-test"

// passwords restarts all daemons with root's password.
func (c *testCluster) passwords() {
	c.t.Helper()
	password := filepath.Join(c.dir, "password")
	if err := os.WriteFile(password, []byte(rootPassword+"\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	for _, h := range c.hosts {
		h.flags = []string{"--etcd-user=root", "--etcd-password-file=" + password}
		if h.running() {
			h.kill()
		}
		h.start()
	}
}

// A cluster with passwords and no certificates grows like any other, and
// replaces a host that lost its disk, with each release of etcd: the learner's
// daemon shows the password to a voter, because a learner gives out no tokens.
func TestAuthWithPasswordGrows(t *testing.T) {
	t.Parallel()
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if version != testetcd.V36 && !*long {
				t.Skip("one release is enough for every day: -e2e.long")
			}
			c := newCluster(t, options{hosts: 3, version: version})
			c.configure(1)
			c.start(1)
			c.voters(soon, 1)
			c.enableAuth("root:" + rootPassword)
			c.password = rootPassword
			c.passwords()
			w := c.write()
			c.configure(3)
			c.voters(soon, 1, 2, 3)
			c.host(2).crash()
			c.host(2).wipe(true)
			c.host(2).start()
			c.voters(soon, 1, 2, 3)
			w.check()
			for _, h := range c.hosts {
				if data, err := os.ReadFile(h.log); err != nil || strings.Contains(string(data), rootPassword) {
					t.Errorf("the password is in the log of host %d (%v)", h.n, err)
				}
			}
		})
	}
}

// enableAuth makes the user root and turns authentication on.
func (c *testCluster) enableAuth(user ...string) {
	c.t.Helper()
	for _, words := range [][]string{append([]string{"user", "add"}, user...), {"user", "grant-role", "root", "root"}, {"auth", "enable"}} {
		if r := c.etcdctl(c.host(1), testetcd.V36, words...); r.code != 0 {
			c.t.Fatal(r)
		}
	}
}

// Who may only read is told so, by whatever changes something and by what is for
// operators, and hears nothing of daemons that do not answer or of hosts out of sight; nor
// is one cluster asked for what somebody asked of another.
func TestReadersAreTold(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{tls: true})
	h, dir := c.host(1), filepath.Join(c.dir, "alice")
	if r := c.etcdadm("pki", "issue", "alice", "--role", "reader", "--cluster-name", c.name, "--pki-dir", c.pkiDir(), "--out", dir); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	as := func(name string, words ...string) result {
		return c.etcdadm(append(words, "--endpoint", h.endpoint(), "--cluster-name", name, "--credentials", dir)...)
	}
	if r := as(c.name, "status"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	if r := as("another", "status"); r.code != cli.ExitUsage || !strings.Contains(r.stderr, `for cluster "`+c.name+`"`) {
		t.Errorf("the cluster is another one than the certificate's: %s", r)
	}
	for _, words := range [][]string{
		{"member", "remove", string(h.id()), "--yes"}, {"defrag", "--yes"}, {"alarm", "disarm"},
		{"recover"}, {"host", "forget", "gone"}, {"host", "prune", "--dir", "x", "--yes"}, {"host", "reset-fence", "--yes"},
	} {
		r := as(c.name, words...)
		said := r.stdout + r.stderr
		if r.code != cli.ExitError || !strings.Contains(said, "not allowed") || !strings.Contains(said, "--role operator") ||
			strings.Contains(said, "no daemon answers") || strings.Contains(said, "is the daemon running") || strings.Contains(said, "out of sight") {
			t.Errorf("%s: %s", words, r)
		}
	}
}

// A restore and a recovery say what they would do, and queue nothing.
func TestGenerationsOnTrial(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{})
	name := c.takeBackup()
	id := string(c.host(1).id())
	if r := c.etcdadm("restore", name, "--dry-run", "--yes", "--data-dir", c.host(1).dir); r.code != cli.ExitOK || !strings.Contains(r.stdout, "would queue: restore, of the backup "+name) {
		t.Errorf("%s", r)
	}
	if r := c.etcdadm("restore", name, "--dry-run", "--members", "4", "--data-dir", c.host(1).dir); r.code != cli.ExitUsage {
		t.Errorf("a count that is refused: %s", r)
	}
	if r := c.etcdadm("recover", "--from", id, "--dry-run", "--yes", "--data-dir", c.host(1).dir); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "has a quorum") {
		t.Errorf("%s", r)
	}
	if r := c.etcdadm("recover", "--dry-run", "--data-dir", c.host(1).dir); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	if r := c.ctl("--backup-store="+c.storeURL(), "list-commands"); r.code != cli.ExitOK || strings.Contains(r.stdout, "restore") || strings.Contains(r.stdout, "recover") {
		t.Errorf("something was queued: %s", r)
	}
	if in := c.intent(); in.Generation != 1 {
		t.Errorf("the generation is %d", in.Generation)
	}
}
