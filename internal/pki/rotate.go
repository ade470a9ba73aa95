package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/internal/durable"
)

// Files of a rotation, beside NAME.crt and NAME.key. Each has the rotation's ID in its name, so that two rotations,
// or two hosts that begin one at once, never write the same file. None is ever removed.
//
//	NAME.next-ID.key     the key of the next authority
//	NAME.before-ID.key   the key that NAME.key was before
func (c Change) nextKeyFile(dir string) string {
	return filepath.Join(dir, c.Name+".next-"+c.ID+".key")
}

func (c Change) oldKeyFile(dir string) string {
	return filepath.Join(dir, c.Name+".before-"+c.ID+".key")
}

// RotationFiles are the files that rotations left in a directory, sorted.
func RotationFiles(dir string) (files []string) {
	for _, name := range []string{ManagerCA, PeersCA, ClientsCA} {
		for _, kind := range []string{".next-*.key", ".before-*.key"} {
			found, _ := filepath.Glob(filepath.Join(dir, name+kind)) // the pattern is a good one
			files = append(files, found...)
		}
	}
	slices.Sort(files)
	return files
}

// Change is what becomes of one authority in a phase of a rotation (docs/adr/033-rotating-the-authorities.md).
type Change struct {
	ID        string // of the rotation
	Name      string
	Old, Next *x509.Certificate
	// TrustNext: the bundle gets Next, where it lacks it; and Old too.
	TrustNext bool
	// SignNext: NAME.key is the key of Next; else it is that of Old.
	SignNext bool
	// Drop: the bundle loses the one that does not sign.
	Drop bool
}

// ErrNoNextKey says that the key of the next authority is not on this host yet.
var ErrNoNextKey = errors.New("the key of the next authority is not on this host")

// ParseCertificate reads the one certificate of a PEM text.
func ParseCertificate(text string) (*x509.Certificate, error) {
	all, err := parseCertificates([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1 || !signsCertificates(all[0]):
		return nil, fmt.Errorf("%w: it is not the certificate of one authority", ErrPEM)
	}
	return all[0], nil
}

// CertificatePEM is a certificate as it lies in a bundle.
func CertificatePEM(c *x509.Certificate) string { return string(encodeCertificates(c)) }

// Signing is the certificate that signs here; nil: this host has no key.
func (a *Authority) Signing() *x509.Certificate { return a.signing }

// SignerOf is the certificate of the bundle that signed a leaf; nil: none did.
func (a *Authority) SignerOf(leaf *x509.Certificate) *x509.Certificate { return a.signer(leaf) }

// MakeNext makes the next authority of a name, its key first and durably, and gives its certificate. Nothing trusts
// it yet. Called again with the same ID it gives another certificate for the same key.
func MakeNext(dir, name, id string, now time.Time) (*x509.Certificate, error) {
	file := Change{ID: id, Name: name}.nextKeyFile(dir)
	key, err := keyAt(durable.OS(), file)
	if err != nil {
		return nil, &Error{Op: "make the next authority " + name, File: file, Err: err}
	}
	cert, err := selfSigned(name, key, now)
	if err != nil {
		return nil, &Error{Op: "make the next authority " + name, File: file, Err: err}
	}
	return cert, nil
}

// KeyOf is the key of a certificate as PEM, where it lies in dir, for another host of the cluster; nil: it does not.
func (c Change) KeyOf(dir string, cert *x509.Certificate) ([]byte, error) {
	for _, file := range []string{filepath.Join(dir, c.Name+".key"), c.nextKeyFile(dir), c.oldKeyFile(dir)} {
		data, err := readFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &Error{Op: "read a key of " + c.Name, File: file, Err: err}
		}
		key, err := parseKey(data)
		if err != nil {
			return nil, &Error{Op: "read a key of " + c.Name, File: file, Err: err}
		}
		if sameKey(key.Public(), cert.PublicKey) {
			return encodeKey(key)
		}
	}
	return nil, nil
}

// HasKey says whether the key of Next or Old lies here.
func (c Change) HasKey(dir string, of *x509.Certificate) bool {
	data, err := c.KeyOf(dir, of)
	return err == nil && data != nil
}

// PutKey keeps the key of Next or Old that another host gave. One of another certificate is ErrMismatch.
func (c Change) PutKey(dir string, of *x509.Certificate, data []byte) error {
	file := c.nextKeyFile(dir)
	if of.Equal(c.Old) {
		file = c.oldKeyFile(dir)
	}
	failed := func(err error) error { return &Error{Op: "keep a key of " + c.Name, File: file, Err: err} }
	key, err := parseKey(data)
	if err != nil {
		return failed(err)
	}
	if !sameKey(key.Public(), of.PublicKey) {
		return failed(ErrMismatch)
	}
	if data, err = encodeKey(key); err != nil {
		return failed(err)
	}
	if err := durable.OS().Create(file, data, modeKey); err != nil && !errors.Is(err, fs.ErrExist) {
		return failed(err)
	}
	return nil
}

// Trust makes the bundle what the phase asks, and says whether it was written. Certificates that the rotation is not
// about stay. It is to be called before Sign, except for a drop, which comes last of all.
func (c Change) Trust(dir string) (changed bool, err error) { return c.trustOn(durable.OS(), dir) }

func (c Change) trustOn(disk durable.Disk, dir string) (changed bool, err error) {
	file := filepath.Join(dir, c.Name+".crt")
	failed := func(err error) (bool, error) {
		return false, &Error{Op: "rotate authority " + c.Name, File: file, Err: err, Advice: "make the file writable for the daemon"}
	}
	bundle, err := ReadCertificates(file)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(bundle, c.Old.Equal) && !slices.ContainsFunc(bundle, c.Next.Equal) {
		return false, &Error{Op: "rotate authority " + c.Name, File: file, Err: fmt.Errorf("it has neither certificate of the rotation: %w", ErrMismatch), Advice: "this host has other authorities than its cluster: etcdadm reset, then join"}
	}
	want := slices.Clone(bundle)
	signs, goes := c.Old, c.Next
	if c.SignNext {
		signs, goes = c.Next, c.Old
	}
	need := []*x509.Certificate{signs}
	if c.TrustNext {
		need = []*x509.Certificate{c.Old, c.Next}
	}
	for _, n := range need {
		if !slices.ContainsFunc(want, n.Equal) {
			want = append(want, n)
		}
	}
	if c.Drop {
		want = slices.DeleteFunc(want, func(x *x509.Certificate) bool { return sameKey(x.PublicKey, goes.PublicKey) }) // a renewed one has the same key
	}
	if slices.EqualFunc(bundle, want, (*x509.Certificate).Equal) {
		return false, nil
	}
	if err := disk.Replace(file, encodeCertificates(want...), modePublic); err != nil {
		return failed(err)
	}
	return true, nil
}

// Sign makes NAME.key the key that the phase signs with, and says whether it was written. The bundle has its
// certificate already. The key that was there before is kept first.
func (c Change) Sign(dir string) (changed bool, err error) { return c.signOn(durable.OS(), dir) }

func (c Change) signOn(disk durable.Disk, dir string) (changed bool, err error) {
	file := filepath.Join(dir, c.Name+".key")
	failed := func(err error) (bool, error) {
		return false, &Error{Op: "rotate authority " + c.Name, File: file, Err: err, Advice: "make the directory writable for the daemon, and put the file back if it is gone"}
	}
	had, err := readFile(file)
	if err != nil {
		return failed(err)
	}
	key, err := parseKey(had)
	if err != nil {
		return failed(err)
	}
	signs := c.Old
	if c.SignNext {
		signs = c.Next
	}
	switch {
	case sameKey(key.Public(), signs.PublicKey):
		return false, nil
	case !sameKey(key.Public(), c.Old.PublicKey) && !sameKey(key.Public(), c.Next.PublicKey):
		return failed(fmt.Errorf("the key %w that is rotated", ErrMismatch))
	}
	data, err := c.KeyOf(dir, signs)
	switch {
	case err != nil:
		return false, err
	case data == nil && c.SignNext:
		return failed(ErrNoNextKey)
	case data == nil:
		return failed(ErrNoKey)
	}
	if c.SignNext {
		if err := disk.Create(c.oldKeyFile(dir), had, modeKey); err != nil && !errors.Is(err, fs.ErrExist) {
			return failed(err)
		}
		if kept, err := readFile(c.oldKeyFile(dir)); err != nil || !bytes.Equal(kept, had) {
			return failed(fmt.Errorf("%s does not hold the former key: %w", c.oldKeyFile(dir), errors.Join(err, fs.ErrExist)))
		}
	}
	if err := disk.Replace(file, data, modeKey); err != nil {
		return failed(err)
	}
	return true, nil
}
