package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/regular"
)

func TestCreateThenLoad(t *testing.T) {
	dir, all := created(t)
	wantMode(t, dir, 0o700)
	for _, a := range all.All() {
		wantMode(t, filepath.Join(dir, a.Name()+".crt"), 0o644)
		wantMode(t, filepath.Join(dir, a.Name()+".key"), 0o600)
		if got := a.signing.NotAfter; !got.Equal(t0.Add(10 * 365 * day)) {
			t.Errorf("%s ends %s", a.Name(), got)
		}
		if k, ok := a.key.(*ecdsa.PrivateKey); !ok || k.Curve != elliptic.P256() {
			t.Errorf("%s has a key of type %T", a.Name(), a.key)
		}
	}
	before := snapshot(t, dir)
	if _, err := Create(dir, t0.Add(day)); err != nil {
		t.Fatal(err)
	}
	if after := snapshot(t, dir); !bytes.Equal(before, after) {
		t.Error("a second Create changed what was there")
	}
}

// A crash after the key was written, and a certificate whose key is kept elsewhere, are both left as they are.
func TestCreateCompletes(t *testing.T) {
	dir, _ := created(t)
	must(t, os.Remove(filepath.Join(dir, PeersCA+".crt")))
	must(t, os.Remove(filepath.Join(dir, ClientsCA+".key")))
	key, err := os.ReadFile(filepath.Join(dir, PeersCA+".key"))
	must(t, err)
	all, err := Create(dir, t0)
	must(t, err)
	if after, _ := os.ReadFile(filepath.Join(dir, PeersCA+".key")); !bytes.Equal(key, after) {
		t.Error("the lone key was replaced")
	}
	if !all.Peers.CanIssue() || all.Clients.CanIssue() {
		t.Errorf("peers can issue: %v, clients can issue: %v", all.Peers.CanIssue(), all.Clients.CanIssue())
	}
}

func TestCreateTwiceAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = Create(dir, t0) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	if entries, _ := os.ReadDir(dir); len(entries) != 6 {
		t.Errorf("the directory holds %v", entries)
	}
}

func snapshot(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = fmt.Appendf(all, "%s\n%s\n", path, data)
		return err
	}))
	return all
}

func TestKeyEncodings(t *testing.T) {
	r, e := rsaKey(t), ecKey(t).(*ecdsa.PrivateKey)
	sec1, err := x509.MarshalECPrivateKey(e)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(r)
	must(t, err)
	for name, c := range map[string]struct {
		pem []byte
		key crypto.Signer
	}{
		"PKCS 1":                     {pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r)), r},
		"PKCS 8":                     {pemOf("PRIVATE KEY", pkcs8), r},
		"SEC 1":                      {pemOf("EC PRIVATE KEY", sec1), e},
		"SEC 1 after its parameters": {append(pemOf("EC PARAMETERS", []byte{6, 1, 1}), pemOf("EC PRIVATE KEY", sec1)...), e},
	} {
		got, err := parseKey(c.pem)
		if err != nil || !sameKey(got.Public(), c.key.Public()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	edDER, err := x509.MarshalPKCS8PrivateKey(ed)
	must(t, err)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	must(t, err)
	smallDER, err := x509.MarshalECPrivateKey(small)
	must(t, err)
	for name, c := range map[string]struct {
		pem  []byte
		want error
	}{
		"Ed25519":   {pemOf("PRIVATE KEY", edDER), ErrKeyKind},
		"RSA 1024":  {pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(short)), ErrKeyKind},
		"P-224":     {pemOf("EC PRIVATE KEY", smallDER), ErrKeyKind},
		"encrypted": {pemOf("ENCRYPTED PRIVATE KEY", []byte("x")), ErrPEM},
		"empty":     {nil, ErrPEM},
		"garbage":   {pemOf("RSA PRIVATE KEY", []byte("not a key")), ErrPEM},
	} {
		if _, err := parseKey(c.pem); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestLoadRSAAuthorityIssues(t *testing.T) {
	dir := t.TempDir()
	ca := newCA(t, "old", rsaKey(t), t0.Add(-day), t0.Add(day))
	install(t, dir, PeersCA, nil, ca)
	must(t, os.WriteFile(filepath.Join(dir, PeersCA+".key"), pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(ca.key.(*rsa.PrivateKey))), 0o600))
	a, err := LoadAuthority(dir, PeersCA, t0)
	must(t, err)
	pair, err := a.Issue(hostRequest(t, "h1", "10.0.0.1"), t0)
	must(t, err)
	if pair.Leaf().PublicKeyAlgorithm != x509.ECDSA || !pair.Leaf().NotAfter.Equal(ca.cert.NotAfter) {
		t.Errorf("leaf: %v until %v", pair.Leaf().PublicKeyAlgorithm, pair.Leaf().NotAfter)
	}
}

func TestLoadBundle(t *testing.T) {
	dir := t.TempDir()
	k := ecKey(t)
	before := newCA(t, "before", ecKey(t), t0.Add(-10*day), t0.Add(-day)) // expired, still in the bundle
	short := newCA(t, "mine", k, t0.Add(-day), t0.Add(day))
	long := newCA(t, "mine", k, t0.Add(-day), t0.Add(9*day)) // the same key, renewed
	future := newCA(t, "mine", k, t0.Add(day), t0.Add(90*day))
	other := newCA(t, "other", ecKey(t), t0.Add(-day), t0.Add(5*day))
	install(t, dir, PeersCA, k, before, short, long, future, other)
	a, err := LoadAuthority(dir, PeersCA, t0)
	must(t, err)
	if a.signing.SerialNumber.Cmp(long.cert.SerialNumber) != 0 {
		t.Errorf("%s until %s signs", a.signing.Subject, a.signing.NotAfter)
	}
	if got := len(a.Expiries()); got != 5 || !a.Expiries()[0].NotAfter.Equal(long.cert.NotAfter) || a.Expiries()[1].Name != PeersCA+"[1]" {
		t.Errorf("expiries: %v", a.Expiries())
	}
	// A leaf of the bundle's other authority is trusted.
	dir2 := t.TempDir()
	install(t, dir2, PeersCA, other.key, other)
	b, err := LoadAuthority(dir2, PeersCA, t0)
	must(t, err)
	pair, err := b.Issue(hostRequest(t, "h1"), t0)
	must(t, err)
	must(t, verifyLeaf(pair.Leaf(), nil, a.Pool(), x509.ExtKeyUsageServerAuth, t0))
}

func TestLoadRefuses(t *testing.T) {
	k := ecKey(t)
	good := newCA(t, "good", k, t0.Add(-day), t0.Add(day))
	crt, key := PeersCA+".crt", PeersCA+".key"
	write := func(t *testing.T, path string, data string) { must(t, os.WriteFile(path, []byte(data), 0o600)) }
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    error
		file    string
	}{
		"nothing there": {func(*testing.T, string) {}, fs.ErrNotExist, crt},
		"another's key": {func(t *testing.T, dir string) { install(t, dir, PeersCA, ecKey(t), good) }, ErrMismatch, key},
		"expired": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, k, newCA(t, "x", k, t0.Add(-9*day), t0.Add(-day)))
		}, ErrExpired, crt},
		"expired, no key": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, nil, newCA(t, "x", k, t0.Add(-9*day), t0.Add(-day)))
		}, ErrExpired, crt},
		"signer expired beside a valid one": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, k, newCA(t, "x", k, t0.Add(-9*day), t0.Add(-day)), newCA(t, "y", ecKey(t), t0.Add(-day), t0.Add(day)))
		}, ErrExpired, crt},
		"not yet valid": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, k, newCA(t, "x", k, t0.Add(time.Hour), t0.Add(day)))
		}, ErrNotYetValid, crt},
		"not a CA": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, k, newCA(t, "x", k, t0.Add(-day), t0.Add(day), func(c *x509.Certificate) { c.IsCA = false }))
		}, ErrNotCA, crt},
		"a CA that may not sign": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, k, newCA(t, "x", k, t0.Add(-day), t0.Add(day), func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }))
		}, ErrNotCA, crt},
		"an empty file": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, crt), "") }, ErrPEM, crt},
		"a key as certificate": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, crt), string(pemOf("PRIVATE KEY", []byte("x"))))
		}, ErrPEM, crt},
		"a broken certificate": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, crt), string(pemOf("CERTIFICATE", []byte("x"))))
		}, ErrPEM, crt},
		"a file far too large": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, crt), strings.Repeat("x", regular.SmallSize+1))
		}, ErrPEM, crt},
		"a key file with nothing": {func(t *testing.T, dir string) {
			install(t, dir, PeersCA, k, good)
			write(t, filepath.Join(dir, key), "")
		}, ErrPEM, key},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.prepare(t, dir)
			_, err := LoadAuthority(dir, PeersCA, t0)
			var typed *Error
			if !errors.Is(err, c.want) || !errors.As(err, &typed) {
				t.Fatalf("got %v, want %v in an *Error", err, c.want)
			}
			if typed.File != filepath.Join(dir, c.file) || !strings.Contains(err.Error(), typed.File) || typed.Hint() == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("not one sentence with the file's name and a hint: %q", err)
			}
		})
	}
}

func TestIssueWithoutKey(t *testing.T) {
	dir, _ := created(t)
	must(t, os.Remove(filepath.Join(dir, ManagerCA+".key")))
	all, err := Load(dir, t0)
	must(t, err)
	_, err = all.Manager.Issue(hostRequest(t, "h1"), t0)
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), ManagerCA+".key") {
		t.Errorf("got %v", err)
	}
}

func TestNoKeyInAnyVerb(t *testing.T) {
	_, all := created(t)
	pair, err := all.Manager.Issue(hostRequest(t, "h1"), t0)
	must(t, err)
	number := func(key crypto.Signer) string { // as fmt would show it
		raw, err := key.(*ecdsa.PrivateKey).Bytes()
		must(t, err)
		return new(big.Int).SetBytes(raw).String()
	}
	secret, caSecret := number(pair.key), number(all.Manager.key)
	if !strings.Contains(fmt.Sprintf("%v", pair.key), secret) {
		t.Fatal("fmt shows keys in another form now")
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb+" "+verb, pair, all.Manager); strings.Contains(got, secret) || strings.Contains(got, caSecret) || strings.Contains(got, "ecdsa") {
			t.Errorf("%s shows the key: %s", verb, got)
		}
	}
}

func FuzzPEM(f *testing.F) {
	k := ecKey(f)
	ca := newCA(f, "x", k, t0, t0.Add(day))
	key, err := encodeKey(k)
	must(f, err)
	f.Add(encodeCertificates(ca.cert, ca.cert))
	f.Add(key)
	f.Add(append(encodeCertificates(ca.cert), key...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if certs, err := parseCertificates(data); err == nil {
			again, err := parseCertificates(encodeCertificates(certs...))
			if err != nil || len(again) != len(certs) {
				t.Fatalf("%d certificates became %d: %v", len(certs), len(again), err)
			}
		} else if !errors.Is(err, ErrPEM) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if signer, err := parseKey(data); err == nil {
			if _, err := encodeKey(signer); err != nil {
				t.Fatal(err)
			}
		} else if !unreadable(err) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}
