package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// inEnvFile are secrets that stand in a daemon's environment file: for the store,
// and for other programs, as a pod's variables are.
var inEnvFile = map[string]string{
	"AZURE_STORAGE_SAS_TOKEN":  "sv=1&sig=planted-signature-of-azure",
	"AZURE_CLIENT_SECRET":      "planted-secret-of-a-principal",
	"HTTPS_PROXY":              "http://user:planted-word-of-a-proxy@127.0.0.1:1",
	"ETCD_ROOT_PASSWORD":       "planted-password-of-an-image",
	"ETCD_BACKUP_URL":          "https://user:planted-word-in-a-url@127.0.0.1:1/",
	"ETCD_S3_ACCESS_KEY":       "planted-key-among-etcds",
	"ETCD_MANAGER_HOOK_SECRET": "planted-secret-of-a-hook",
}

// TestSecretsInAWholeRun: what is secret is in no log, status, metric, object,
// command line or error of a run that forms a cluster, backs up, restores, changes
// the version and fails, whatever the umask; and nothing secret can be read by
// others, nor is anything shut to those whom it is for.
func TestSecretsInAWholeRun(t *testing.T) {
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
	for name, value := range planted {
		env = append(env, name+"="+value)
	}
	given := t.TempDir() // what people wrote, which is not looked through
	file := filepath.Join(given, "etcd.env")
	var lines strings.Builder
	for name, value := range inEnvFile {
		fmt.Fprintf(&lines, "%s=%s\n", name, value)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, options{hosts: 1, tls: tls, env: env, umask: umask})
	h := c.host(1)
	h.flags = []string{"--env-file=" + file, "-v=9", fmt.Sprintf("--etcd-manager-metrics-port=%d", portMetrics+c.block.shift)}
	if !tls {
		password := filepath.Join(given, "password")
		if err := os.WriteFile(password, []byte(rootPassword+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.flags = append(h.flags, "--etcd-user=root", "--etcd-password-file="+password)
	}
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	h.said(soon, "they look like secrets")
	secrets := c.secretsOf(h, tls)
	said := map[string]string{}
	keep := func(r result) result { said[r.command] += r.stdout + r.stderr; return r }
	name := c.takeBackup()
	if r := keep(c.restore(name)); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.voters(soon, 1)
	c.to(testetcd.V37, 1)
	secretMistakes(c, h, keep)

	for _, kind := range []string{"cmdline", "environ"} {
		path := fmt.Sprintf("/proc/%d/%s", h.etcdPID(), kind)
		c.noSecretIn("etcd's "+kind, fileAt(t, path), secrets)
	}
	c.noSecretIn("the daemon's command line", fileAt(t, fmt.Sprintf("/proc/%d/cmdline", h.cmd.Process.Pid)), secrets)
	_, metrics, err := h.fetch(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	c.noSecretIn("the metrics", []byte(metrics), secrets)
	for command, words := range said {
		c.noSecretIn(command, []byte(words), secrets)
	}
	c.noSecretBelow(c.dir, secrets)
	shutToOthers(t, h.dir, c.store)
}

// secretMistakes calls programs wrongly, with secrets where people put them.
func secretMistakes(c *testCluster, h *host, keep func(result) result) {
	c.t.Helper()
	etcdadm := filepath.Join(programs, "etcdadm")
	for _, call := range []struct {
		env  []string
		line []string
	}{
		{nil, []string{"status", "-o", "json", "--data-dir", h.dir}},
		{nil, []string{"plan", "-o", "json", "--data-dir", h.dir}},
		{nil, []string{"member", "list", "-o", "yaml", "--data-dir", h.dir}},
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
		r := keep(c.run(call.env, etcdadm, call.line...))
		if failing := call.env != nil && !slices.Contains(call.line, "--help"); failing && r.code == cli.ExitOK {
			c.t.Errorf("%s", r)
		}
	}
	for key, value := range map[string]string{"ETCD_NAME": "planted-value-of-a-name", "ETCD_MANAGER_CERT_DURATION": "planted-duration"} {
		r := keep(c.run([]string{key + "=" + value}, filepath.Join(programs, "etcd-manager"), append(h.arguments(), "--data-dir="+filepath.Join(c.dir, "other"))...))
		if r.code == cli.ExitOK {
			c.t.Errorf("%s", r)
		}
	}
	snapshot := filepath.Join(c.dir, "saved.db")
	if r := keep(c.etcdadm("backup", "download", c.listBackups()[0].Name, snapshot, "--store", c.storeURL())); r.code != cli.ExitOK {
		c.t.Errorf("%s", r)
	}
	if info, err := os.Stat(snapshot); err != nil || info.Mode().Perm() != 0o600 {
		c.t.Errorf("what was downloaded: %v, %v", info, err)
	}
}

// secretsOf are what was planted, and what the cluster has of its own.
func (c *testCluster) secretsOf(h *host, tls bool) map[string][]byte {
	c.t.Helper()
	all := map[string][]byte{"etcd's password": []byte(rootPassword), "whatever was planted": []byte("planted-word"), "a signature": []byte("planted-signature"), "a key": []byte("planted-secret")}
	if tls {
		maps.Copy(all, c.secrets(h))
	}
	for _, set := range []map[string]string{planted, inEnvFile} {
		for name, value := range set {
			all[name] = []byte(value)
		}
	}
	return all
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
