package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
)

// KeyAlgorithm is the kind of a leaf's key.
type KeyAlgorithm string

// The algorithms. The zero value is whichever is best, which is ECDSA.
const (
	KeyAny   KeyAlgorithm = ""
	KeyECDSA KeyAlgorithm = "ecdsa" // P-256
	KeyRSA   KeyAlgorithm = "rsa"   // 2048 bits
)

// ParseKeyAlgorithm reads auto, ecdsa or rsa.
func ParseKeyAlgorithm(text string) (KeyAlgorithm, error) {
	switch a := KeyAlgorithm(text); a {
	case KeyECDSA, KeyRSA:
		return a, nil
	case "auto", KeyAny:
		return KeyAny, nil
	}
	return KeyAny, fmt.Errorf("%q is no kind of key: want auto, ecdsa or rsa", text)
}

// KeyForSuites is the kind of key that a server needs whose cipher suites are chosen, by
// Go's names for them: before TLS 1.3 a suite says the kind in its name. KeyAny: either
// kind does, or nothing is chosen.
func KeyForSuites(suites []string) KeyAlgorithm {
	ecdsa, rsa := false, false
	for _, s := range suites {
		s = strings.ToUpper(s)
		ecdsa = ecdsa || strings.Contains(s, "_ECDSA_")
		rsa = rsa || strings.Contains(s, "_RSA_")
	}
	switch {
	case rsa && !ecdsa:
		return KeyRSA
	case ecdsa && !rsa:
		return KeyECDSA
	}
	return KeyAny
}

// Algorithm is the kind of the pair's key.
func (k *Keypair) Algorithm() KeyAlgorithm {
	switch k.key.(type) {
	case *rsa.PrivateKey:
		return KeyRSA
	case *ecdsa.PrivateKey:
		return KeyECDSA
	}
	return KeyAny
}

func newKey(kind KeyAlgorithm) (crypto.Signer, error) {
	if kind == KeyRSA {
		return rsa.GenerateKey(rand.Reader, leastRSABits)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
