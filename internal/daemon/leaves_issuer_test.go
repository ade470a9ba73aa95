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
	next := *c // of another key, to which a rotation goes
	next.SerialNumber, next.NotAfter = big.NewInt(6), now.Add(1000*time.Hour)
	nextKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cas.Clients = load(own, sign(&next, &next, nextKey.Public(), nextKey))
	if p := k.problems(); len(p) > 0 {
		t.Errorf("while the next authority is trusted as well: %+v", p)
	}
	lasting := *c
	lasting.SerialNumber, lasting.NotAfter = big.NewInt(5), now.Add(1000*time.Hour)
	cas.Clients = load(own, sign(&lasting, &lasting, key.Public(), key))
	if p := k.problems(); len(p) != 1 || p[0].Code != "not-renewed" {
		t.Errorf("%+v", p)
	}
}

// A leaf that ends with what stands between its authority and the issuer, or with the issuer's own certificate where that is trusted, is
// not told as not renewed.
func TestLeavesThatEndWithWhatIsShown(t *testing.T) {
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nextKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string, ends time.Duration, by *x509.Certificate, public *ecdsa.PrivateKey, with *ecdsa.PrivateKey) *x509.Certificate {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(int64(ends)), IsCA: name != "root", BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-10 * time.Hour), NotAfter: now.Add(ends)}
		if by == nil {
			by = c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, public.Public(), with)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const first, later = time.Hour, 1000 * time.Hour
	for _, test := range []struct {
		between, top     time.Duration
		shown, topIsHere bool
		told             bool
	}{
		{between: first, top: later, shown: true},
		{between: first, top: later, told: true},
		{between: later, top: first, shown: true, topIsHere: true},
		{between: later, top: first, shown: true, told: true},
		{between: later, top: later, shown: true, topIsHere: true, told: true},
	} {
		top := made("corp", test.top, nil, key, key)
		between := made("issuing", test.between, top, nextKey, key)
		own := made(pki.ClientsCA, later, between, key, nextKey)
		leaf := made("root", first, own, nextKey, key)
		r := newRenewer(t)
		dir, bundle := t.TempDir(), pki.CertificatePEM(own)
		if test.topIsHere {
			bundle += pki.CertificatePEM(top)
		}
		r.write(filepath.Join(dir, pki.ClientsCA+".crt"), []byte(bundle))
		cas := *r.cas
		if cas.Clients, err = pki.LoadAuthority(dir, pki.ClientsCA, now); err != nil {
			t.Fatal(err)
		}
		k := &certs{cas: &cas, given: true, leaves: map[string]*x509.Certificate{leafServer: leaf}, behind: map[string][]*x509.Certificate{}}
		if test.shown {
			k.behind[leafServer] = []*x509.Certificate{own, between}
		}
		if p := k.problems(); len(p) > 0 != test.told {
			t.Errorf("%+v: %+v", test, p)
		}
	}
}
