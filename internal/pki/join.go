package pki

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// JoinName is the name by which a host without a certificate calls a daemon. The daemon asks for none then, and
// shows its authority's certificate beside its own.
const JoinName = "join.etcdadm"

// Errors of a joiner's handshake.
var (
	ErrOtherAuthority = errors.New("the other side holds no authority of that hash")
	ErrClock          = errors.New("the clocks differ")
)

const hashPrefix = "sha256:"

// ValidHash tells whether a text could be a hash of an authority.
func ValidHash(text string) bool {
	raw, ok := strings.CutPrefix(text, hashPrefix)
	sum, err := hex.DecodeString(raw)
	return ok && err == nil && len(sum) == sha256.Size && strings.ToLower(raw) == raw
}

// HashOf is what a person compares an authority by: sha256: and the SHA-256 of its key, as the certificate has it.
// It outlives a renewal of the certificate that keeps the key.
func HashOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hashPrefix + hex.EncodeToString(sum[:])
}

// Hash is the hash of the certificate that signs, or without a key that of the first one.
func (a *Authority) Hash() string {
	if a.signing != nil {
		return HashOf(a.signing)
	}
	return HashOf(a.bundle[0])
}

// HasHash says whether a certificate of the bundle has the hash.
func (a *Authority) HasHash(hash string) bool {
	return slices.ContainsFunc(a.bundle, func(c *x509.Certificate) bool { return HashOf(c) == hash })
}

// signer is the certificate of the bundle that signed a leaf; nil: none did.
func (a *Authority) signer(leaf *x509.Certificate) *x509.Certificate {
	if a.signing != nil && leaf.CheckSignatureFrom(a.signing) == nil {
		return a.signing // and not another certificate of the same key
	}
	for _, c := range a.bundle {
		if leaf.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}

// withJoiners has a server's configuration let in who calls it by JoinName, without a certificate. What such a
// connection may be used for is the server's to see to.
func (l *Live) withJoiners(cfg *tls.Config) *tls.Config {
	joiners := l.config()
	joiners.MinVersion = tls.VersionTLS13 // keys travel over it
	joiners.NextProtos = []string{"h2"}
	joiners.GetClientCertificate = nil
	joiners.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := l.cur.Load(); c != nil {
			return c.chain, nil
		}
		return nil, errNoCredentials
	}
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == JoinName {
			return joiners, nil
		}
		return nil, nil // as it is
	}
	return cfg
}

// JoinerConfig is for a host that has nothing yet but the hash of the authority, from a person. The handshake fails
// unless the other side shows a certificate authority of that hash, and a host's certificate that it signed; then
// who is that host's identity.
func JoinerConfig(hash string, now func() time.Time, who *Identity) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ServerName:             JoinName,
		NextProtos:             []string{"h2"},
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, // replaced, not skipped: VerifyConnection checks hash, chain, dates, usage and identity
		VerifyConnection: func(cs tls.ConnectionState) error {
			id, err := verifyByHash(cs.PeerCertificates, hash, now())
			if err == nil {
				*who = id
			}
			return err
		},
	}
}

func verifyByHash(chain []*x509.Certificate, hash string, now time.Time) (Identity, error) {
	if len(chain) == 0 {
		return Identity{}, fmt.Errorf("%w: no certificate was presented", ErrIdentity)
	}
	leaf := chain[0]
	var root *x509.Certificate
	for _, c := range chain[1:] {
		if signsCertificates(c) && subtle.ConstantTimeCompare([]byte(HashOf(c)), []byte(hash)) == 1 {
			root = c
			break
		}
	}
	if root == nil {
		return Identity{}, ErrOtherAuthority
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	// The time is judged apart: that the certificate was signed by whom the person named is known whatever the
	// clocks say, and which of them is wrong is the person's to see.
	if err := verifyLeaf(leaf, nil, roots, x509.ExtKeyUsageServerAuth, within(now, leaf, root)); err != nil {
		return Identity{}, fmt.Errorf("%w: its certificate is not one of that authority: %w", ErrOtherAuthority, err)
	}
	id, err := IdentityOf(leaf)
	if err != nil {
		return Identity{}, err
	}
	if id.Role != RoleHost {
		return Identity{}, fmt.Errorf("%w: dialled a host, but %s answered", ErrIdentity, id)
	}
	for _, c := range []*x509.Certificate{leaf, root} {
		switch {
		case now.Before(c.NotBefore):
			return Identity{}, fmt.Errorf("%w: this host's clock says %s, and a certificate of host %s is valid from %s", ErrClock, stamp(now), id.ID, stamp(c.NotBefore))
		case now.After(c.NotAfter):
			return Identity{}, fmt.Errorf("%w: this host's clock says %s, and a certificate of host %s ended at %s", ErrClock, stamp(now), id.ID, stamp(c.NotAfter))
		}
	}
	return id, nil
}

// within is now, or the nearest time at which both certificates are valid.
func within(now time.Time, leaf, root *x509.Certificate) time.Time {
	for _, c := range []*x509.Certificate{root, leaf} {
		if now.Before(c.NotBefore) {
			now = c.NotBefore
		}
		if now.After(c.NotAfter) {
			now = c.NotAfter
		}
	}
	return now
}
