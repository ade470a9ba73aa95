package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/internal/duration"
)

// t0 is when all the tests begin. It is a moment of the real calendar only so that failures read well.
var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const day = duration.Day

// someCA is an authority made by somebody else's tool.
type someCA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newCA(t testing.TB, name string, key crypto.Signer, from, to time.Time, change ...func(*x509.Certificate)) someCA {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return someCA{cert, key}
}

func ecKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return k
}

func rsaKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	return k
}

// install writes a bundle and a key (none when nil) as authority name in dir.
func install(t testing.TB, dir, name string, key crypto.Signer, bundle ...someCA) {
	t.Helper()
	var certs []*x509.Certificate
	for _, ca := range bundle {
		certs = append(certs, ca.cert)
	}
	must(t, os.WriteFile(filepath.Join(dir, name+".crt"), encodeCertificates(certs...), modePublic))
	_ = os.Remove(filepath.Join(dir, name+".key"))
	if key != nil {
		data, err := encodeKey(key)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name+".key"), data, modeKey))
	}
}

func created(t testing.TB) (string, *Authorities) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	all, err := Create(dir, t0)
	must(t, err)
	return dir, all
}

func hostRequest(t testing.TB, id string, addresses ...string) Request {
	t.Helper()
	r, err := HostRequest(Identity{Cluster: "c1", Role: RoleHost, ID: id}, addresses, DefaultLifetime())
	must(t, err)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
