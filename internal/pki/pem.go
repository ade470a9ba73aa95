package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	blockCertificate = "CERTIFICATE"
	blockPKCS8       = "PRIVATE KEY"
	blockPKCS1       = "RSA PRIVATE KEY"
	blockSEC1        = "EC PRIVATE KEY"

	leastRSABits = 2048
	leastECBits  = 256
)

// parseCertificates reads every certificate of a PEM file, in file order. Text around the blocks is
// allowed, other kinds of block are not: etcd takes each block of such a file for a certificate.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != blockCertificate {
			return nil, fmt.Errorf("%w: block %d is %q, not a certificate", ErrPEM, len(certs)+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: certificate %d: %w", ErrPEM, len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%w: it holds no certificate", ErrPEM)
	}
	return certs, nil
}

// parseKey reads the first private key of a PEM file: PKCS 8, PKCS 1 or SEC 1, not encrypted.
// What a parser says about the bytes of a key is dropped on purpose: it could quote them.
func parseKey(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Headers["DEK-Info"] != "" || block.Type == "ENCRYPTED PRIVATE KEY" {
			return nil, fmt.Errorf("%w: the key is encrypted and there is nobody here to ask for its password", ErrPEM)
		}
		var key any
		var err error
		switch block.Type {
		case blockPKCS8:
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case blockPKCS1:
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case blockSEC1:
			key, err = x509.ParseECPrivateKey(block.Bytes)
		default: // openssl writes EC PARAMETERS first, and some tools the certificate
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the %q block cannot be parsed", ErrPEM, block.Type)
		}
		return usableKey(key)
	}
	return nil, fmt.Errorf("%w: it holds no private key", ErrPEM)
}

// usableKey refuses kinds and sizes that some etcd release or TLS library would refuse later.
func usableKey(key any) (crypto.Signer, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() >= leastRSABits {
			return k, nil
		}
	case *ecdsa.PrivateKey:
		if k.Curve.Params().BitSize >= leastECBits {
			return k, nil
		}
	}
	return nil, ErrKeyKind
}

func encodeCertificates(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: c.Raw}))
	}
	return out.Bytes()
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("encode private key: kind of key not supported")
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockPKCS8, Bytes: der}), nil
}

// sameKey says whether two public keys are equal.
func sameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// SameKey says whether two public keys are one.
func SameKey(a, b crypto.PublicKey) bool { return sameKey(a, b) }
