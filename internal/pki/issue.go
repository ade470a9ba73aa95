package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net/url"
	"time"
)

// Keypair is a leaf certificate with its private key. It never changes.
type Keypair struct {
	leaf   *x509.Certificate
	behind []*x509.Certificate // in its file
	key    crypto.Signer
}

// Leaf is the certificate; nil: there is none yet, see Candidate. It must not be changed.
func (k *Keypair) Leaf() *x509.Certificate { return k.leaf }

// Behind are the certificates that the leaf's file has behind it, as it was read. They must not be changed.
func (k *Keypair) Behind() []*x509.Certificate { return k.behind }

// TLS is the pair as crypto/tls wants it.
func (k *Keypair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{k.leaf.Raw}, PrivateKey: k.key, Leaf: k.leaf}
}

// String tells the certificate and never the key, whatever the verb.
func (k *Keypair) String() string {
	if k.leaf == nil {
		return "a key without a certificate"
	}
	return fmt.Sprintf("certificate of %q, serial %x, valid until %s", k.leaf.Subject, k.leaf.SerialNumber, stamp(k.leaf.NotAfter))
}
func (k *Keypair) GoString() string { return k.String() }

// LogValue is String, for log/slog.
func (k *Keypair) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Issue makes a leaf with a new key. It gives an *Error around ErrNoKey when the authority's private
// key is not on this host.
func (a *Authority) Issue(r Request, now time.Time) (*Keypair, error) {
	key, err := newKey(r.Key)
	if err != nil {
		return nil, err
	}
	return a.issueFor(key, r, now)
}

// issueFor makes a leaf for a key that exists.
func (a *Authority) issueFor(key crypto.Signer, r Request, now time.Time) (*Keypair, error) {
	leaf, err := a.Certify(key.Public(), r, now)
	if err != nil {
		return nil, err
	}
	return &Keypair{leaf: leaf, key: key}, nil
}

// Certify makes a leaf for a public key, whose private key may be on another host. What it returns was verified
// against the authority's own bundle. Errors: as of Issue.
func (a *Authority) Certify(public crypto.PublicKey, r Request, now time.Time) (*x509.Certificate, error) {
	failed := func(err error, advice string) (*x509.Certificate, error) {
		return nil, &Error{Op: "issue certificate of " + r.CommonName, File: a.file, Err: err, Advice: advice}
	}
	if a.key == nil {
		return nil, &Error{Op: "issue certificate of " + r.CommonName, File: a.keyFile, Err: fmt.Errorf("%s: %w", a.name, ErrNoKey),
			Advice: "put the key there, or issue the certificate on a host that has it and copy it here"}
	}
	if err := r.Lifetime.Validate(); err != nil {
		return failed(err, "")
	}
	if err := a.Check(now); err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return failed(err, "")
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: r.CommonName},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              a.lastDay(r, now),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           r.usages(),
		BasicConstraintsValid: true,
		DNSNames:              r.DNS,
		IPAddresses:           r.IPs,
	}
	if _, isRSA := public.(*rsa.PublicKey); isRSA {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment // for TLS_RSA_ suites
	}
	if r.Identity != (Identity{}) {
		uri, err := r.Identity.uri()
		if err != nil {
			return failed(err, "")
		}
		template.URIs = []*url.URL{uri}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.signing, public, a.key)
	if err != nil {
		return failed(err, "")
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return failed(err, "")
	}
	for _, usage := range r.usages() { // an authority may be constrained in ways that only a verifier notices
		if err := verifyLeaf(leaf, nil, a.Pool(), usage, now); err != nil {
			return failed(err, "the authority does not allow such a certificate")
		}
	}
	return leaf, nil
}

// lastDay is when a leaf issued now ends: never after its authority. Certificates count whole seconds.
func (a *Authority) lastDay(r Request, now time.Time) time.Time {
	end := now.Add(r.Lifetime.Duration).Truncate(time.Second)
	if last := a.Ends(); end.After(last) {
		return last
	}
	return end
}

// signed says whether the certificate that signs now is the one that signed leaf.
func (a *Authority) signed(leaf *x509.Certificate) bool {
	return bytes.Equal(leaf.RawIssuer, a.signing.RawSubject) && leaf.CheckSignatureFrom(a.signing) == nil
}

func verifyLeaf(leaf *x509.Certificate, others []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range others {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}
