package testetcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certs are one CA and one leaf for 127.0.0.1 and localhost, good as server and
// client: enough for a cluster on loopback, and nothing that the project's own
// PKI could hide a mistake behind.
type Certs struct {
	CA, Cert, Key string // PEM files

	config *tls.Config
}

// Config is the TLS configuration of a client that shows the leaf.
func (c *Certs) Config() *tls.Config { return c.config.Clone() }

// NewCerts writes ca.crt, leaf.crt and leaf.key into dir, good for a day.
func NewCerts(dir string) (*Certs, error) {
	c, err := newCerts(dir)
	if err != nil {
		return nil, fmt.Errorf("make test certificates: %w", err)
	}
	return c, nil
}

func newCerts(dir string) (*Certs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "testetcd-ca"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "testetcd"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, err
	}
	c := &Certs{
		CA:   filepath.Join(dir, "ca.crt"),
		Cert: filepath.Join(dir, "leaf.crt"),
		Key:  filepath.Join(dir, "leaf.key"),
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{c.CA, "CERTIFICATE", caDER},
		{c.Cert, "CERTIFICATE", leafDER},
		{c.Key, "PRIVATE KEY", keyDER},
	} {
		block := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(f.path, block, 0o600); err != nil {
			return nil, err
		}
	}
	root, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	c.config = &tls.Config{
		RootCAs:      pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}},
		MinVersion:   tls.VersionTLS12,
	}
	return c, nil
}
