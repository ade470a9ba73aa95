package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"
)

// Issuer has a leaf made for a key that is on this host: an authority with its key, or another host that is asked.
type Issuer func(key crypto.Signer, r Request) (*x509.Certificate, error)

// ErrNotAsked says that a certificate is another one than was asked for.
var ErrNotAsked = errors.New("is not the certificate that was asked for")

// CanIssue says whether all three private keys are here.
func (a *Authorities) CanIssue() bool {
	return a.Manager.CanIssue() && a.Peers.CanIssue() && a.Clients.CanIssue()
}

// Of is the authority of a name; nil: there is none.
func (a *Authorities) Of(name string) *Authority {
	for _, one := range a.All() {
		if one.name == name {
			return one
		}
	}
	return nil
}

// accepts refuses a leaf that is not what was asked for, whoever made it: of another key, another name, another
// authority, or one that signs others itself.
func (a *Authority) accepts(leaf *x509.Certificate, key crypto.Signer, r Request, now time.Time) error {
	refused := func(err error) error {
		return &Error{Op: "take certificate of " + r.CommonName, File: a.file, Err: err, Advice: "look which host answered: its log has what it signed"}
	}
	switch {
	case !sameKey(key.Public(), leaf.PublicKey):
		return refused(fmt.Errorf("it %w: it is for another key", ErrNotAsked))
	case leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return refused(fmt.Errorf("it %w: it is an authority's", ErrNotAsked))
	}
	if why := r.differs(leaf); why != "" {
		return refused(fmt.Errorf("it %w: %s", ErrNotAsked, why))
	}
	for _, usage := range r.usages() {
		if err := verifyLeaf(leaf, nil, a.Pool(), usage, now); err != nil {
			return refused(err)
		}
	}
	return nil
}

// end is when the last certificate of the bundle ends.
func (a *Authority) end() (last time.Time) {
	for _, c := range a.bundle {
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

// Candidate is the key of a pair, as it is there or a new one that nothing has written yet, with the certificate that
// there is for it. It is for who asks for a certificate before the authority is known; Request.ByKeyOf keeps it.
func Candidate(dir string, names Names, kind KeyAlgorithm) (*Keypair, error) {
	p := pairFiles{dir: dir, names: names}
	had, keyErr, _ := p.read()
	switch {
	case keyErr == nil && had.leaf != nil && sameKey(had.key.Public(), had.leaf.PublicKey):
		return had, nil
	case keyErr == nil:
		return &Keypair{key: had.key}, nil
	case !errors.Is(keyErr, fs.ErrNotExist) && !unreadable(keyErr):
		return nil, p.failed(p.key(), keyErr, "make it readable for this user")
	}
	key, err := newKey(kind)
	if err != nil {
		return nil, p.failed(p.key(), err, "")
	}
	return &Keypair{key: key}, nil
}

// ByKeyOf has a pair that has no key yet take that of another one.
func (r Request) ByKeyOf(k *Keypair) Request {
	r.first = k.key
	return r
}

// Certifies says whether a leaf is what was asked for, for the key of this pair.
func (k *Keypair) Certifies(key crypto.Signer, r Request) bool {
	return k.leaf != nil && sameKey(key.Public(), k.leaf.PublicKey) && r.differs(k.leaf) == ""
}

// SigningRequest is the request for a certificate of this key, in PKCS 10, signed by the key.
func (k *Keypair) SigningRequest(r Request) ([]byte, error) { return SigningRequest(k.key, r) }

// SigningRequest asks for what r says, in PKCS 10, signed by the key.
func SigningRequest(key crypto.Signer, r Request) ([]byte, error) {
	ask := &x509.CertificateRequest{Subject: pkix.Name{CommonName: r.CommonName}, DNSNames: r.DNS, IPAddresses: r.IPs}
	if r.Identity != (Identity{}) {
		uri, err := r.Identity.uri()
		if err != nil {
			return nil, err
		}
		ask.URIs = []*url.URL{uri}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, ask, key)
	if err != nil {
		return nil, fmt.Errorf("request certificate of %s: the request could not be signed", r.CommonName)
	}
	return der, nil
}

// Seal signs a statement with the authority's key. The statement must begin with words that say what it is, and not as
// a certificate does: then it can be taken for nothing else. Without the key on this host it is an *Error around ErrNoKey.
func (a *Authority) Seal(statement []byte) ([]byte, error) {
	if a.key == nil {
		return nil, &Error{Op: "seal with authority " + a.name, File: a.keyFile, Err: ErrNoKey}
	}
	sum := sha256.Sum256(statement)
	seal, err := a.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, &Error{Op: "seal with authority " + a.name, File: a.keyFile, Err: errors.New("the key does not sign")}
	}
	return seal, nil
}

// Sealed says whether one of the bundle's keys has sealed the statement.
func (a *Authority) Sealed(statement, seal []byte) bool {
	for _, c := range a.bundle {
		algorithm := x509.SHA256WithRSA
		if _, ok := c.PublicKey.(*ecdsa.PublicKey); ok {
			algorithm = x509.ECDSAWithSHA256
		}
		if c.CheckSignature(algorithm, statement, seal) == nil {
			return true
		}
	}
	return false
}
