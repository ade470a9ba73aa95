package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"time"
)

// ReadCertificates reads every certificate of a PEM file, and judges none. Errors are an *Error around ErrPEM or the
// file system's own error.
func ReadCertificates(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, &Error{Op: "read certificate", File: path, Err: err}
	}
	all, err := parseCertificates(data)
	if err != nil {
		return nil, &Error{Op: "read certificate", File: path, Err: err}
	}
	return all, nil
}

// Fingerprint is the SHA-256 of a certificate in hexadecimal digits.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// Signed says whether a certificate of the bundle signed the leaf, whatever the clock says.
func (a *Authority) Signed(leaf *x509.Certificate) bool { return a.signer(leaf) != nil }

// Trusts says whether a certificate is one of the bundle.
func (a *Authority) Trusts(c *x509.Certificate) bool { return slices.ContainsFunc(a.bundle, c.Equal) }

// RequestAgain asks for a leaf that certifies what this one does. Names that are no business of etcd's or the daemons'
// are left out.
func RequestAgain(leaf *x509.Certificate, life Lifetime) Request {
	r := Request{
		CommonName: leaf.Subject.CommonName, DNS: slices.Clone(leaf.DNSNames), IPs: slices.Clone(leaf.IPAddresses), Lifetime: life,
		Server: slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth),
	}
	if id, err := IdentityOf(leaf); err == nil {
		r.Identity = id
	}
	for i, ip := range r.IPs {
		if v4 := ip.To4(); v4 != nil {
			r.IPs[i] = v4
		}
	}
	r.sortHosts()
	return r
}

// WhyRenew says why Ensure would issue; empty: it would not. Nothing is written.
func WhyRenew(dir string, names Names, a *Authority, r Request, now time.Time) string {
	p := pairFiles{dir: dir, names: names}
	had, _, _ := p.read() // what cannot be read is missing, and whyIssue says that
	return a.whyIssue(had, r, now)
}

// Fingerprints are those of the bundle, in its order.
func (a *Authority) Fingerprints() (all []string) {
	for _, c := range a.bundle {
		all = append(all, Fingerprint(c))
	}
	return all
}
