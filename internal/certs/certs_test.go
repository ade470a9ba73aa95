package certs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
)

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const day = duration.Day

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host is one with authorities and with what an agent keeps, without a member.
func host(t *testing.T) (Host, *pki.Authorities) {
	t.Helper()
	root := t.TempDir()
	h := Host{Root: root, PKI: filepath.Join(root, "etc/etcdadm/pki"), Data: filepath.Join(root, "var/lib/etcdadm"), Life: pki.DefaultLifetime()}
	all, err := pki.Create(h.PKI, t0)
	must(t, err)
	self, err := pki.HostRequest(pki.Identity{Cluster: "etcd", Role: pki.RoleHost, ID: "a"}, []string{"192.0.2.1"}, h.Life)
	must(t, err)
	_, err = pki.Ensure(filepath.Join(h.Data, "etcdadm/pki/daemon"), pki.PeerNames, all.Manager, self, t0)
	must(t, err)
	person, err := pki.ClientRequest("root", h.Life)
	must(t, err)
	_, err = pki.Ensure(filepath.Join(h.Data, "etcdadm/pki/etcdctl"), pki.ClientNames, all.Clients, person, t0)
	must(t, err)
	return h, all
}

func order(purpose string) Order { return Order{For: purpose, Life: pki.DefaultLifetime()} }

// listed is the certificate of a file.
func listed(t *testing.T, h Host, file string, now time.Time) Certificate {
	t.Helper()
	all, err := h.List(now)
	must(t, err)
	for _, c := range all {
		if strings.HasSuffix(c.File, file) {
			return c
		}
	}
	t.Fatalf("%s is not listed in %+v", file, all)
	return Certificate{}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// Each purpose has its place, and what lies there serves as a client of etcd under the name that kubeadm knows.
func TestIssueIntoItsPlace(t *testing.T) {
	for purpose, want := range map[string]struct{ cn, ca, cert string }{
		ForAPIServer:   {"kube-apiserver-etcd-client", "etc/kubernetes/pki/etcd/ca.crt", "etc/kubernetes/pki/apiserver-etcd-client"},
		ForHealthcheck: {"kube-etcd-healthcheck-client", "etc/kubernetes/pki/etcd/ca.crt", "etc/kubernetes/pki/etcd/healthcheck-client"},
		ForEtcdctl:     {"root", "etc/etcd/pki/ca.crt", "etc/etcd/pki/etcdctl-etcd-client"},
	} {
		h, all := host(t)
		dry := order(purpose)
		dry.DryRun = true
		if done, err := h.Issue(dry, t0); err != nil || done.Issued == "" || !done.NotAfter.IsZero() {
			t.Errorf("%s: %+v, %v", purpose, done, err)
		}
		if _, err := os.Lstat(h.at("etc/kubernetes")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a dry run made something: %v", purpose, err)
		}
		done, err := h.Issue(order(purpose), t0)
		must(t, err)
		if done.CA != h.at(want.ca) || done.Cert != h.at(want.cert+".crt") || done.Key != h.at(want.cert+".key") || done.CommonName != want.cn || done.Issued == "" {
			t.Errorf("%s: %+v", purpose, done)
		}
		leaf, err := pki.ReadCertificates(done.Cert)
		must(t, err)
		if leaf[0].Subject.CommonName != want.cn || !all.Clients.Signed(leaf[0]) || len(leaf[0].DNSNames)+len(leaf[0].IPAddresses) > 0 {
			t.Errorf("%s: %v", purpose, leaf[0].Subject)
		}
		ca, err := os.ReadFile(done.CA)
		if err != nil || string(ca) != string(all.Clients.BundlePEM()) {
			t.Errorf("%s: %v", purpose, err)
		}
		if mode(t, done.Key) != 0o600 || mode(t, done.Cert) != 0o644 || mode(t, filepath.Dir(done.Key)) != 0o755 {
			t.Errorf("%s: key %o, certificate %o", purpose, mode(t, done.Key), mode(t, done.Cert))
		}
		again, err := h.Issue(order(purpose), t0.Add(day))
		if err != nil || again.Issued != "" || !again.NotAfter.Equal(done.NotAfter) {
			t.Errorf("%s again: %+v, %v", purpose, again, err)
		}
		late := pki.DefaultLifetime().RenewAt(leaf[0])
		if next, err := h.Issue(order(purpose), late); err != nil || !strings.Contains(next.Issued, "due") || !next.NotAfter.After(done.NotAfter) {
			t.Errorf("%s when it is due: %+v, %v", purpose, next, err)
		}
	}
}

func TestIssueForAName(t *testing.T) {
	h, _ := host(t)
	o := order("backup")
	if _, err := h.Issue(o, t0); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("without a directory: %v", err)
	}
	o.Dir = filepath.Join(t.TempDir(), "out")
	done, err := h.Issue(o, t0)
	if err != nil || done.Cert != filepath.Join(o.Dir, "backup.crt") || done.CA != filepath.Join(o.Dir, "ca.crt") || mode(t, o.Dir) != 0o700 {
		t.Errorf("%+v, %v", done, err)
	}
	for _, odd := range []string{"", "ca", "../x", "a/b", ".x", "a b", "a\nb", strings.Repeat("x", 65)} {
		if _, err := h.Issue(Order{For: odd, Dir: o.Dir, Life: pki.DefaultLifetime()}, t0); err == nil {
			t.Errorf("%q was taken for a common name", odd)
		}
	}
	if _, err := h.Issue(Order{For: "x", Dir: o.Dir, Life: pki.Lifetime{Duration: time.Second}}, t0); err == nil {
		t.Error("a certificate of a second was issued")
	}
	// Its life is said once, and a certificate of another name does not take its place.
	short := Order{For: "short", Dir: o.Dir, Life: pki.Lifetime{Duration: 90 * day, MinTimeLeft: 30 * day}}
	for range 2 {
		done, err := h.Issue(short, t0)
		if err != nil || !done.NotAfter.Equal(t0.Add(90*day)) {
			t.Errorf("%+v, %v", done, err)
		}
		short.Life = pki.Lifetime{}
	}
	if done, err := h.Issue(short, t0.Add(70*day)); err != nil || !done.NotAfter.Equal(t0.Add(160*day)) {
		t.Errorf("%+v, %v", done, err)
	}
	tool := Order{For: ForEtcdctl, Dir: o.Dir}
	_, err = h.Issue(tool, t0)
	must(t, err)
	tool.For = "etcdctl-etcd-client"
	if _, err := h.Issue(tool, t0); !errors.Is(err, ErrForeign) {
		t.Errorf("another name in the same files: %v", err)
	}
	must(t, os.Remove(filepath.Join(h.PKI, pki.ClientsCA+".key")))
	if _, err := h.Issue(o, t0); !errors.Is(err, ErrNoAuthority) {
		t.Errorf("without the authority's key: %v", err)
	}
}

// What somebody else made is left where it is, or set aside on demand, byte for byte.
func TestForeignFiles(t *testing.T) {
	other := func(t *testing.T, h Host) *pki.Authority { // kubeadm's own, of a stacked etcd
		t.Helper()
		all, err := pki.Create(filepath.Join(t.TempDir(), "pki"), t0)
		must(t, err)
		return all.Clients
	}
	for name, put := range map[string]func(t *testing.T, h Host) []string{
		"another authority": func(t *testing.T, h Host) []string {
			write(t, h.at("etc/kubernetes/pki/etcd/ca.crt"), string(other(t, h).BundlePEM()))
			return []string{"etc/kubernetes/pki/etcd/ca.crt"}
		},
		"an authority that cannot be read": func(t *testing.T, h Host) []string {
			write(t, h.at("etc/kubernetes/pki/etcd/ca.crt"), "x")
			return []string{"etc/kubernetes/pki/etcd/ca.crt"}
		},
		"a key by itself": func(t *testing.T, h Host) []string {
			write(t, h.at("etc/kubernetes/pki/apiserver-etcd-client.key"), "x")
			return []string{"etc/kubernetes/pki/apiserver-etcd-client.key"}
		},
		"a pair of another authority": func(t *testing.T, h Host) []string {
			r, err := pki.ClientRequest("kube-apiserver-etcd-client", pki.DefaultLifetime())
			must(t, err)
			p := purposes[ForAPIServer]
			must(t, os.MkdirAll(h.at("etc/kubernetes/pki/etcd"), 0o755))
			_, err = pki.Ensure(h.at(p.dir), p.names, other(t, h), r, t0)
			must(t, err)
			return []string{"etc/kubernetes/pki/apiserver-etcd-client.crt", "etc/kubernetes/pki/apiserver-etcd-client.key", "etc/kubernetes/pki/etcd/ca.crt"}
		},
		"a certificate of this authority for another name": func(t *testing.T, h Host) []string {
			all, err := pki.Load(h.PKI, t0)
			must(t, err)
			r, err := pki.ClientRequest("somebody", pki.DefaultLifetime())
			must(t, err)
			p := purposes[ForAPIServer]
			must(t, os.MkdirAll(h.at("etc/kubernetes/pki/etcd"), 0o755))
			_, err = pki.Ensure(h.at(p.dir), p.names, all.Clients, r, t0)
			must(t, err)
			return []string{"etc/kubernetes/pki/apiserver-etcd-client.crt", "etc/kubernetes/pki/apiserver-etcd-client.key"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := host(t)
			before := map[string]string{}
			foreign := put(t, h)
			for _, f := range foreign {
				data, err := os.ReadFile(h.at(f))
				must(t, err)
				before[f] = string(data)
			}
			_, err := h.Issue(order(ForAPIServer), t0)
			var told *Error
			if !errors.Is(err, ErrForeign) || !errors.As(err, &told) || !strings.Contains(told.Hint(), "--set-aside") {
				t.Fatalf("%v", err)
			}
			for f, was := range before {
				if data, err := os.ReadFile(h.at(f)); err != nil || string(data) != was {
					t.Errorf("%s was changed: %v", f, err)
				}
			}
			o := order(ForAPIServer)
			o.SetAside, o.DryRun = true, true
			if done, err := h.Issue(o, t0); err != nil || len(done.Aside) != len(foreign) || done.Issued == "" {
				t.Errorf("%+v, %v", done, err)
			}
			o.DryRun = false
			done, err := h.Issue(o, t0)
			must(t, err)
			var aside []string
			for _, f := range done.Aside {
				data, err := os.ReadFile(f)
				of := strings.TrimPrefix(strings.Split(f, ".set-aside-")[0], h.at("")+"/")
				if err != nil || string(data) != before[of] {
					t.Errorf("%s, of %s: %v", f, of, err)
				}
				aside = append(aside, of)
			}
			if len(aside) != len(foreign) {
				t.Errorf("set aside %q, want %q", aside, foreign)
			}
			if c := listed(t, h, "apiserver-etcd-client.crt", t0); c.State != Good {
				t.Errorf("%+v", c)
			}
			if again, err := h.Issue(order(ForAPIServer), t0); err != nil || again.Issued != "" {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
}

// A run that was interrupted at any file is gone on from, and takes nothing for somebody else's.
func TestInterruptedIssue(t *testing.T) {
	p := purposes[ForAPIServer]
	for n, lost := range [][]string{{p.names.Cert, p.names.Key, p.names.CA}, {p.names.Cert, p.names.Key}, {p.names.Cert}} {
		h, _ := host(t)
		done, err := h.Issue(order(ForAPIServer), t0)
		must(t, err)
		r, err := readRecord(h.recordFile(done.Cert))
		must(t, err)
		r.Fingerprint, r.NotBefore, r.NotAfter, r.Trusted = "", time.Time{}, time.Time{}, nil
		must(t, h.keep(r))
		for _, f := range lost {
			must(t, os.Remove(filepath.Join(h.at(p.dir), f)))
		}
		if c := listed(t, h, p.names.Cert, t0); c.State != Damaged {
			t.Errorf("%d: %+v", n, c)
		}
		if done, err := h.Issue(order(ForAPIServer), t0); err != nil || done.Issued == "" || len(done.Aside) > 0 {
			t.Errorf("%d: %+v, %v", n, done, err)
		}
		if c := listed(t, h, p.names.Cert, t0); c.State != Good {
			t.Errorf("%d: %+v", n, c)
		}
	}
}

func TestList(t *testing.T) {
	h, all := host(t)
	o := order("alice")
	o.Dir = filepath.Join(t.TempDir(), "alice")
	issued, err := h.Issue(o, t0)
	must(t, err)
	got, err := h.List(t0)
	if err != nil || len(got) != 6 {
		t.Fatalf("%d: %+v, %v", len(got), got, err)
	}
	for _, c := range got {
		if c.State != Good || c.Issuer == "" || len(c.IssuedBy) != 64 || c.For == "" {
			t.Errorf("%+v", c)
		}
	}
	if c := listed(t, h, "daemon/me.crt", t0); c.Renews != ByAgent || c.Issuer != pki.ManagerCA {
		t.Errorf("%+v", c)
	}
	if c := listed(t, h, "etcd-peers-ca.crt", t0); c.Renews != ByNobody || c.Issuer != pki.PeersCA {
		t.Errorf("%+v", c)
	}
	for _, at := range []struct {
		file  string
		now   time.Time
		state State
	}{
		{"alice.crt", issued.NotAfter.Add(-Attention), Good},
		{"alice.crt", issued.NotAfter.Add(-Attention + time.Second), Expiring},
		{"alice.crt", issued.NotAfter.Add(time.Second), Expired},
		{"alice.crt", t0.Add(-day), NotYetValid},
		{"etcd-clients-ca.crt", t0.Add(pki.AuthorityLifetime - day), Expiring},
		{"etcd-clients-ca.crt", t0.Add(pki.AuthorityLifetime + day), Expired},
	} {
		if c := listed(t, h, at.file, at.now); c.State != at.state || c.State.Attention() != (at.state != Good) {
			t.Errorf("%s at %s: %+v, want %s", at.file, at.now, c, at.state)
		}
	}
	// A short life is not always near its end.
	o = order("short")
	o.Dir, o.Life = filepath.Dir(issued.Cert), pki.Lifetime{Duration: 4 * day, MinTimeLeft: day}
	_, err = h.Issue(o, t0)
	must(t, err)
	if c := listed(t, h, "short.crt", t0.Add(2*day)); c.State != Good {
		t.Errorf("%+v", c)
	}
	if c := listed(t, h, "short.crt", t0.Add(3*day+time.Hour)); c.State != Expiring {
		t.Errorf("%+v", c)
	}

	write(t, filepath.Join(h.Data, "etcdadm/pki/daemon/me.key"), "x")
	if c := listed(t, h, "daemon/me.crt", t0); c.State != Damaged || !strings.Contains(c.Why, "key") {
		t.Errorf("%+v", c)
	}
	key, err := os.ReadFile(issued.Key)
	must(t, err)
	must(t, os.Remove(issued.Key))
	if c := listed(t, h, "alice.crt", t0); c.State != Damaged {
		t.Errorf("%+v", c)
	}
	must(t, os.Remove(issued.Cert))
	if c := listed(t, h, "alice.crt", t0); c.State != Elsewhere || c.State.Attention() {
		t.Errorf("%+v", c)
	}
	later, err := h.List(issued.NotAfter.Add(day))
	must(t, err)
	for _, c := range later {
		if c.File == issued.Cert {
			t.Error("it has ended somewhere else, and is still listed")
		}
	}
	// Somebody puts another one there.
	stranger, err := pki.Create(filepath.Join(t.TempDir(), "pki"), t0)
	must(t, err)
	write(t, issued.Cert, string(stranger.Clients.BundlePEM()))
	write(t, issued.Key, string(key))
	if c := listed(t, h, "alice.crt", t0); !c.State.Attention() {
		t.Errorf("%+v", c)
	}
	// Another authority takes the place of this one.
	files, err := stranger.Manager.Files()
	must(t, err)
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(h.PKI, name), data, 0o600))
	}
	must(t, os.Remove(filepath.Join(h.Data, "etcdadm/pki/daemon/me.key")))
	if c := listed(t, h, "etcdctl/etcdadm.crt", t0); c.State != Good || c.IssuedBy != all.Clients.Fingerprints()[0] {
		t.Errorf("%+v", c)
	}
	if c := listed(t, h, "daemon/me.crt", t0); !c.State.Attention() {
		t.Errorf("%+v", c)
	}
	must(t, os.Remove(filepath.Join(h.PKI, pki.PeersCA+".crt")))
	if c := listed(t, h, "etcd-peers-ca.crt", t0); c.State != Damaged {
		t.Errorf("%+v", c)
	}
}

// What is due is renewed with its key and its names, everything on demand, and nothing twice.
func TestRenew(t *testing.T) {
	h, _ := host(t)
	issued, err := h.Issue(order(ForAPIServer), t0)
	must(t, err)
	key, err := os.ReadFile(issued.Key)
	must(t, err)
	renewed := func(o Renewal, now time.Time) (n int) {
		t.Helper()
		all, err := h.Renew(o, now)
		must(t, err)
		if len(all) != 3 {
			t.Fatalf("%+v", all)
		}
		for _, r := range all {
			if r.Failed != "" {
				t.Errorf("%+v", r)
			}
			if r.Renewed != "" {
				n++
			}
		}
		return n
	}
	due := t0.Add(500 * day)
	for _, step := range []struct {
		what string
		o    Renewal
		now  time.Time
		want int
	}{
		{"before anything is due", Renewal{}, t0.Add(day), 0},
		{"all, dry", Renewal{All: true, DryRun: true}, t0.Add(day), 3},
		{"due, dry", Renewal{DryRun: true}, due, 3},
		{"due", Renewal{}, due, 3},
		{"again", Renewal{}, due, 0},
		{"all", Renewal{All: true}, due.Add(day), 3},
		{"after an end that was missed", Renewal{}, due.Add(1000 * day), 3},
	} {
		if got := renewed(step.o, step.now); got != step.want {
			t.Errorf("%s: %d renewed, want %d", step.what, got, step.want)
		}
	}
	leaf, err := pki.ReadCertificates(h.Data + "/etcdadm/pki/daemon/me.crt")
	must(t, err)
	if id, err := pki.IdentityOf(leaf[0]); err != nil || id.ID != "a" || len(leaf[0].IPAddresses) != 1 {
		t.Errorf("%v, %v", id, err)
	}
	if now, err := os.ReadFile(issued.Key); err != nil || string(now) != string(key) {
		t.Errorf("the key changed: %v", err)
	}
	if c := listed(t, h, "apiserver-etcd-client.crt", due.Add(1001*day)); c.State != Good {
		t.Errorf("%+v", c)
	}

	// What somebody else has put there is not taken for ours.
	stranger, err := pki.Create(filepath.Join(t.TempDir(), "pki"), t0)
	must(t, err)
	must(t, os.WriteFile(issued.CA, stranger.Clients.BundlePEM(), 0o600))
	all, err := h.Renew(Renewal{All: true}, due.Add(1001*day))
	if err != nil || !strings.Contains(all[2].Failed, ErrForeign.Error()) || all[0].Failed != "" {
		t.Errorf("%+v, %v", all, err)
	}
	// Without a key of the authority each one says so, and serves on.
	must(t, os.Remove(filepath.Join(h.PKI, pki.ManagerCA+".key")))
	all, err = h.Renew(Renewal{All: true}, due.Add(1001*day))
	if err != nil || !strings.Contains(all[0].Failed, "key is not on this host") || all[1].Failed != "" {
		t.Errorf("%+v, %v", all, err)
	}
}

// After the authority was rotated, what it had issued is still known as ours, and gets the new one.
func TestRenewAfterRotation(t *testing.T) {
	h, _ := host(t)
	issued, err := h.Issue(order(ForAPIServer), t0)
	must(t, err)
	next, err := pki.Create(filepath.Join(t.TempDir(), "pki"), t0)
	must(t, err)
	files, err := next.Clients.Files()
	must(t, err)
	// Both are trusted before any leaf changes.
	bundle := filepath.Join(h.PKI, pki.ClientsCA+".crt")
	both, err := os.ReadFile(bundle)
	must(t, err)
	both = append(both, files[pki.ClientsCA+".crt"]...)
	must(t, os.WriteFile(bundle, both, 0o600))
	for n := range 2 {
		all, err := h.Renew(Renewal{}, t0.Add(day))
		must(t, err)
		for _, r := range all {
			if r.Failed != "" || r.Renewed != "" || r.Trust != (n == 0 && r.File == issued.Cert) {
				t.Errorf("%d: %+v", n, r)
			}
		}
	}
	if ca, err := os.ReadFile(issued.CA); err != nil || string(ca) != string(both) {
		t.Errorf("the CA file does not have both: %v", err)
	}
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(h.PKI, name), data, 0o600))
	}
	if c := listed(t, h, "apiserver-etcd-client.crt", t0); c.State != Untrusted {
		t.Errorf("%+v", c)
	}
	all, err := h.Renew(Renewal{}, t0.Add(day))
	must(t, err)
	for _, r := range all {
		if r.Failed != "" || (r.File != filepath.Join(h.Data, "etcdadm/pki/daemon/me.crt")) != (r.Renewed != "") {
			t.Errorf("%+v", r)
		}
	}
	if c := listed(t, h, "apiserver-etcd-client.crt", t0.Add(day)); c.State != Good || c.IssuedBy != next.Clients.Fingerprints()[0] {
		t.Errorf("%+v", c)
	}
	if ca, err := os.ReadFile(issued.CA); err != nil || string(ca) != string(next.Clients.BundlePEM()) {
		t.Errorf("the CA file is the old one: %v", err)
	}
}

// A member that this host has no more keeps its files, and nobody is asked to do anything about them.
func TestFormerMember(t *testing.T) {
	h, all := host(t)
	request, err := pki.PeerRequest("a", []string{"https://192.0.2.1:2380"}, nil, h.Life)
	must(t, err)
	_, err = pki.Ensure(filepath.Join(h.Data, "pki/old/peers"), pki.PeerNames, all.Peers, request, t0)
	must(t, err)
	late := t0.Add(h.Life.Duration + day)
	if c := listed(t, h, "old/peers/me.crt", late); c.State != Unused || c.State.Attention() || !strings.Contains(c.For, "former") {
		t.Errorf("%+v", c)
	}
	if all, err := h.Renew(Renewal{All: true}, late); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	// Where it is not known which member is the host's, none is called a former one.
	write(t, filepath.Join(h.Data, "etcdadm/state.json"), "x")
	if c := listed(t, h, "old/peers/me.crt", late); c.State != Expired {
		t.Errorf("%+v", c)
	}
	if all, err := h.Renew(Renewal{}, late); err != nil || len(all) != 3 || all[2].Renewed == "" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A record that cannot be read is one row, and hides no other certificate.
func TestDamagedRecord(t *testing.T) {
	h, _ := host(t)
	issued, err := h.Issue(order(ForEtcdctl), t0)
	must(t, err)
	write(t, filepath.Join(h.RecordDir(), "x.json"), "{")
	if c := listed(t, h, "x.json", t0); c.State != Damaged || c.Why == "" {
		t.Errorf("%+v", c)
	}
	if c := listed(t, h, issued.Cert, t0); c.State != Good {
		t.Errorf("%+v", c)
	}
	all, err := h.Renew(Renewal{All: true}, t0)
	if err != nil || len(all) != 4 || all[0].Failed == "" || all[3].Renewed == "" {
		t.Errorf("%+v, %v", all, err)
	}
	write(t, h.recordFile(issued.Cert), `{"format": 2}`)
	if _, err := h.Issue(order(ForEtcdctl), t0); err == nil || !strings.Contains(err.Error(), "has format 2") {
		t.Errorf("a record of a newer release: %v", err)
	}
}
