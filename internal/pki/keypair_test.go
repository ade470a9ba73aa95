package pki

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRequests(t *testing.T) {
	life := DefaultLifetime()
	peer, err := PeerRequest("h1", []string{"https://h1.example:2380", "https://10.0.0.1:2380", "https://[fd00::1]:2380"}, []string{"10.0.0.1", "0.0.0.0", "H1.example."}, life)
	must(t, err)
	server, err := ServerRequest("h1", []string{"https://h1.example:4001"}, []string{"10.0.0.1"}, life)
	must(t, err)
	client, err := ClientRequest("root", life)
	must(t, err)
	person, err := CallerRequest(Identity{"c1", RoleOperator, "jo"}, life)
	must(t, err)
	_, all := created(t)
	for _, c := range []struct {
		a       *Authority
		r       Request
		cn, dns string
		ips     []string
		server  bool
	}{
		{all.Peers, peer, "h1", "h1.example", []string{"10.0.0.1", "fd00::1"}, true},
		{all.Clients, server, "h1", "h1.example,localhost", []string{"::1", "10.0.0.1", "127.0.0.1"}, true},
		{all.Clients, client, "root", "", nil, false},
		{all.Manager, person, "jo", "", nil, false},
	} {
		pair, err := c.a.Issue(c.r, t0)
		must(t, err)
		leaf := pair.Leaf()
		var ips []string
		for _, ip := range leaf.IPAddresses {
			ips = append(ips, ip.String())
		}
		if leaf.Subject.CommonName != c.cn || strings.Join(leaf.DNSNames, ",") != c.dns || strings.Join(ips, ",") != strings.Join(c.ips, ",") {
			t.Errorf("CN %q, DNS %q, IPs %q", leaf.Subject.CommonName, leaf.DNSNames, ips)
		}
		asServer := verifyLeaf(leaf, nil, c.a.Pool(), x509.ExtKeyUsageServerAuth, t0)
		if asClient := verifyLeaf(leaf, nil, c.a.Pool(), x509.ExtKeyUsageClientAuth, t0); asClient != nil || (asServer == nil) != c.server {
			t.Errorf("%s: as client %v, as server %v", c.cn, asClient, asServer)
		}
		if !leaf.NotBefore.Equal(t0.Add(-5*time.Minute)) || !leaf.NotAfter.Equal(t0.Add(730*day)) || leaf.SerialNumber.BitLen() < 64 || leaf.SerialNumber.BitLen() > 128 {
			t.Errorf("%s: from %s to %s, serial of %d bits", c.cn, leaf.NotBefore, leaf.NotAfter, leaf.SerialNumber.BitLen())
		}
	}
	for name, err := range map[string]error{
		"no host in a URL":     second(PeerRequest("h1", []string{"https://:2380"}, nil, life)),
		"no URL at all":        second(ServerRequest("h1", []string{"h1"}, nil, life)),
		"a strange name":       second(PeerRequest("h1", nil, []string{"a b"}, life)),
		"a placeholder":        second(PeerRequest("h1", []string{"https://__name__:x"}, nil, life)),
		"no user":              second(ClientRequest("", life)),
		"operator as host":     second(HostRequest(Identity{"c1", RoleOperator, "jo"}, nil, life)),
		"host as operator":     second(CallerRequest(Identity{"c1", RoleHost, "h1"}, life)),
		"strange cluster":      second(HostRequest(Identity{"c 1", RoleHost, "h1"}, nil, life)),
		"a lifetime too short": second(all.Peers.Issue(Request{CommonName: "x", Lifetime: Lifetime{Duration: 1}}, t0)),
	} {
		if err == nil {
			t.Errorf("%s passed", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// ensure calls Ensure and then once more, which must find nothing to do.
func ensure(t *testing.T, dir string, a *Authority, r Request, now time.Time) Ensured {
	t.Helper()
	done, err := Ensure(dir, PeerNames, a, r, now)
	must(t, err)
	before := snapshot(t, dir)
	again, err := Ensure(dir, PeerNames, a, r, now)
	must(t, err)
	if again.Issued != "" || again.TrustChanged || !bytes.Equal(before, snapshot(t, dir)) {
		t.Fatalf("not idempotent: %+v after %+v", again, done)
	}
	return done
}

func TestEnsureLife(t *testing.T) {
	_, all := created(t)
	dir := filepath.Join(t.TempDir(), "pki", "token", "peers")
	r := hostRequest(t, "h1", "10.0.0.1")
	first := ensure(t, dir, all.Peers, r, t0)
	if first.Issued == "" || !first.TrustChanged {
		t.Fatalf("first: %+v", first)
	}
	wantMode(t, dir, 0o700)
	wantMode(t, filepath.Join(dir, "me.key"), 0o600)
	wantMode(t, filepath.Join(dir, "me.crt"), 0o644)
	wantMode(t, filepath.Join(dir, "ca.crt"), 0o644)

	keep := func(name string, now time.Time, r Request, want bool) Ensured {
		t.Helper()
		key, err := os.ReadFile(filepath.Join(dir, "me.key"))
		must(t, err)
		done := ensure(t, dir, all.Peers, r, now)
		if issued := done.Issued != ""; issued != want {
			t.Errorf("%s: issued: %q", name, done.Issued)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, "me.key")); !bytes.Equal(key, after) {
			t.Errorf("%s: the key changed", name)
		}
		loaded, err := LoadKeypair(dir, PeerNames)
		must(t, err)
		if !loaded.Leaf().Equal(done.Pair.Leaf()) {
			t.Errorf("%s: the pair on disk is another one", name)
		}
		return done
	}
	keep("a year later", t0.Add(365*day), r, false)
	keep("before two thirds", t0.Add(486*day), r, false)
	keep("after two thirds", t0.Add(487*day), r, true)
	now := t0.Add(488 * day)
	r.Lifetime.MinTimeLeft = 729 * day
	keep("just enough left", now.Add(-time.Minute), r, false)
	keep("not enough left", now, r, true)
	moved := hostRequest(t, "h1", "10.0.0.2")
	keep("another address", now, moved, true)
	keep("an address more", now, hostRequest(t, "h1", "10.0.0.2", "10.0.0.3"), true)
	keep("expired long ago", now.Add(1000*day), moved, true)
	keep("the clock went back", t0, moved, true)
}

// The last renewals of an authority's life do not turn into one a tick.
func TestEnsureAtTheEndOfTheAuthority(t *testing.T) {
	dir := t.TempDir()
	k := ecKey(t)
	ca := newCA(t, "ca", k, t0.Add(-day), t0.Add(100*day))
	install(t, dir, PeersCA, k, ca)
	a, err := LoadAuthority(dir, PeersCA, t0)
	must(t, err)
	files, issued := t.TempDir(), 0
	for now := t0; now.Before(t0.Add(100 * day)); now = now.Add(time.Hour) {
		done, err := Ensure(files, PeerNames, a, hostRequest(t, "h1"), now)
		must(t, err)
		if done.Issued != "" {
			issued++
		}
	}
	if issued != 1 {
		t.Errorf("issued %d times", issued)
	}
}

func TestEnsureRotatedAuthority(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	oldKey, newKey := ecKey(t), rsaKey(t)
	oldCA := newCA(t, "ca", oldKey, t0.Add(-day), t0.Add(900*day))
	newer := newCA(t, "ca", newKey, t0.Add(-day), t0.Add(900*day)) // of the same name, as rotated ones usually are
	r := hostRequest(t, "h1")
	step := func(key int, bundle ...someCA) Ensured {
		t.Helper()
		install(t, dir, PeersCA, bundle[key].key, bundle...)
		a, err := LoadAuthority(dir, PeersCA, t0)
		must(t, err)
		return ensure(t, files, a, r, t0)
	}
	if d := step(0, oldCA); d.Issued == "" {
		t.Errorf("start: %+v", d)
	}
	if d := step(0, oldCA, newer); d.Issued != "" || !d.TrustChanged {
		t.Errorf("both trusted, old signs: %+v", d)
	}
	if d := step(1, oldCA, newer); d.Issued == "" || d.TrustChanged {
		t.Errorf("both trusted, new signs: %+v", d)
	}
	if d := step(0, newer); d.Issued != "" || !d.TrustChanged {
		t.Errorf("only the new one: %+v", d)
	}
}

func TestEnsureWithoutTheAuthoritysKey(t *testing.T) {
	pkiDir, all := created(t)
	files := t.TempDir()
	r := hostRequest(t, "h1")
	ensure(t, files, all.Manager, r, t0)
	must(t, os.Remove(filepath.Join(pkiDir, ManagerCA+".key")))
	a, err := LoadAuthority(pkiDir, ManagerCA, t0)
	must(t, err)
	if d := ensure(t, files, a, r, t0); d.Issued != "" || d.Overdue != nil {
		t.Errorf("nothing due: %+v", d)
	}
	late := t0.Add(600 * day)
	d, err := Ensure(files, PeerNames, a, r, late)
	if err != nil || !errors.Is(d.Overdue, ErrNoKey) || d.Pair == nil {
		t.Errorf("due: %+v, %v", d, err)
	}
	if d, err := Ensure(files, PeerNames, a, r, t0.Add(731*day)); !errors.Is(err, ErrNoKey) || d.Pair != nil || !strings.Contains(err.Error(), filepath.Join(files, "me.crt")+": the certificate ended at ") {
		t.Errorf("expired: %+v, %v", d, err)
	}
	if _, err := Ensure(files, PeerNames, a, r, t0.Add(-2*time.Hour)); err == nil || !strings.Contains(err.Error(), "not valid before") {
		t.Errorf("ahead: %v", err)
	}
	if _, err := Ensure(t.TempDir(), PeerNames, a, r, t0); !errors.Is(err, ErrNoKey) {
		t.Errorf("absent: %v", err)
	}
}

func TestEnsureAfterDamage(t *testing.T) {
	_, all := created(t)
	r := hostRequest(t, "h1")
	for name, damage := range map[string]func(t *testing.T, dir string){
		"no key": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "me.key"), filepath.Join(dir, "x")))
		},
		"an empty key": func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "me.key"), 0)) },
		"half a key":   func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "me.key"), 100)) },
		"no certificate": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "me.crt"), filepath.Join(dir, "x")))
		},
		"an empty certificate": func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "me.crt"), 0)) },
		"another's key": func(t *testing.T, dir string) {
			data, err := encodeKey(ecKey(t))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, "me.key"), data, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ensure(t, dir, all.Manager, r, t0)
			damage(t, dir)
			if _, err := LoadKeypair(dir, PeerNames); err == nil {
				t.Fatal("the damage does not show")
			}
			before, _ := os.ReadFile(filepath.Join(dir, "me.key"))
			if d := ensure(t, dir, all.Manager, r, t0); d.Issued == "" {
				t.Error("not mended")
			}
			if _, err := LoadKeypair(dir, PeerNames); err != nil {
				t.Error(err)
			}
			if strings.Contains(name, "empty key") || strings.Contains(name, "half") {
				aside, _ := filepath.Glob(filepath.Join(dir, "me.key.unreadable-*"))
				if len(aside) != 1 {
					t.Fatalf("set aside: %v", aside)
				}
				if data, _ := os.ReadFile(aside[0]); !bytes.Equal(data, before) {
					t.Error("what was set aside is not what was there")
				}
			}
		})
	}
}

// A data directory of etcd-manager: RSA keys, other names in the certificate, perhaps open modes.
func TestEnsureAdoptsRSAKey(t *testing.T) {
	_, all := created(t)
	dir := t.TempDir()
	old := rsaKey(t)
	must(t, os.WriteFile(filepath.Join(dir, "me.key"), pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(old)), 0o644))
	d := ensure(t, dir, all.Peers, hostRequest(t, "h1"), t0)
	if k, ok := d.Pair.key.(*rsa.PrivateKey); !ok || !k.Equal(old) {
		t.Errorf("the key was not kept: %T", d.Pair.key)
	}
	wantMode(t, filepath.Join(dir, "me.key"), 0o600)
}

// A process that reads certificate and key at each handshake, as etcd does, never reads two that do not match, however
// often the pair is renewed meanwhile.
func TestReaderNeverSeesAMismatch(t *testing.T) {
	_, all := created(t)
	dir := t.TempDir()
	r := hostRequest(t, "h1")
	ensure(t, dir, all.Peers, r, t0)
	ctx, stop := context.WithCancel(t.Context())
	readErr := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "me.crt"), filepath.Join(dir, "me.key")); err != nil {
				readErr <- err
				return
			}
		}
		readErr <- nil
	}()
	for i := range 200 {
		r.IPs = []net.IP{net.IPv4(10, 0, 0, byte(i)).To4()}
		d, err := Ensure(dir, PeerNames, all.Peers, r, t0)
		must(t, err)
		if d.Issued == "" {
			t.Fatal("nothing was renewed")
		}
	}
	stop()
	must(t, <-readErr)
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
