package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
)

// Who holds the authorities' keys is told as soon as one host does not, and before the last one goes what to do.
func TestStatusTellsWhoHoldsTheKeys(t *testing.T) {
	yes, no := true, false
	host := func(id cluster.HostID, holds *bool) cluster.HostReport {
		return cluster.HostReport{HostState: cluster.HostState{Host: id, AuthorityKeys: holds}}
	}
	for name, c := range map[string]struct {
		hosts []cluster.HostReport
		says  string // empty: nothing
	}{
		"all do":       {[]cluster.HostReport{host("a", &yes), host("b", &yes), host("c", nil)}, ""},
		"nobody says":  {[]cluster.HostReport{host("a", nil), host("b", nil)}, ""},
		"two of three": {[]cluster.HostReport{host("a", &yes), host("b", &yes), host("c", &no)}, "authorities' keys: on a, b\n"},
		"one":          {[]cluster.HostReport{host("a", &yes), host("b", nil), host("c", &no)}, "! only host a holds the authorities' keys: without it nobody joins and no certificate is renewed → on a: etcdadm token create --uses 1 --host c, and its line on c with --again\n"},
		"none":         {[]cluster.HostReport{host("b", &no), host("c", &no)}, "! no host in sight holds the authorities' keys, and nobody renews the certificates of b, c"},
	} {
		var out bytes.Buffer
		printData(&out, console.Report{Observation: &cluster.Observation{At: time.Now(), Hosts: c.hosts}})
		if c.says == "" && strings.Contains(out.String(), "keys") || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: want %q\n%s", name, c.says, &out)
		}
	}
}

// A token without keys says so wherever it is shown, and a host without keys makes none and issues nothing.
func TestLeafOnlyTokensAndHosts(t *testing.T) {
	root, _ := hostBelow(t)
	at := func(line string) (int, string, string) {
		return runEtcdadm(append(strings.Fields(line), "--root="+root)...)
	}
	code, out, errs := at("token create --leaf-only --host host-4 --uses 1 -o json")
	var made tokenMade
	if err := json.Unmarshal([]byte(out), &made); code != ExitOK || err != nil || !made.LeafOnly || made.For != "host-4" {
		t.Fatalf("%d, %v, %s%s", code, err, out, errs)
	}
	if code, out, errs := at("token create --leaf-only"); code != ExitOK || !strings.Contains(out, "without the authorities' keys") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if code, out, _ := at("token list"); code != ExitOK || !strings.Contains(out, "GIVES") || !strings.Contains(out, "leaves") {
		t.Errorf("%d, %s", code, out)
	}
	if code, _, errs := at("token create --host a/b"); code != ExitUsage || !strings.Contains(errs, "is no host's ID") {
		t.Errorf("%d, %s", code, errs)
	}
	settings, err := setup.ReadSettings(setup.Paths{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := setup.OpenFolder(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.LoadAuthority(setup.Paths{Root: root}.PKI(), pki.ManagerCA, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all, err := control.Tokens{Folder: folder}.All(t.Context())
	if err != nil || len(all) != 2 || !authority.Sealed(all[0].Statement("etcd"), all[0].Seal) {
		t.Errorf("%+v, %v", all, err)
	}
	for _, name := range []string{pki.ManagerCA, pki.ClientsCA, pki.PeersCA} {
		if err := os.Remove(filepath.Join(setup.Paths{Root: root}.PKI(), name+".key")); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"token create", "certs issue --for kube-apiserver"} {
		if code, _, errs := at(line); code != ExitUnsafe || !strings.Contains(errs, "key is not") && !strings.Contains(errs, "is not in") || !strings.Contains(errs, "hint:") {
			t.Errorf("%s: %d, %s", line, code, errs)
		}
	}
	code, out, _ = at("certs list -o json")
	var listed []certs.Certificate
	if err := json.Unmarshal([]byte(out), &listed); code != ExitOK || err != nil || len(listed) != 3 || listed[0].Key {
		t.Errorf("%d, %v, %s", code, err, out)
	}
}
