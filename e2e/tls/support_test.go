package tls

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A support bundle has the status and the logs of a host, and none of its secrets.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	var env []string
	for name, value := range rig.Planted {
		env = append(env, name+"="+value)
	}
	c := rig.Formed(t, 1, rig.Options{TLS: true, Env: env})
	h := c.Host(1)
	file, dir := filepath.Join(c.Dir, "bundle.tar.gz"), t.TempDir()
	if r := c.Etcdadm("support-bundle", file, "--data-dir", h.Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, file) {
		t.Fatalf("%s", r)
	}
	if out, err := exec.Command("tar", "-xzf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.NoSecretBelow(dir, c.Secrets(h))
	for name, want := range map[string]string{
		"status.json": `"observation"`, "own-status.json": string(h.ID()), "releases.json": `"found"`, "info.json": string(h.ID()),
		"status.txt": "1 of 1 voters are up", "logs/etcd.log": "raft", "README.txt": "It holds no keys",
	} {
		if text := string(rig.FileAt(t, filepath.Join(dir, "bundle", name))); !strings.Contains(text, want) {
			t.Errorf("%s does not have %q: %.500s", name, want, text)
		}
	}
	if r := c.Etcdadm("plan", "--from", filepath.Join(dir, "bundle", "status.json")); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "steady") {
		t.Errorf("the observation is not planned again: %s", r)
	}
	if r := c.Etcdadm("support-bundle", file, "--data-dir", h.Dir); r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, "does not exist") {
		t.Errorf("it is written over: %s", r)
	}
}
