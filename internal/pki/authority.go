package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Authority is one certificate authority as its files were at one moment; it never changes.
// A rotated one is a new Authority, loaded again.
type Authority struct {
	name    string
	file    string              // the certificate bundle
	keyFile string              // may not exist
	bundle  []*x509.Certificate // all are trusted
	signing *x509.Certificate   // the one of bundle that key signs for; nil without key
	key     crypto.Signer       // nil: this host can verify, not issue
	until   time.Time           // nothing it issues ends later; zero: its own certificate says it
}

// Authorities are the three of a PKI directory.
type Authorities struct {
	Manager, Peers, Clients *Authority
}

// All lists the three in the order of their names' constants.
func (a *Authorities) All() []*Authority { return []*Authority{a.Manager, a.Peers, a.Clients} }

// Load reads the three authorities from dir and refuses what could not work at the time now.
// A missing .key is no error: such an authority verifies but does not issue.
func Load(dir string, now time.Time) (*Authorities, error) {
	var all Authorities
	for _, one := range []struct {
		name string
		into **Authority
	}{{ManagerCA, &all.Manager}, {PeersCA, &all.Peers}, {ClientsCA, &all.Clients}} {
		a, err := LoadAuthority(dir, one.name, now)
		if err != nil {
			return nil, err
		}
		*one.into = a
	}
	return &all, nil
}

// LoadUndated is Load for who compares what is there, whatever its dates: nothing is to be issued or verified by it.
func LoadUndated(dir string) (*Authorities, error) {
	var all Authorities
	for name, into := range map[string]**Authority{ManagerCA: &all.Manager, PeersCA: &all.Peers, ClientsCA: &all.Clients} {
		a := &Authority{name: name, file: filepath.Join(dir, name+".crt"), keyFile: filepath.Join(dir, name+".key")}
		if err := a.read(readFile, time.Time{}); err != nil {
			return nil, err
		}
		*into = a
	}
	return &all, nil
}

// LoadAuthority reads dir/name.crt and, if it is there, dir/name.key.
func LoadAuthority(dir, name string, now time.Time) (*Authority, error) {
	return LoadAuthorityFiles(name, filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"), now)
}

// LoadAuthorityFiles reads an authority from files of any name. An empty keyFile, or one that does not
// exist, gives an authority that only verifies. Errors are an *Error around one of the sentinels or the
// file system's own error.
func LoadAuthorityFiles(name, certFile, keyFile string, now time.Time) (*Authority, error) {
	return loadAuthority(&Authority{name: name, file: certFile, keyFile: keyFile}, readFile, now)
}

// LoadTrusted reads an authority that only verifies, by read in place of a plain one:
// what is read once may come from a pipe.
func LoadTrusted(name, certFile string, read func(path string, limit int64) ([]byte, error), now time.Time) (*Authority, error) {
	return loadAuthority(&Authority{name: name, file: certFile}, func(path string) ([]byte, error) { return readBy(read, path) }, now)
}

func loadAuthority(a *Authority, read func(path string) ([]byte, error), now time.Time) (*Authority, error) {
	if err := a.read(read, now); err != nil {
		return nil, err
	}
	if err := a.Check(now); err != nil {
		return nil, err
	}
	return a, nil
}

// read has the authority be what its files are, of which none is judged by its dates. Of several certificates for the key the one
// signs that is valid now, and lasts longest.
func (a *Authority) read(read func(path string) ([]byte, error), now time.Time) error {
	name, certFile := a.name, a.file
	data, err := read(certFile)
	if err != nil {
		return a.failed(certFile, err, "put the certificate of "+name+" there, or name another PKI directory")
	}
	if a.bundle, err = parseCertificates(data); err != nil {
		return a.failed(certFile, err, "the file must hold nothing but PEM certificates")
	}
	for i, c := range a.bundle {
		if !signsCertificates(c) {
			return a.failed(certFile, fmt.Errorf("certificate %d (%s) %w", i+1, c.Subject, ErrNotCA),
				"use one made with basic constraints CA:TRUE and key usage certSign")
		}
	}
	return a.loadKey(now)
}

func (a *Authority) loadKey(now time.Time) error {
	if a.keyFile == "" {
		return nil
	}
	data, err := readFile(a.keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return a.failed(a.keyFile, err, "make the key readable for this user, or move it away to run without issuing")
	}
	if a.key, err = parseKey(data); err != nil {
		return a.failed(a.keyFile, err, "use an unencrypted PEM key (PKCS 8, PKCS 1 or SEC 1)")
	}
	for _, c := range a.bundle {
		// An authority renewed with its old key is in the bundle twice: sign with the one that lasts.
		if sameKey(a.key.Public(), c.PublicKey) && (a.signing == nil || better(c, a.signing, now)) {
			a.signing = c
		}
	}
	if a.signing == nil {
		return a.failed(a.keyFile, fmt.Errorf("the key %w in %s", ErrMismatch, a.file), "put back the key and certificate that were made together")
	}
	return nil
}

// better says whether c serves longer than than, of those that are valid now.
func better(c, than *x509.Certificate, now time.Time) bool {
	if cNow, thanNow := validAt(c, now) == nil, validAt(than, now) == nil; cNow != thanNow {
		return cNow
	}
	return c.NotAfter.After(than.NotAfter)
}

// Check refuses an authority that cannot work at the time now: the signing certificate, or without
// a key every certificate of the bundle, has expired or is not valid yet.
func (a *Authority) Check(now time.Time) error {
	if a.signing != nil {
		err := validAt(a.signing, now)
		if err == nil && now.After(a.Ends()) {
			err = fmt.Errorf("who signed the certificate of %q %w: valid until %s, now %s", a.signing.Subject, ErrExpired, stamp(a.Ends()), stamp(now))
		}
		if err != nil {
			return a.failed(a.file, err, adviceOn(err))
		}
		return nil
	}
	var last error
	for _, c := range a.bundle {
		if last = validAt(c, now); last == nil {
			return nil
		}
	}
	return a.failed(a.file, last, adviceOn(last))
}

func adviceOn(invalid error) string {
	if errors.Is(invalid, ErrNotYetValid) {
		return "check this host's clock, which is behind the one that made the certificate"
	}
	return "check this host's clock; if it is right, make a new authority and put it into the bundle"
}

func validAt(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("certificate of %q %w: valid until %s, now %s", c.Subject, ErrExpired, stamp(c.NotAfter), stamp(now))
	case now.Before(c.NotBefore):
		return fmt.Errorf("certificate of %q %w: valid from %s, now %s", c.Subject, ErrNotYetValid, stamp(c.NotBefore), stamp(now))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// signsCertificates mirrors what x509 asks of a parent.
func signsCertificates(c *x509.Certificate) bool {
	return c.BasicConstraintsValid && c.IsCA && (c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0)
}

func (a *Authority) failed(file string, err error, advice string) error {
	return &Error{Op: "load authority " + a.name, File: file, Err: err, Advice: advice}
}

// Name is the authority's name, such as ManagerCA.
func (a *Authority) Name() string { return a.name }

// File is where its certificates were read from.
func (a *Authority) File() string { return a.file }

// Fingerprint tells it from other authorities: the start of the SHA-256 of each certificate
// that is trusted, as openssl x509 -fingerprint -sha256 has it, in their order.
func (a *Authority) Fingerprint() string {
	var out []string
	for _, c := range a.bundle {
		sum := sha256.Sum256(c.Raw)
		out = append(out, fmt.Sprintf("%X:%X:%X:%X:%X:%X:%X:%X", sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7]))
	}
	return strings.Join(out, "+")
}

// CanIssue says whether the private key is here.
func (a *Authority) CanIssue() bool { return a.key != nil }

// Pool is a new pool of every certificate that is trusted.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range a.bundle {
		pool.AddCert(c)
	}
	return pool
}

// BundlePEM is the bundle as etcd reads it: certificates only.
func (a *Authority) BundlePEM() []byte { return encodeCertificates(a.bundle...) }

// Files are its certificates and its key as LoadAuthority reads them, by the names of the files. Without the key on
// this host it is an *Error around ErrNoKey.
func (a *Authority) Files() (map[string][]byte, error) {
	if a.key == nil {
		return nil, &Error{Op: "hand on authority " + a.name, File: a.keyFile, Err: ErrNoKey}
	}
	key, err := encodeKey(a.key)
	if err != nil {
		return nil, &Error{Op: "hand on authority " + a.name, File: a.keyFile, Err: err}
	}
	return map[string][]byte{a.name + ".crt": a.BundlePEM(), a.name + ".key": key}, nil
}

// String names the authority and never shows its key, whatever the verb.
func (a *Authority) String() string   { return fmt.Sprintf("authority %s (%s)", a.name, a.file) }
func (a *Authority) GoString() string { return a.String() }
