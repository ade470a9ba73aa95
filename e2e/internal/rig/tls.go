package rig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/plan"
)

// SeesTheCluster asks with etcdadm, in JSON.
func (c *Cluster) SeesTheCluster(t *testing.T) {
	t.Helper()
	for _, h := range c.Hosts {
		r := c.Etcdadm("status", "-o", "json", "--data-dir", h.Dir)
		var report console.Report
		if err := duration.FromJSON([]byte(r.Stdout), &report); err != nil || r.Code != 0 {
			t.Fatalf("%v: %s", err, r)
		}
		if report.Cluster != c.Name || report.Observation == nil || len(report.Observation.Hosts) != 3 {
			t.Errorf("host %d: status shows cluster %q, observation %v", h.N, report.Cluster, report.Observation)
		}
		if len(report.Certificates) == 0 && c.Options.TLS {
			t.Error("status shows no certificates")
		}
		r = c.Etcdadm("plan", "-o", "json", "--data-dir="+h.Dir)
		var d plan.Decision
		if err := duration.FromJSON([]byte(r.Stdout), &d); err != nil || r.Code != 0 {
			t.Fatalf("%v: %s", err, r)
		}
		if d.Action != nil || d.Rule != "steady" {
			t.Errorf("host %d: the plan of a complete cluster is %s %s", h.N, d.Rule, d.Reason)
		}
		r = c.Etcdadm("member", "list", "-o", "json", "--data-dir", h.Dir)
		var seats []map[string]any
		if err := json.Unmarshal([]byte(r.Stdout), &seats); err != nil || r.Code != 0 || len(seats) != 3 {
			t.Errorf("%v: %s", err, r)
		}
	}
	saved := filepath.Join(c.Dir, "status.json")
	if err := os.WriteFile(saved, []byte(c.Etcdadm("status", "-o", "json", "--data-dir", c.Host(1).Dir).Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.Etcdadm("plan", "--from", saved); r.Code != 0 || !strings.Contains(r.Stdout, "steady") {
		t.Errorf("a saved observation is not planned again: %s", r)
	}
}

// KeepsItsKeys looks at file modes and logs.
func (c *Cluster) KeepsItsKeys(t *testing.T) {
	t.Helper()
	for _, h := range c.Hosts {
		err := filepath.WalkDir(h.Dir, func(path string, d os.DirEntry, err error) error {
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
		for _, log := range []string{h.Log, filepath.Join(h.Dir, "logs", "etcd.log")} {
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

const RootPassword = "secret-of-the-test"

// Passwords restarts all daemons with root's password.
func (c *Cluster) Passwords() {
	c.T.Helper()
	password := filepath.Join(c.Dir, "password")
	if err := os.WriteFile(password, []byte(RootPassword+"\n"), 0o600); err != nil {
		c.T.Fatal(err)
	}
	for _, h := range c.Hosts {
		h.Flags = []string{"--etcd-user=root", "--etcd-password-file=" + password}
		if h.Running() {
			h.Kill()
		}
		h.Start()
	}
}

// EnableAuth makes the user root and turns authentication on.
func (c *Cluster) EnableAuth(user ...string) {
	c.T.Helper()
	for _, words := range [][]string{append([]string{"user", "add"}, user...), {"user", "grant-role", "root", "root"}, {"auth", "enable"}} {
		if r := c.Etcdctl(c.Host(1), testetcd.V36, words...); r.Code != 0 {
			c.T.Fatal(r)
		}
	}
}
