package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// pkiCall is one line of `etcdadm pki`.
func pkiCall(t *testing.T, line ...string) (said string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := pkiCommand()
	c.SetArgs(line)
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SilenceErrors, c.SilenceUsage = true, true
	code = Report(&errs, "etcdadm", c.ExecuteContext(context.Background()))
	return out.String() + errs.String(), code
}

// A person gets a certificate of their own, for as long as was said, and nobody else's is overwritten.
func TestPeopleGetCertificates(t *testing.T) {
	dir := t.TempDir()
	cas, alice := filepath.Join(dir, "pki"), filepath.Join(dir, "alice")
	if said, code := pkiCall(t, "init", "--pki-dir", cas, "--dry-run"); code != ExitOK || strings.Count(said, "would make") != 3 {
		t.Fatalf("%d %s", code, said)
	}
	if _, err := os.Lstat(cas); err == nil {
		t.Fatal("a dry run made something")
	}
	if said, code := pkiCall(t, "init", "--pki-dir", cas); code != ExitOK || !strings.Contains(said, "every host") {
		t.Fatalf("%d %s", code, said)
	}
	issue := func(words ...string) (string, int) {
		return pkiCall(t, append([]string{"issue", "--pki-dir", cas, "--cluster-name", "c1"}, words...)...)
	}
	if said, code := issue("alice", "--role", "operator", "--lifetime", "30d", "--out", alice, "-o", "json"); code != ExitOK {
		t.Fatalf("%d %s", code, said)
	} else {
		var done issued
		if err := json.Unmarshal([]byte(said), &done); err != nil || done.Identity != "etcdadm://c1/operator/alice" || done.Issued == "" {
			t.Fatalf("%v %s", err, said)
		}
		if left := time.Until(done.NotAfter); left > 30*24*time.Hour || left < 29*24*time.Hour {
			t.Errorf("it is good for %s", left)
		}
	}
	pair, err := pki.LoadKeypair(alice, pki.PeerNames)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := pki.IdentityOf(pair.Leaf()); err != nil || id != (pki.Identity{Cluster: "c1", Role: pki.RoleOperator, ID: "alice"}) {
		t.Fatalf("%v %v", id, err)
	}
	if info, err := os.Stat(filepath.Join(alice, "me.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if said, code := issue("alice", "--role", "operator", "--lifetime", "30d", "--out", alice); code != ExitOK || !strings.Contains(said, "is good until") {
		t.Errorf("called again: %d %s", code, said)
	}
	for _, c := range []struct{ line, want string }{
		{"bob --role reader --out " + alice, "holds the certificate of etcdadm://c1/operator/alice, and etcdadm://c1/reader/bob is asked for"},
		{"alice --role reader --out " + alice, "etcdadm://c1/operator/alice, and etcdadm://c1/reader/alice"},
		{"h1 --role host --out " + dir + "/h1", "is a host"},
		{"x --role root --out " + dir + "/x", "none of host, operator and reader"},
		{"a/b --role reader --out " + dir + "/x", "ID"},
		{"x --role reader --lifetime 1s --out " + dir + "/x", "shorter than a minute"},
		{"x --role reader", "--out"},
	} {
		if said, code := issue(strings.Fields(c.line)...); code != ExitUsage || !strings.Contains(said, c.want) || !strings.Contains(said, "hint:") {
			t.Errorf("%s: %d %s", c.line, code, said)
		}
	}
	if err := os.Remove(filepath.Join(cas, "etcd-manager-ca.key")); err != nil {
		t.Fatal(err)
	}
	if said, code := issue("bob", "--out", filepath.Join(dir, "bob")); code != ExitError || !strings.Contains(said, "private key is not on this host") {
		t.Errorf("without the authority's key: %d %s", code, said)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 3 { // pki, alice, and the directory for bob
		t.Errorf("%v %v", entries, err)
	}
}

// A directory that has some of the authorities was used: a new one beside them is made only
// by who says so.
func TestInitRefusesHalfOfTheAuthorities(t *testing.T) {
	files := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for _, lost := range [][]string{{"etcd-peers-ca.crt", "etcd-peers-ca.key"}, {"etcd-peers-ca.crt"}, {"etcd-manager-ca.crt", "etcd-manager-ca.key", "etcd-peers-ca.crt", "etcd-peers-ca.key"}} {
		dir := filepath.Join(t.TempDir(), "pki")
		if said, code := pkiCall(t, "init", "--pki-dir", dir); code != ExitOK {
			t.Fatalf("%d %s", code, said)
		}
		if said, code := pkiCall(t, "init", "--pki-dir", dir); code != ExitOK {
			t.Errorf("all are there: %d %s", code, said)
		}
		for _, name := range lost {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		before := files(dir)
		for _, line := range [][]string{{"init", "--pki-dir", dir}, {"init", "--dry-run", "--pki-dir", dir}} {
			said, code := pkiCall(t, line...)
			if code != ExitUnsafe || !strings.Contains(said, "etcd-clients-ca.crt") || !strings.Contains(said, "not "+filepath.Join(dir, lost[0])) || !strings.Contains(said, "--add-missing") {
				t.Errorf("without %q: %d %s", lost, code, said)
			}
		}
		if after := files(dir); !slices.Equal(before, after) {
			t.Errorf("it made something: %q, then %q", before, after)
		}
		if said, code := pkiCall(t, "init", "--add-missing", "--pki-dir", dir); code != ExitOK || len(files(dir)) != 6 {
			t.Errorf("asked for: %d %s %q", code, said, files(dir))
		}
	}
}

// A key that was lost is said to be missing: it is copied from another host, and nothing
// makes it, nor are five files called six.
func TestInitRefusesWithoutAKey(t *testing.T) {
	for name, c := range map[string]struct{ lost, want []string }{
		"a key":            {[]string{"etcd-peers-ca.key"}, []string{"/etcd-peers-ca.key is missing; nothing was created", "copy it from another host"}},
		"two":              {[]string{"etcd-peers-ca.key", "etcd-clients-ca.key"}, []string{"/etcd-peers-ca.key, ", "/etcd-clients-ca.key are missing"}},
		"an authority too": {[]string{"etcd-peers-ca.key", "etcd-clients-ca.crt", "etcd-clients-ca.key"}, []string{"/etcd-clients-ca.crt, ", "/etcd-clients-ca.key are missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			if said, code := pkiCall(t, "init", "--pki-dir", dir); code != ExitOK {
				t.Fatalf("%d %s", code, said)
			}
			for _, file := range c.lost {
				if err := os.Remove(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			for _, more := range [][]string{nil, {"--dry-run"}, {"--add-missing"}} {
				said, code := pkiCall(t, append([]string{"init", "--pki-dir", dir}, more...)...)
				if code != ExitUnsafe || !strings.Contains(said, "--add-missing cannot recreate the key") {
					t.Errorf("%q: %d %s", more, code, said)
				}
				for _, words := range c.want {
					if !strings.Contains(said, words) {
						t.Errorf("%q: there is no %q in %s", more, words, said)
					}
				}
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 6-len(c.lost) {
				t.Errorf("it made something: %v %v", entries, err)
			}
		})
	}
}

// The line to paste holds for a directory with a space in its name, and every one of the six
// files that is missing is named.
func TestInitQuotesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a pki")
	if said, code := pkiCall(t, "init", "--pki-dir", dir); code != ExitOK {
		t.Fatalf("%d %s", code, said)
	}
	for _, file := range []string{"etcd-peers-ca.crt", "etcd-peers-ca.key"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	said, _ := pkiCall(t, "init", "--pki-dir", dir)
	if !strings.Contains(said, "--pki-dir '"+dir+"', and copy") || !strings.Contains(said, filepath.Join(dir, "etcd-peers-ca.key")) {
		t.Error(said)
	}
}
