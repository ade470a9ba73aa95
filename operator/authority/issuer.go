package authority

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
)

// The clients' authority may be signed by an issuer in place of itself; docs/adr/044-an-issuer-for-the-client-side.md says why.
// Its key is made here. Beside the files of all authorities lie then what a leaf shows behind itself, which are the authority's
// certificate and those between it and the issuer's own, and the issuer's own, which is trusted as well.
const (
	askedKey   = pki.ClientsCA + ".asked.key" // of a request that is out
	chainFile  = pki.ClientsCA + ".chain.crt"
	issuerFile = pki.ClientsCA + ".issuer.crt"
	nextChain  = pki.ClientsCA + ".next.chain.crt"
	nextIssuer = pki.ClientsCA + ".next.issuer.crt"
)

// LeastLife is how long an authority that an issuer signs lives at least: its members are restarted for the next one after two
// thirds of it.
const LeastLife = 30 * duration.Day

// Ask puts a new key for the clients' authority beside the files, and gives the request for its certificate and the key's ID.
func Ask(files Files) (out Files, id string, err error) {
	key, err := pki.MakeKey()
	if err != nil {
		return nil, "", err
	}
	public, err := pki.PublicKey(key)
	if err != nil {
		return nil, "", err
	}
	out = Files{}
	for name, data := range files {
		out[name] = data
	}
	out[askedKey] = key
	return out, pki.KeyID(public), nil
}

// Request is the request for the certificate of the key that lies there, in PKCS 10 as PEM.
//
// Errors: pki.ErrNoKey.
func Request(files Files) ([]byte, error) {
	key, is := files[askedKey]
	if !is {
		return nil, fmt.Errorf("%s: %w", askedKey, pki.ErrNoKey)
	}
	return pki.AuthorityRequest(pki.ClientsCA, key)
}

// Requests says of which key a request in PEM is, by its ID; empty: it is none.
func Requests(text []byte) string {
	block, _ := pem.Decode(text)
	if block == nil {
		return ""
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return pki.KeyID(request.PublicKey)
}

// Signed is the clients' authority as an issuer signed it.
type Signed struct {
	key           []byte
	own           *x509.Certificate
	between, tops []*x509.Certificate
}

// ErrUnfit says that what an issuer signed does not serve as the clients' authority.
var ErrUnfit = errors.New("it does not serve")

// Take looks at what an issuer gave for the key that was asked for, as if a stranger had made it: certificate is PEM with the
// authority's own and those between, in any order, and ca the issuer's own, if it came. h is any host, whose leaves are tried.
//
// Errors: ErrUnfit, with why; pki.ErrNoKey.
func Take(files Files, certificate, ca []byte, h Host, now time.Time) (*Signed, error) {
	unfit := func(format string, args ...any) (*Signed, error) {
		return nil, fmt.Errorf("%w: %s", ErrUnfit, fmt.Sprintf(format, args...))
	}
	s := &Signed{key: files[askedKey]}
	public, err := pki.PublicKey(s.key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", askedKey, pki.ErrNoKey)
	}
	all, err := pki.ParseCertificates(certificate)
	if err != nil {
		return unfit("the certificate cannot be read")
	}
	if len(bytes.TrimSpace(ca)) > 0 {
		if s.tops, err = pki.ParseCertificates(ca); err != nil {
			return unfit("the issuer's own certificate (status.ca) cannot be read")
		}
	}
	for _, c := range all {
		switch {
		case pki.SameKey(c.PublicKey, public):
			s.own = c
		case c.CheckSignatureFrom(c) == nil: // a root is shown by nobody
		case !slices.ContainsFunc(s.between, c.Equal):
			s.between = append(s.between, c)
		}
	}
	if s.own == nil {
		return unfit("the certificate is for another key")
	}
	s.tops = slices.DeleteFunc(s.tops, s.own.Equal)
	for _, c := range s.all() {
		switch {
		case !pki.SignsCertificates(c):
			return unfit("the certificate of %q is no authority's: the issuer has to sign with isCA", c.Subject)
		case now.Before(c.NotBefore):
			return unfit("the certificate of %q is not valid before %s", c.Subject, c.NotBefore.UTC().Format(time.RFC3339))
		case c.NotAfter.Sub(now) < LeastLife:
			return unfit("the certificate of %q ends at %s, and %s are needed", c.Subject, c.NotAfter.UTC().Format(time.RFC3339), duration.Format(LeastLife))
		}
	}
	if err := s.try(h, now); err != nil {
		return unfit("who trusts the issuer alone would not trust the members: %v", err)
	}
	return s, nil
}

// try issues leaves by it, as they would be, and has them verified by who trusts the issuer's own certificate alone.
func (s *Signed) try(h Host, now time.Time) error {
	return within(s.files(), func(dir string) error {
		a, err := pki.LoadAuthority(dir, pki.ClientsCA, now)
		if err != nil {
			return err
		}
		public, err := pki.PublicKey(s.key) // of anybody
		if err != nil {
			return err
		}
		tops, between := x509.NewCertPool(), x509.NewCertPool()
		for _, c := range s.tops {
			tops.AddCert(c)
		}
		for _, c := range append([]*x509.Certificate{s.own}, s.between...) {
			between.AddCert(c)
		}
		for _, l := range leaves {
			if l.of(&pki.Authorities{Clients: a}) != a {
				continue
			}
			request, err := l.request(h)
			if err != nil {
				return err
			}
			leaf, err := a.Certify(public, request, now)
			if err != nil {
				return err
			}
			if len(s.tops) == 0 {
				continue
			}
			for _, usage := range leaf.ExtKeyUsage {
				if _, err := leaf.Verify(x509.VerifyOptions{Roots: tops, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (s *Signed) all() []*x509.Certificate {
	return slices.Concat([]*x509.Certificate{s.own}, s.between, s.tops)
}

// files are those of the clients' authority.
func (s *Signed) files() Files {
	encode := func(all ...*x509.Certificate) (out []byte) {
		for _, c := range all {
			out = append(out, pki.CertificatePEM(c)...)
		}
		return out
	}
	out := Files{
		pki.ClientsCA + ".crt": encode(append([]*x509.Certificate{s.own}, s.tops...)...), pki.ClientsCA + ".key": s.key,
		chainFile: encode(append([]*x509.Certificate{s.own}, s.between...)...),
	}
	if len(s.tops) > 0 {
		out[issuerFile] = encode(s.tops...)
	}
	return out
}

// Found makes the three authorities of a cluster, with their keys; the clients' is the one that an issuer signed, nil: it signs
// itself.
func Found(by *Signed, now time.Time) (Files, error) {
	files, err := Create(now)
	if err == nil && by != nil {
		for name, data := range by.files() {
			files[name] = data
		}
	}
	return files, err
}

// load is pki.Load, where the clients' authority ends with the first of those that signed it.
//
// Errors: as of pki.Load; ErrForeign where what is shown behind its leaves is not its own, as after an edit.
func load(dir string, now time.Time) (*pki.Authorities, error) {
	all, err := pki.Load(dir, now)
	if err != nil {
		return nil, err
	}
	var ends time.Time
	for _, name := range []string{chainFile, issuerFile} {
		signers, err := pki.ReadCertificates(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, pki.ErrPEM), err == nil && name == chainFile && !signers[0].Equal(all.Clients.Signing()):
			return nil, fmt.Errorf("%s: %w", name, ErrForeign)
		case err != nil:
			return nil, err
		}
		for _, c := range signers {
			if ends.IsZero() || c.NotAfter.Before(ends) {
				ends = c.NotAfter
			}
		}
	}
	if !ends.IsZero() {
		all.Clients = all.Clients.Until(ends)
		err = all.Clients.Check(now)
	}
	return all, err
}

// chained is a leaf's file with what its authority shows behind it.
func chained(leaf *x509.Certificate, chain []byte) []byte {
	return slices.Concat([]byte(pki.CertificatePEM(leaf)), chain)
}

// join has the certificates of both, each once.
func join(a, b []byte) (out []byte) {
	var known [][]byte
	for _, rest := range [][]byte{a, b} {
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if !slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, block.Bytes) }) {
				known, out = append(known, block.Bytes), append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
			}
		}
	}
	return out
}
