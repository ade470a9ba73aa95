package tls

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// TestSecretsInAWholeRun: what is secret is in no log, status, metric, object,
// command line or error of a run that forms a cluster, backs up, restores, changes
// the version and fails, whatever the umask; and nothing secret can be read by
// others, nor is anything shut to those whom it is for.
func TestSecretsInAWholeRun(t *testing.T) {
	rig.TakesLong(t, "40 s")
	t.Parallel()
	for _, run := range []struct {
		umask string
		tls   bool // else with a file of etcd's password
	}{{"000", false}, {"077", true}} {
		t.Run("umask "+run.umask, func(t *testing.T) {
			t.Parallel()
			secretRun(t, run.umask, run.tls)
		})
	}
}

func secretRun(t *testing.T, umask string, tls bool) {
	testetcd.Binary(t, testetcd.V37)
	var env []string
	for name, value := range rig.Planted {
		env = append(env, name+"="+value)
	}
	given := t.TempDir() // what people wrote, which is not looked through
	file := filepath.Join(given, "etcd.env")
	var lines strings.Builder
	for name, value := range rig.InEnvFile {
		fmt.Fprintf(&lines, "%s=%s\n", name, value)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := rig.NewCluster(t, rig.Options{Hosts: 1, TLS: tls, Env: env, Umask: umask})
	h := c.Host(1)
	h.Flags = []string{"--env-file=" + file, "-v=9", fmt.Sprintf("--etcd-manager-metrics-port=%d", rig.PortMetrics+c.Block.Shift)}
	if !tls {
		password := filepath.Join(given, "password")
		if err := os.WriteFile(password, []byte(rig.RootPassword+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.Flags = append(h.Flags, "--etcd-user=root", "--etcd-password-file="+password)
	}
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	h.Said(rig.Soon, "they look like secrets")
	secrets := c.SecretsOf(h, tls)
	said := map[string]string{}
	keep := func(r rig.Result) rig.Result { said[r.Command] += r.Stdout + r.Stderr; return r }
	name := c.TakeBackup()
	if r := keep(c.Restore(name)); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Voters(rig.Soon, 1)
	c.To(testetcd.V37, 1)
	secretMistakes(c, h, keep)

	for _, kind := range []string{"cmdline", "environ"} {
		path := fmt.Sprintf("/proc/%d/%s", h.EtcdPID(), kind)
		c.NoSecretIn("etcd's "+kind, rig.FileAt(t, path), secrets)
	}
	c.NoSecretIn("the daemon's command line", rig.FileAt(t, fmt.Sprintf("/proc/%d/cmdline", h.Cmd.Process.Pid)), secrets)
	_, metrics, err := h.Fetch(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	c.NoSecretIn("the metrics", []byte(metrics), secrets)
	for command, words := range said {
		c.NoSecretIn(command, []byte(words), secrets)
	}
	c.NoSecretBelow(c.Dir, secrets)
	shutToOthers(t, h.Dir, c.Store)
}

// secretMistakes calls programs wrongly, with secrets where people put them.
func secretMistakes(c *rig.Cluster, h *rig.Host, keep func(rig.Result) rig.Result) {
	c.T.Helper()
	etcdadm := filepath.Join(rig.Programs, "etcdadm")
	for _, call := range []struct {
		env  []string
		line []string
	}{
		{nil, []string{"status", "-o", "json", "--data-dir", h.Dir}},
		{nil, []string{"plan", "-o", "json", "--data-dir", h.Dir}},
		{nil, []string{"member", "list", "-o", "yaml", "--data-dir", h.Dir}},
		{nil, []string{"backup", "list", "--store", "s3://user:planted-word-in-a-url@bucket/f"}},
		{nil, []string{"backup", "list", "--store", "https://user:planted-word-in-a-url@h/f"}},
		{nil, []string{"backup", "list", "--store", "azureblob://a/c/f?sig=planted-signature-of-azure"}},
		{[]string{"ETCDADM_STORE=s3://user:planted-word-in-a-url@bucket/f"}, []string{"backup", "list"}},
		{[]string{"ETCDADM_STORE=s3://user:planted-word-in-a-url@bucket/f"}, []string{"backup", "--help"}},
		{[]string{"ETCDADM_STORE=s3://user:planted-word-in-a-url@bucket/f"}, []string{"restore", "--help"}},
		{[]string{"ETCDADM_STORE=s3://user:planted-word-in-a-url@bucket/f"}, []string{"adopt", "--help"}},
		{[]string{"S3_ENDPOINT=http://user:planted-word-in-a-url@127.0.0.1:1"}, []string{"backup", "list", "--store", "s3://bucket/f"}},
		{[]string{"S3_ENDPOINT=http://127.0.0.1:1", "S3_ACCESS_KEY_ID=k"}, []string{"backup", "list", "--store", "s3://bucket/f"}},
		{[]string{"AZURE_STORAGE_ACCOUNT=a", "AZURE_STORAGE_KEY=planted-secret-that-is-no-key"}, []string{"backup", "list", "--store", "azureblob://c/f"}},
		{[]string{"AZURE_STORAGE_KEY=", "AZURE_STORAGE_ACCOUNT=a", "AZURE_STORAGE_SAS_TOKEN=sv=1&sig=planted-signature-of-azure%zz", "AZURE_STORAGE_ENDPOINT=http://127.0.0.1:1"}, []string{"backup", "list", "--store", "azureblob://c/f"}},
		{[]string{"HTTPS_PROXY=http://user:planted-word-of-a-proxy@127.0.0.1:1", "S3_REGION=x", "S3_ACCESS_KEY_ID=k"}, []string{"backup", "list", "--store", "s3://bucket/f"}},
		{[]string{"HTTPS_PROXY=http://user:planted-word-of-a-proxy @127.0.0.1:1"}, []string{"download", "3.6.1", "--release-url=https://127.0.0.1:1"}},
		{nil, []string{"download", "3.6.1", "--release-url=https://user:planted-word-in-a-url@127.0.0.1:1"}},
	} {
		r := keep(c.Run(call.env, etcdadm, call.line...))
		if failing := call.env != nil && !slices.Contains(call.line, "--help"); failing && r.Code == cli.ExitOK {
			c.T.Errorf("%s", r)
		}
	}
	for key, value := range map[string]string{"ETCD_NAME": "planted-value-of-a-name", "ETCD_MANAGER_CERT_DURATION": "planted-duration"} {
		r := keep(c.Run([]string{key + "=" + value}, filepath.Join(rig.Programs, "etcd-manager"), append(h.Arguments(), "--data-dir="+filepath.Join(c.Dir, "other"))...))
		if r.Code == cli.ExitOK {
			c.T.Errorf("%s", r)
		}
	}
	snapshot := filepath.Join(c.Dir, "saved.db")
	if r := keep(c.Etcdadm("backup", "download", c.ListBackups()[0].Name, snapshot, "--store", c.StoreURL())); r.Code != cli.ExitOK {
		c.T.Errorf("%s", r)
	}
	if info, err := os.Stat(snapshot); err != nil || info.Mode().Perm() != 0o600 {
		c.T.Errorf("what was downloaded: %v, %v", info, err)
	}
}

// shutToOthers finds what others could read that is not for them, or could not
// that is: certificates, the host's ID, and where its daemon is.
func shutToOthers(t *testing.T, dirs ...string) {
	t.Helper()
	seen := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Type()&fs.ModeSymlink != 0 {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return nil // it is just gone
			}
			seen++
			mode, name := info.Mode().Perm(), e.Name()
			switch {
			case e.IsDir() && mode != 0o700:
				t.Errorf("the directory %s has mode %o", path, mode)
			case e.IsDir():
			case filepath.Ext(name) == ".crt" || name == "access.json" || name == "myid":
				if mode != 0o644 {
					t.Errorf("%s has mode %o, want 644", path, mode)
				}
			// Both lie in directories of 0700; etcd makes its raft snapshots by the umask.
			case mode&0o077 != 0 && !strings.HasPrefix(name, "etcd.log") && filepath.Ext(name) != ".snap":
				t.Errorf("%s has mode %o", path, mode)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 20 {
		t.Errorf("only %d files and directories were looked at", seen)
	}
}
