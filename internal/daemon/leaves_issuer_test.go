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
