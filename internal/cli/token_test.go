package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
)

// hostBelow makes a directory that looks like a host of a cluster.
func hostBelow(t *testing.T) (root, store string) {
	t.Helper()
	root, store = t.TempDir(), t.TempDir()
	p := setup.Paths{Root: root}
	if _, err := pki.Create(p.PKI(), time.Now()); err != nil {
		t.Fatal(err)
	}
	text := "ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=file://" + store + "\nETCDADM_ADDRESS=192.0.2.1\nETCDADM_PKI_DIR=" + p.PKI() + "\nETCDADM_DATA_DIR=" + p.Data() + "\n"
	if err := os.WriteFile(p.Settings(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root, store
}

func TestTokenCommands(t *testing.T) {
	root, store := hostBelow(t)
	at := func(line string) (int, string, string) {
		return runEtcdadm(append(strings.Fields(line), "--root="+root)...)
	}
	if code, out, errs := at("token list"); code != ExitOK || !strings.Contains(out, "to make one: etcdadm token create") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	code, out, errs := at("token create --uses 2 --ttl 90m --description replacement")
	if code != ExitOK || !strings.Contains(out, "  etcdadm join 192.0.2.1:8000 --token ") || !strings.Contains(out, " --ca-hash sha256:") || !strings.Contains(out, "2 hosts") {
		t.Fatalf("%d, %s%s", code, out, errs)
	}
	code, out, errs = at("token create -o json")
	var made tokenMade
	if err := json.Unmarshal([]byte(out), &made); code != ExitOK || err != nil || made.Uses != 0 || !strings.HasPrefix(made.Token, made.ID+".") || !pki.ValidHash(made.CAHash) || time.Until(made.Expires) < 23*time.Hour {
		t.Fatalf("%d, %v, %s%s", code, err, out, errs)
	}
	_, secret, _ := strings.Cut(made.Token, ".")
	if code, out, errs = at("token list"); code != ExitOK || !strings.Contains(out, made.ID) || !strings.Contains(out, "0 of 2") || !strings.Contains(out, "replacement") || strings.Contains(out, secret) {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if code, out, _ = at("token revoke " + made.Token + " --dry-run"); code != ExitOK || strings.Contains(out, secret) {
		t.Errorf("%d, %s", code, out)
	}
	if code, out, errs = at("token revoke " + made.ID); code != ExitOK || !strings.Contains(out, "is revoked") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if code, out, _ = at("token list -o json"); code != ExitOK || !strings.Contains(out, `"state": "revoked"`) || strings.Contains(out, secret) || strings.Contains(out, "sha256") {
		t.Errorf("%d, %s", code, out)
	}
	if code, out, _ = at("token create --dry-run"); code != ExitOK || !strings.Contains(out, "would make") {
		t.Errorf("%d, %s", code, out)
	}
	data, err := os.ReadFile(filepath.Join(store, "control", "etcdadm-tokens.json"))
	if err != nil || strings.Contains(string(data), secret) || strings.Count(string(data), `"id"`) != 2 {
		t.Errorf("%v: %s", err, data)
	}
	for line, c := range map[string]struct {
		code int
		says string
	}{
		"token":                    {ExitOK, "Available Commands"},
		"token revoke zzzzzz":      {ExitError, "is not known to the cluster"},
		"token revoke x":           {ExitUsage, "is no token's ID"},
		"token create --uses=-1":   {ExitUsage, "--uses=-1"},
		"token create --uses=1000": {ExitUsage, "from 1 to 50"},
		"token create --ttl 10s":   {ExitUsage, "--ttl=10s"},
		"token create --ttl 60d":   {ExitUsage, "30d"},
		"token crate":              {ExitUsage, "is etcdadm token create meant?"},
	} {
		if code, out, errs := at(line); code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", line, code, c.code, c.says, out, errs)
		}
	}
	if code, _, errs := runEtcdadm("token", "list", "--root="+t.TempDir()); code != ExitNoCluster || !strings.Contains(errs, "no host of a cluster") {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestInitAndJoinMistakes(t *testing.T) {
	t.Setenv("ETCDADM_TOKEN", "")
	root, _ := hostBelow(t)
	fresh := t.TempDir()
	hash := "sha256:" + strings.Repeat("ab", 32)
	good := "abcdef." + strings.Repeat("a", 32)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("nonsense-HIDDEN\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, c := range map[string]struct {
		code int
		says []string
	}{
		"init --store=file:///x --members=2 --root=" + fresh:                               {ExitUsage, []string{"such as --members 3"}},
		"init --store=file:///x --etcd-version=x --root=" + fresh:                          {ExitUsage, []string{"such as --etcd-version"}},
		"init --store=file:///x --wait=0 --root=" + fresh:                                  {ExitUsage, []string{"--wait=0s is no time to wait"}},
		"init --stor=file:///x --root=" + fresh:                                            {ExitUsage, []string{"is --store meant?"}},
		"init --cluster-name=other --store=file:///x --root=" + root:                       {ExitUnsafe, []string{"host of cluster etcd, and cluster other was named", "etcdadm reset"}},
		"init --store=file:///x --address=127.0.0.1 --host-id=h --root=" + fresh:           {ExitUnsafe, []string{"nothing was changed", "CHECK", "→"}},
		"init --store=file:///x --address=127.0.0.1 --host-id=h --dry-run --root=" + fresh: {ExitUnsafe, []string{"make the three authorities in"}},
		"join --root=" + fresh:                                                                       {ExitUsage, []string{"etcdadm join ADDRESS:PORT"}},
		"join 192.0.2.1 --token=" + good + " --ca-hash=" + hash:                                      {ExitUsage, []string{"no address with a port"}},
		"join 192.0.2.1:8000 --token=" + good + " --ca-hash=abc":                                     {ExitUsage, []string{"64 hexadecimal digits"}},
		"join 192.0.2.1:8000 --ca-hash=" + hash:                                                      {ExitUsage, []string{"say which join token", "--token-file"}},
		"join 192.0.2.1:8000 --token=nonsense-HIDDEN --ca-hash=" + hash:                              {ExitUsage, []string{"is not a join token"}},
		"join 192.0.2.1:8000 --token-file=" + file + " --ca-hash=" + hash:                            {ExitUsage, []string{"is not a join token"}},
		"join 192.0.2.1:8000 --token=" + good + " --token-file=" + file + " --ca-hash=" + hash:       {ExitUsage, []string{"one of --token and --token-file"}},
		"join 192.0.2.1:8000 --token=" + good + " --ca-hash=" + hash + " --root=" + root:             {ExitUnsafe, []string{"this machine is a host of cluster etcd"}},
		"join 127.0.0.1:8000 --token=" + good + " --ca-hash=" + hash + " --host-id=h --root=" + root: {ExitUnsafe, []string{"is a host of cluster etcd"}},
	} {
		code, out, errs := runEtcdadm(strings.Fields(line)...)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q\n%s%s", line, code, c.code, want, out, errs)
			}
		}
		if strings.Contains(out+errs, "HIDDEN") || strings.Contains(out+errs, good) {
			t.Errorf("%s: the token is told\n%s%s", line, out, errs)
		}
	}
	if left, err := os.ReadDir(fresh); err != nil || len(left) > 0 {
		t.Errorf("something was made: %v, %v", left, err)
	}
}
