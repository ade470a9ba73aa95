package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
)

var (
	life = Life(90 * duration.Day)
	who  = Who{Cluster: "c1", Host: "host-b", Names: []string{"192.0.2.2", "host-b.example.com"}, Shared: []string{"etcd.example.com"}}
)

func ecKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// asked is a request as a host might make it that wants more than it may have.
func asked(t testing.TB, key crypto.Signer, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "host-b"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 2)}}
	if change != nil {
		change(r)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, r, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// What each kind may have, from the request of a well-behaved host to a certificate that serves.
func TestOwnCertificates(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	all, err := pki.Create(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []Kind{Daemon, Operator, Etcdctl, Peer, Server, Client} {
		names := map[Kind][]string{Daemon: who.Names, Peer: {"192.0.2.2", "127.0.0.1"}, Server: {"192.0.2.2", "localhost", "::1", "127.0.0.1", "etcd.example.com"}}[kind]
		want, err := who.request(kind, names, life)
		if err != nil {
			t.Fatal(err)
		}
		key := ecKey(t)
		request, err := pki.SigningRequest(key, want)
		if err != nil {
			t.Fatal(err)
		}
		public, r, err := Judge(kind, request, who, life)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		leaf, err := all.Of(kind.Authority()).Certify(public, r, now)
		if err != nil {
			t.Fatal(err)
		}
		got := NamesOf(leaf)
		for _, name := range names {
			if !slices.ContainsFunc(got, func(g string) bool { return Same(g, name) }) {
				t.Errorf("%s: %v lacks %s", kind, got, name)
			}
		}
		if leaf.IsCA || leaf.KeyUsage&x509.KeyUsageCertSign != 0 || leaf.NotAfter.After(now.Add(90*duration.Day)) {
			t.Errorf("%s: %+v until %s", kind, leaf.KeyUsage, leaf.NotAfter)
		}
	}
	if Life(730*duration.Day).Duration != MaxLife {
		t.Error("a certificate that is signed for another host lives longer than a year")
	}
}

// What is refused, and why.
func TestRefused(t *testing.T) {
	key := ecKey(t)
	identity := func(text string) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			r.URIs = []*url.URL{u}
		}
	}
	extension := func(id asn1.ObjectIdentifier, value any) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) {
			der, err := asn1.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			r.ExtraExtensions = []pkix.Extension{{Id: id, Critical: true, Value: der}}
		}
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err) // a later Go may refuse to make one
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := asked(t, key, nil)
	swapped := bytes.Clone(good)
	swapped[len(swapped)-1] ^= 1
	for name, c := range map[string]struct {
		kind    Kind
		request []byte
		want    error
	}{
		"nothing":                  {Peer, nil, ErrUnreadable},
		"noise":                    {Peer, []byte("\x30\x82\xff\xff garbage"), ErrUnreadable},
		"more behind it":           {Peer, append(bytes.Clone(good), 0), ErrUnreadable},
		"huge":                     {Peer, asked(t, key, func(r *x509.CertificateRequest) { r.IPAddresses = slices.Repeat(r.IPAddresses, 2000) }), ErrUnreadable},
		"no kind":                  {"root-of-all", good, ErrKind},
		"no kind at all":           {"", good, ErrKind},
		"a broken signature":       {Peer, swapped, ErrProof},
		"another host's name":      {Peer, asked(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"host-a.example.com"} }), ErrName},
		"another host's address":   {Server, asked(t, key, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }), ErrName},
		"every name":               {Server, asked(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"*.example.com"} }), ErrName},
		"every address":            {Server, asked(t, key, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4zero} }), ErrName},
		"localhost to peers":       {Peer, asked(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"localhost"} }), ErrName},
		"a shared name to daemons": {Daemon, asked(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"etcd.example.com"} }), ErrName},
		"addresses for a client":   {Client, asked(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = RootUser }), ErrName},
		"another common name":      {Peer, asked(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = "host-a" }), ErrName},
		"no common name":           {Peer, asked(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = "" }), ErrName},
		"another host's identity":  {Daemon, asked(t, key, identity("etcdadm://c1/host/host-a")), ErrName},
		"another cluster's":        {Daemon, asked(t, key, identity("etcdadm://c2/host/host-b")), ErrName},
		"an operator's":            {Daemon, asked(t, key, identity("etcdadm://c1/operator/operator")), ErrName},
		"an identity for etcd":     {Peer, asked(t, key, identity("etcdadm://c1/host/host-b")), ErrName},
		"to be an authority":       {Daemon, asked(t, key, extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ CA bool }{true})), ErrMore},
		"to sign":                  {Daemon, asked(t, key, extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0x06}, BitLength: 7})), ErrMore},
		"mail":                     {Daemon, asked(t, key, func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} }), ErrMore},
		"an organisation":          {Daemon, asked(t, key, func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), ErrMore},
		"a short RSA key":          {Peer, asked(t, weak, nil), ErrKey},
		"a short EC key":           {Peer, asked(t, small, nil), ErrKey},
		"SHA-1":                    {Peer, asked(t, key, func(r *x509.CertificateRequest) { r.SignatureAlgorithm = x509.ECDSAWithSHA1 }), ErrProof},
	} {
		public, r, err := Judge(c.kind, c.request, who, life)
		if !errors.Is(err, c.want) || public != nil || r.CommonName != "" {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err != nil && (len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x00")) {
			t.Errorf("%s: the error repeats too much: %q", name, err)
		}
	}
}

// The names of a host's daemon are all its own whatever it asks for: its other certificates go by them.
func TestADaemonsNamesAreItsHosts(t *testing.T) {
	_, r, err := Judge(Daemon, asked(t, ecKey(t), func(r *x509.CertificateRequest) { r.IPAddresses = nil }), who, life)
	if err != nil || len(r.IPs) != 1 || len(r.DNS) != 1 || r.Identity.String() != "etcdadm://c1/host/host-b" {
		t.Errorf("%+v, %v", r, err)
	}
	if got := Names("b", "192.0.2.2", ""); !slices.Equal(got, []string{"192.0.2.2"}) {
		t.Error(got)
	}
	if got := Names("b", "192.0.2.2", ".example.com"); !slices.Equal(got, []string{"192.0.2.2", "b.example.com"}) {
		t.Error(got)
	}
}

// FuzzJudge: whatever is asked for, nothing is signed but the host's own.
func FuzzJudge(f *testing.F) {
	key := ecKey(f)
	f.Add("daemon", asked(f, key, nil))
	f.Add("etcd-server", asked(f, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"localhost"} }))
	f.Add("etcd-client", asked(f, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = RootUser; r.IPAddresses = nil }))
	f.Add("operator", []byte("\x30\x00"))
	f.Fuzz(func(t *testing.T, kind string, request []byte) {
		public, r, err := Judge(Kind(kind), request, who, life)
		if err != nil {
			if public != nil || r.CommonName != "" {
				t.Fatal("refused, and given")
			}
			return
		}
		if r.Identity != (pki.Identity{}) && (r.Identity.Cluster != who.Cluster || r.Identity.ID != who.Host && r.Identity.ID != OperatorName) {
			t.Fatalf("signed for %s", r.Identity)
		}
		if r.CommonName != who.Host && r.CommonName != RootUser && r.CommonName != OperatorName {
			t.Fatalf("signed for %q", r.CommonName)
		}
		for _, name := range NamesOf(&x509.Certificate{DNSNames: r.DNS, IPAddresses: r.IPs}) {
			if len(strangers([]string{name}, who.may(Server))) > 0 {
				t.Fatalf("signed for %q", name)
			}
		}
	})
}
