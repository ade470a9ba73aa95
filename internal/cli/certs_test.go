package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
)

func TestCertsCommands(t *testing.T) {
	root, _ := hostBelow(t)
	at := func(line string) (int, string, string) {
		return runEtcdadm(append(strings.Fields(line), "--root="+root)...)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		line string
		code int
		says []string
	}{
		{"certs", ExitOK, []string{"Available Commands"}},
		{"certs list", ExitOK, []string{"ISSUED BY", "etcd-peers-ca.crt", "authority of etcd's members", "rotate", "ok"}},
		{"certs issue", ExitUsage, []string{"say for whom", "hint:"}},
		{"certs issue --for backup", ExitUsage, []string{"no place of its own", "--out ./backup"}},
		{"certs issue --for a/b --out " + out, ExitError, []string{"is no common name", "hint:"}},
		{"certs issue --for kube-apiserver --lifetime 10s", ExitUsage, []string{"shorter than a minute"}},
		{"certs issue --for kube-apiserver --dry-run", ExitOK, []string{"would issue kube-apiserver-etcd-client: there is no certificate"}},
		{"certs issue --for kube-apiserver", ExitOK, []string{"issued kube-apiserver-etcd-client, good until", "/etc/kubernetes/pki/etcd/ca.crt", "apiserver-etcd-client.key", "certs renew"}},
		{"certs issue --for kube-apiserver", ExitOK, []string{"is good until"}},
		{"certs issue --for kube-apiserver --dry-run", ExitOK, []string{"would change nothing"}},
		{"certs issue --for backup --lifetime 90d --out " + out, ExitOK, []string{"issued backup", filepath.Join(out, "backup.crt")}},
		{"certs list", ExitOK, []string{"kube-apiserver", "in 729 days", "command", filepath.Join(out, "backup.crt")}},
		{"certs renew", ExitOK, []string{"nothing to renew: 2 certificates looked at"}},
		{"certs renew --all --dry-run", ExitOK, []string{"would renew", "a person asked for a new one"}},
		{"certs renew --all", ExitOK, []string{"renewed " + filepath.Join(out, "backup.crt")}},
		{"certs renw", ExitUsage, []string{"is etcdadm certs renew meant?"}},
	} {
		code, stdout, errs := at(c.line)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(stdout+errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.line, code, c.code, want, stdout, errs)
			}
		}
	}
	code, stdout, errs := at("certs list -o json")
	var all []certs.Certificate
	if err := json.Unmarshal([]byte(stdout), &all); code != ExitOK || err != nil || len(all) != 5 || all[3].Renews != certs.ByPerson || len(all[3].IssuedBy) != 64 {
		t.Errorf("%d, %v, %s%s", code, err, stdout, errs)
	}
	if key, err := os.ReadFile(filepath.Join(out, "backup.key")); err != nil || strings.Contains(stdout, string(key)) {
		t.Errorf("%v", err)
	}

	foreign := setup.Paths{Root: root}.Root + "/etc/etcd/pki/etcdctl-etcd-client.key"
	if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := at("certs issue --for etcdctl"); code != ExitUnsafe || !strings.Contains(errs, "was not made by etcdadm; nothing was changed") || !strings.Contains(errs, "--set-aside") {
		t.Errorf("%d, %s", code, errs)
	}
	if code, stdout, errs := at("certs issue --for etcdctl --set-aside"); code != ExitOK || !strings.Contains(stdout, "set aside: "+foreign+".set-aside-") {
		t.Errorf("%d, %s%s", code, stdout, errs)
	}
	if err := os.Remove(filepath.Join(root, "etc/etcdadm/pki/etcd-clients-ca.key")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := at("certs issue --for healthcheck"); code != ExitUnsafe || !strings.Contains(errs, "etcd-clients-ca.key is not in") || !strings.Contains(errs, "hint: run it on a host that has it") {
		t.Errorf("%d, %s", code, errs)
	}
	if code, _, errs := runEtcdadm("certs", "list", "--root="+t.TempDir()); code != ExitNoCluster || !strings.Contains(errs, "--pki-dir") {
		t.Errorf("%d, %s", code, errs)
	}
	if code, stdout, errs := runEtcdadm("certs", "list", "--root="+t.TempDir(), "--pki-dir="+filepath.Join(root, "etc/etcdadm/pki")); code != ExitOK || !strings.Contains(stdout, "etcd-peers-ca.crt") {
		t.Errorf("%d, %s%s", code, stdout, errs)
	}
}

// A script learns by the exit code that a person has something to do.
func TestCertsThatEndSoon(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		age  time.Duration // of the certificate, which lives 400 days
		code int
		says []string
	}{
		{10 * day, ExitOK, []string{"(in 389 days)", "ok"}},
		{375 * day, ExitExpiring, []string{"(in 24 days)", "certificate of backup: expires soon", "hint: renew it: etcdadm certs renew"}},
		{401*day + time.Hour, ExitExpiring, []string{"(1 day ago)", "certificate of backup: expired"}},
	} {
		root, _ := hostBelow(t)
		host := certs.Host{Root: root, PKI: filepath.Join(root, "etc/etcdadm/pki")}
		if err := os.RemoveAll(host.PKI); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-c.age)
		if _, err := pki.Create(host.PKI, then); err != nil {
			t.Fatal(err)
		}
		if _, err := host.Issue(certs.Order{For: "backup", Dir: t.TempDir(), Life: pki.Lifetime{Duration: 400 * day, MinTimeLeft: day}}, then); err != nil {
			t.Fatal(err)
		}
		code, out, errs := runEtcdadm("certs", "list", "--root="+root)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s old: exit code %d, want %d and %q\n%s%s", c.age, code, c.code, want, out, errs)
			}
		}
		if c.code == ExitOK {
			continue
		}
		if code, out, errs := runEtcdadm("certs", "renew", "--root="+root); code != ExitOK || !strings.Contains(out, "renewed ") {
			t.Errorf("%d, %s%s", code, out, errs)
		}
		if code, out, errs := runEtcdadm("certs", "list", "--root="+root); code != ExitOK {
			t.Errorf("%d, %s%s", code, out, errs)
		}
	}
}
