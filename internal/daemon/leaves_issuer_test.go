package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// Leaves of an authority that somebody else signed, whose own certificate is trusted as well, in whatever order: the files show what
// stands between, and the daemon tells who signed the leaf itself.
func TestLeavesOfAnAuthorityThatAnIssuerSigned(t *testing.T) {
	now := time.Now()
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pki.PublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string, serial int64, public any, by *x509.Certificate) *x509.Certificate {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(serial), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-6 * time.Hour), NotAfter: now.Add(1000 * time.Hour)}
		if by == nil {
			by = c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, public, rootKey)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	root := made("corp", 1, rootKey.Public(), nil)
	own := made(pki.ClientsCA, 2, public, root)
	r := newRenewer(t)
	for _, order := range [][]*x509.Certificate{{own, root}, {root, own}} {
		dir, bundle := t.TempDir(), []byte(nil)
		for _, c := range order {
			bundle = append(bundle, pki.CertificatePEM(c)...)
		}
		r.write(filepath.Join(dir, pki.ClientsCA+".crt"), bundle)
		r.write(filepath.Join(dir, pki.ClientsCA+".key"), key)
		if r.cas.Clients, err = pki.LoadAuthority(dir, pki.ClientsCA, now); err != nil {
			t.Fatal(err)
		}
		r.put("c", "a", time.Hour)
		for _, name := range []string{"server.crt", "client.crt"} {
			leaf, err := os.ReadFile(filepath.Join(r.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			r.write(filepath.Join(r.dir, name), append(leaf, pki.CertificatePEM(own)...))
		}
		var redialled, noticed int
		k := r.daemon(&redialled, &noticed)
		if p := k.problems(); len(p) > 0 {
			t.Errorf("%+v", p)
		}
		want := []string{pki.Fingerprint(own), pki.Fingerprint(root)}
		slices.Sort(want)
		a, is := k.told().Of(pki.ClientsCA)
		if !is || !slices.Equal(a.Trusts, want) || !slices.Equal(a.Leaves, []string{pki.Fingerprint(own)}) {
			t.Errorf("told: %+v", a)
		}
		if trusts := trustedBy([]string{"--trusted-ca-file=" + k.pair(leafServer, "").file(pki.ClientsCA+".crt")}); !slices.Equal(trusts, want) {
			t.Errorf("an etcd that starts now trusts %v", trusts)
		}
	}
}

// Leaves that end with an authority of an issuer, which lives for less than the others, are not told as not renewed: nobody could give
// any that last longer. Those of the others are, and so are these once their authority has one that lasts.
func TestLeavesThatEndWithTheirAuthority(t *testing.T) {
	now := time.Now()
	r := newRenewer(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: pki.ClientsCA}, SerialNumber: big.NewInt(3), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-10 * time.Hour), NotAfter: now.Add(time.Hour)}
	sign := func(c, by *x509.Certificate, public any, with *ecdsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, c, by, public, with)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	own := sign(c, c, key.Public(), key)
	dir := t.TempDir()
	load := func(all ...*x509.Certificate) *pki.Authority {
		bundle := []byte(nil)
		for _, c := range all {
			bundle = append(bundle, pki.CertificatePEM(c)...)
		}
		r.write(filepath.Join(dir, pki.ClientsCA+".crt"), bundle)
		a, err := pki.LoadAuthority(dir, pki.ClientsCA, now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "root"}, SerialNumber: big.NewInt(4), KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
	leaf = sign(leaf, own, key.Public(), key)
	cas := *r.cas
	cas.Clients = load(own)
	k := &certs{cas: &cas, given: true, leaves: map[string]*x509.Certificate{leafServer: leaf}}
	if p := k.problems(); len(p) > 0 {
		t.Errorf("%+v", p)
	}
	lasting := *c
	lasting.SerialNumber, lasting.NotAfter = big.NewInt(5), now.Add(1000*time.Hour)
	cas.Clients = load(own, sign(&lasting, &lasting, key.Public(), key))
	if p := k.problems(); len(p) != 1 || p[0].Code != "not-renewed" {
		t.Errorf("%+v", p)
	}
}
