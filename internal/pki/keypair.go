package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/internal/durable"
)

// Names are the file names of one key pair and of the authorities that its holder trusts.
type Names struct {
	CA, Cert, Key string
}

// The key pairs of a host. Peer and server files are named as etcd-manager names them, so that a data
// directory can be taken over and given back.
var (
	PeerNames   = Names{CA: "ca.crt", Cert: "me.crt", Key: "me.key"}           // in peers/, and for the daemon itself
	ServerNames = Names{CA: "ca.crt", Cert: "server.crt", Key: "server.key"}   // in clients/
	ClientNames = Names{CA: "ca.crt", Cert: "etcdadm.crt", Key: "etcdadm.key"} // in clients/: the daemon as etcd's client
)

// Ensured is what Ensure found or did.
type Ensured struct {
	Pair *Keypair
	// Issued says why a certificate was issued; empty: the one on disk was good.
	Issued string
	// TrustChanged says that the CA file was written. etcd reads its certificate anew at each
	// handshake, but its trusted authorities only when it starts.
	TrustChanged bool
	// Overdue says why a certificate that is due could not be renewed. Pair works meanwhile.
	Overdue error
}

// Ensure keeps a key pair in dir, mode 0700, as requested: it issues when there is none, when the one there is due
// (Lifetime), was asked for differently, belongs to another key, or was not signed by the certificate that
// signs now; and it keeps the CA file equal to the bundle. When nothing is due nothing is written.
//
// The private key is kept over all renewals while it can be read. So a renewal is the rename of
// one file, and a process that reads certificate and key one after the other, as etcd does, never sees two
// that do not match. To change a key, move its file away: until Ensure has run again, the pair is broken
// in any case.
//
// One caller at a time for each dir and names; readers need no care.
func Ensure(dir string, names Names, a *Authority, r Request, now time.Time) (Ensured, error) {
	return EnsureBy(dir, names, a, r, now, nil)
}

// EnsureBy is Ensure with another issuer than the authority here, which still says what is trusted: what the issuer
// gives is looked at as if a stranger had made it. A nil one is the authority.
func EnsureBy(dir string, names Names, a *Authority, r Request, now time.Time, by Issuer) (Ensured, error) {
	return ensureOn(durable.OS(), dir, names, a, r, now, by)
}

func ensureOn(disk durable.Disk, dir string, names Names, a *Authority, r Request, now time.Time, by Issuer) (Ensured, error) {
	if by == nil {
		by = func(key crypto.Signer, r Request) (*x509.Certificate, error) { return a.Certify(key.Public(), r, now) }
	}
	p := pairFiles{disk: disk, dir: dir, names: names}
	var done Ensured
	if err := r.Lifetime.Validate(); err != nil {
		return done, p.failed(p.cert(), err, "")
	}
	if err := disk.MakeDir(dir, modeDir); err != nil {
		return done, p.failed(dir, err, "")
	}
	had, keyErr, certErr := p.read()
	if keyErr != nil && !errors.Is(keyErr, fs.ErrNotExist) && !unreadable(keyErr) {
		return done, p.failed(p.key(), keyErr, "make it readable for this user")
	}
	if certErr != nil && !errors.Is(certErr, fs.ErrNotExist) && !unreadable(certErr) {
		return done, p.failed(p.cert(), certErr, "make it readable for this user")
	}
	var err error
	if done.TrustChanged, err = p.trust(a); err != nil {
		return done, p.failed(p.ca(), err, "")
	}
	why := a.whyIssue(had, r, now)
	if why == "" {
		done.Pair = had
		return done, p.tightenKey()
	}
	done.Pair, err = p.issue(a, r, had, keyErr, now, by)
	switch {
	case err == nil:
		done.Issued = why
	case a.serves(had, now):
		done.Pair, done.Overdue = had, fmt.Errorf("renew certificate (%s): %w", why, err)
	default:
		return Ensured{TrustChanged: done.TrustChanged}, fmt.Errorf("%s: %s: %w", p.cert(), why, err)
	}
	return done, nil
}

// LoadKeypair reads a key pair, on a host where another one issues or for a person's command.
func LoadKeypair(dir string, names Names) (*Keypair, error) {
	p := pairFiles{dir: dir, names: names}
	pair, keyErr, certErr := p.read()
	switch {
	case certErr != nil:
		return nil, p.failed(p.cert(), certErr, "issue it, or copy it here with its key")
	case keyErr != nil:
		return nil, p.failed(p.key(), keyErr, "put back the key that belongs to "+p.cert())
	case !sameKey(pair.key.Public(), pair.leaf.PublicKey):
		return nil, p.failed(p.key(), fmt.Errorf("the key %w in %s", ErrMismatch, p.cert()), "put back the two files that were made together")
	}
	return pair, nil
}

// whyIssue is empty while had is as it should be. Parts of had may be missing.
func (a *Authority) whyIssue(had *Keypair, r Request, now time.Time) string {
	switch {
	case had.leaf == nil:
		return "there is no certificate"
	case had.key == nil:
		return "there is no private key"
	case !sameKey(had.key.Public(), had.leaf.PublicKey):
		return "the certificate belongs to another key"
	case !r.Kept && a.key != nil && !a.signed(had.leaf):
		return "the authority changed"
	case !a.serves(had, now):
		return notServing(had.leaf, now)
	}
	if why := r.differs(had.leaf); why != "" && !r.Kept {
		return why
	}
	if r.Anew {
		return "a person asked for a new one"
	}
	if now.Before(r.renewAt(had.leaf)) {
		return ""
	}
	if a.key != nil && !a.lastDay(r, now).After(had.leaf.NotAfter) {
		return "" // the authority's own end is the limit: a new one would gain nothing
	}
	if a.key == nil && r.OnRequest && !a.end().After(had.leaf.NotAfter) {
		return "" // likewise
	}
	return "the certificate is due for renewal"
}

// notServing says why a certificate does not serve, as far as its own dates tell.
func notServing(leaf *x509.Certificate, now time.Time) string {
	switch {
	case now.After(leaf.NotAfter):
		return "the certificate ended at " + stamp(leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		return "the certificate is not valid before " + stamp(leaf.NotBefore) + " (is this host's clock right?)"
	}
	return "the authority does not vouch for the certificate now"
}

// serves says whether had works now under the bundle as it is.
func (a *Authority) serves(had *Keypair, now time.Time) bool {
	return had.leaf != nil && had.key != nil && sameKey(had.key.Public(), had.leaf.PublicKey) &&
		verifyLeaf(had.leaf, nil, a.Pool(), x509.ExtKeyUsageClientAuth, now) == nil
}

// pairFiles are the files of one key pair.
type pairFiles struct {
	disk  durable.Disk
	dir   string
	names Names
}

func (p pairFiles) ca() string   { return filepath.Join(p.dir, p.names.CA) }
func (p pairFiles) cert() string { return filepath.Join(p.dir, p.names.Cert) }
func (p pairFiles) key() string  { return filepath.Join(p.dir, p.names.Key) }

func (p pairFiles) failed(file string, err error, advice string) error {
	return &Error{Op: "keep key pair", File: file, Err: err, Advice: advice}
}

// read returns what can be read of the pair; the parts of it that cannot are nil.
func (p pairFiles) read() (had *Keypair, keyErr, certErr error) {
	had = new(Keypair)
	var data []byte
	if data, keyErr = readFile(p.key()); keyErr == nil {
		had.key, keyErr = parseKey(data)
	}
	if data, certErr = readFile(p.cert()); certErr == nil {
		var certs []*x509.Certificate
		if certs, certErr = parseCertificates(data); certErr == nil {
			had.leaf, had.behind = certs[0], certs[1:]
		}
	}
	return had, keyErr, certErr
}

// unreadable says that a file's bytes, not the access to it, are the trouble.
func unreadable(err error) bool { return errors.Is(err, ErrPEM) || errors.Is(err, ErrKeyKind) }

// trust writes the bundle where the CA file differs from it.
func (p pairFiles) trust(a *Authority) (changed bool, err error) {
	want := a.BundlePEM()
	is, err := readFile(p.ca())
	if err == nil && bytes.Equal(is, want) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !unreadable(err) {
		return false, err
	}
	return true, p.disk.Replace(p.ca(), want, modePublic)
}

// issue writes a certificate for the key that is there, or for a new one that is written first.
func (p pairFiles) issue(a *Authority, r Request, had *Keypair, keyErr error, now time.Time, by Issuer) (*Keypair, error) {
	key := had.key
	if key == nil {
		key = r.first
	}
	if key == nil {
		var err error
		if key, err = newKey(r.Key); err != nil {
			return nil, p.failed(p.key(), err, "")
		}
	}
	leaf, err := by(key, r) // before anything is touched: it may not be possible at all
	if err == nil {
		err = a.accepts(leaf, key, r, now)
	}
	if err != nil {
		return nil, err
	}
	pair := &Keypair{leaf: leaf, key: key}
	if had.key == nil {
		if err := p.writeKey(key, keyErr, now); err != nil {
			return nil, p.failed(p.key(), err, "")
		}
	} else if err := p.tightenKey(); err != nil {
		return nil, err
	}
	if err := p.disk.Replace(p.cert(), encodeCertificates(pair.leaf), modePublic); err != nil {
		return nil, p.failed(p.cert(), err, "")
	}
	return pair, nil
}

func (p pairFiles) writeKey(key crypto.Signer, readErr error, now time.Time) error {
	if unreadable(readErr) {
		if err := setAside(p.disk, p.key(), now); err != nil {
			return err
		}
	}
	data, err := encodeKey(key)
	if err != nil {
		return err
	}
	return p.disk.Create(p.key(), data, modeKey)
}

// tightenKey takes a key's permissions for group and others away, should somebody have given them.
func (p pairFiles) tightenKey() error {
	info, err := os.Stat(p.key())
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(p.key(), modeKey)
	}
	if err != nil {
		return p.failed(p.key(), err, "")
	}
	return nil
}
