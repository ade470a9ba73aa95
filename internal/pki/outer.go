package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"time"
)

// An authority whose certificate somebody else signs: its key is made here, and what comes back is an authority like any other,
// which ends with the first of those that signed it.

// MakeKey makes the key of an authority, as PEM.
func MakeKey() ([]byte, error) {
	key, err := newKey(KeyAny)
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

// PublicKey is that of a private key in PEM.
func PublicKey(key []byte) (crypto.PublicKey, error) {
	k, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	return k.Public(), nil
}

// KeyID tells a public key from others: the SHA-256 of its DER in hexadecimal digits. Empty: it has none.
func KeyID(public crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// AuthorityRequest asks for the certificate of an authority of this name, in PKCS 10 as PEM, signed by its key.
func AuthorityRequest(name string, key []byte) ([]byte, error) {
	k, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, k)
	if err != nil {
		return nil, fmt.Errorf("request the certificate of %s: the request could not be signed", name)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// ParseCertificates reads each certificate of a PEM text, in its order, and judges none. The error wraps ErrPEM.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) { return parseCertificates(data) }

// SignsCertificates says whether a certificate is an authority's.
func SignsCertificates(c *x509.Certificate) bool { return signsCertificates(c) }

// Until is this authority where nothing that it issues may last longer than that: somebody who signed its certificate ends first.
func (a *Authority) Until(end time.Time) *Authority {
	out := *a
	out.until = end
	return &out
}

// Ends is when the authority ends that signs here; zero: this host has no key.
func (a *Authority) Ends() time.Time {
	switch {
	case a.signing == nil:
		return time.Time{}
	case !a.until.IsZero() && a.until.Before(a.signing.NotAfter):
		return a.until
	}
	return a.signing.NotAfter
}
