package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/removal"
	"etcdadm.io/internal/setup"
)

func TestResetCommand(t *testing.T) {
	if code, out, errs := runEtcdadm("reset", "--yes", "--root="+t.TempDir()); code != ExitOK || !strings.Contains(out, "nothing to reset") {
		t.Errorf("a fresh machine: %d, %s%s", code, out, errs)
	}
	root, _ := hostBelow(t)
	p := setup.Paths{Root: root}
	state := filepath.Join(p.Data(), "etcdadm", "state.json")
	if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, []byte("{}"), 0o600); err != nil { // an agent was here, and nothing says how to reach the others
		t.Fatal(err)
	}
	settings, err := os.ReadFile(p.Settings())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Settings(), append(settings, "ETCDADM_HOST_ID=b\nS3_SECRET_ACCESS_KEY=HIDDEN\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, c := range map[string]struct {
		code int
		says []string
	}{
		"reset now":             {ExitUsage, []string{"etcdadm reset"}},
		"reset --wait=0":        {ExitUsage, []string{"--wait"}},
		"reset -o xml":          {ExitUsage, []string{"table, json or yaml"}},
		"reset --yes":           {ExitNoCluster, []string{"WHAT", p.Data(), "no daemon of cluster etcd can be asked", "nothing was changed", "--force"}},
		"reset --dry-run":       {ExitNoCluster, []string{"WHAT", "authorities", "nothing was changed"}},
		"reset --force":         {ExitUnsafe, []string{"Reset host b?", "not confirmed", "--yes", "etcdadm host forget b"}},
		"reset --purge --force": {ExitUnsafe, []string{"deleted", "not confirmed"}},
	} {
		code, out, errs := runEtcdadm(append(strings.Fields(line), "--root="+root)...)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q\n%s%s", line, code, c.code, want, out, errs)
			}
		}
		if strings.Contains(out+errs, "HIDDEN") {
			t.Errorf("%s: a secret is told\n%s%s", line, out, errs)
		}
	}
	if code, _, errs := runEtcdadm("destroy", "--yes-destroy=etcd", "--root="+root); code != ExitNoCluster || !strings.Contains(errs, "nothing was changed") || !strings.Contains(errs, "etcdadm reset --force on each") {
		t.Errorf("destroy: %d, %s", code, errs)
	}
	if code, _, errs := runEtcdadm("destroy", "--root="+t.TempDir()); code != ExitNoCluster || !strings.Contains(errs, "run it on a host of the cluster") {
		t.Errorf("destroy on a fresh machine: %d, %s", code, errs)
	}
	code, out, errs := runEtcdadm("reset", "--dry-run", "--force", "-o", "json", "--root="+root)
	var plan removal.Plan
	if err := json.Unmarshal([]byte(out), &plan); code != ExitOK || err != nil || plan.Hindrance == nil || plan.Hindrance.Kind != removal.Unreachable || len(plan.Items) == 0 || len(plan.Left) == 0 {
		t.Errorf("%d, %v, %s%s", code, err, out, errs)
	}
	if code, out, errs := runEtcdadm("reset", "--yes", "--force", "--root="+root); code != ExitOK || !strings.Contains(out, "set aside") || !strings.Contains(out, "etcdadm host forget b") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if code, out, _ := runEtcdadm("reset", "--root="+root); code != ExitOK || !strings.Contains(out, "nothing to reset") {
		t.Errorf("again: %d, %s", code, out)
	}
}

// Only the name itself destroys a cluster.
func TestConfirmName(t *testing.T) {
	for typed, want := range map[string]bool{"etcd\n": true, "y\n": false, "yes\n": false, "\n": false, "": false, "etcd2\n": false} {
		c := destroyCommand()
		c.SetIn(strings.NewReader(typed))
		c.SetErr(io.Discard)
		c.SetContext(t.Context())
		if err := confirmName(c, "name:", "etcd"); (err == nil) != want {
			t.Errorf("%q: %v", typed, err)
		}
	}
}
