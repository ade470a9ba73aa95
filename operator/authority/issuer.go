package authority

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
)

// The clients' authority may be signed by an issuer in place of itself; docs/adr/044-an-issuer-for-the-client-side.md says why.
// Its key is made here. Beside the files of all authorities lie then what a leaf shows behind itself, which are the authority's
// certificate and those between it and the issuer's own. Beside them lies the one by which the issuer signs. Members trust it
// where spec.tls.clients.trustIssuer says so.
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

// Answer is what an issuer gave: PEM with the authority's certificate and those between, in any order, and of the issuer's own, if it
// came. Trusted: whoever the issuer signs for is to be let in as well.
type Answer struct {
	Certificate, Own []byte
	Trusted          bool
}

// Signed is the clients' authority as an issuer signed it: its own certificate, and the way from there to the issuer's own, in order.
type Signed struct {
	key     []byte
	own     *x509.Certificate
	between []*x509.Certificate
	top     *x509.Certificate // nil: it did not come
	trusted bool
}

// ErrUnfit says that what an issuer signed does not serve as the clients' authority.
var ErrUnfit = errors.New("it does not serve")

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnfit, fmt.Sprintf(format, args...))
}

// Each handshake shows the way, and it lies in each Secret: so much of it at most.
const (
	longestWay  = 8
	largestWay  = 32 << 10
	largestText = 512 << 10 // of an answer
)

// Take looks at what an issuer gave for the key that was asked for, as if a stranger had made it. What of it lies on the way from the
// authority to the issuer's own certificate is kept, and nothing else. h is any host, whose leaves are tried.
//
// Errors: ErrUnfit, with why; pki.ErrNoKey.
func Take(files Files, answer Answer, h Host, now time.Time) (*Signed, error) {
	s := &Signed{key: files[askedKey], trusted: answer.Trusted}
	public, err := pki.PublicKey(s.key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", askedKey, pki.ErrNoKey)
	}
	if len(answer.Certificate)+len(answer.Own) > largestText {
		return nil, unfit("the answer has more than %d KiB", largestText>>10)
	}
	all, err := pki.ParseCertificates(answer.Certificate)
	if err != nil {
		return nil, unfit("the certificate cannot be read")
	}
	var tops []*x509.Certificate
	if len(bytes.TrimSpace(answer.Own)) > 0 {
		if tops, err = pki.ParseCertificates(answer.Own); err != nil {
			return nil, unfit("the issuer's own certificate (status.ca) cannot be read")
		}
	}
	for _, c := range all {
		if pki.SameKey(c.PublicKey, public) {
			s.own = c
		}
	}
	if s.own == nil {
		return nil, unfit("the certificate is for another key")
	}
	if err := lasts(now, s.own); err != nil {
		return nil, err
	}
	if err := s.way(slices.DeleteFunc(all, s.own.Equal), slices.DeleteFunc(tops, s.own.Equal), h, now); err != nil {
		return nil, err
	}
	if s.trusted && s.signer() == nil {
		return nil, unfit("the issuer does not tell by which certificate it signs (status.ca), so that spec.tls.clients.trustIssuer can let nobody in by it")
	}
	needed := s.between // what came beyond the issuer's own certificate is only shown, too
	if i := slices.IndexFunc(s.between, func(c *x509.Certificate) bool { return s.top != nil && c.Equal(s.top) }); i >= 0 {
		needed = s.between[:i]
	}
	if err := lasts(now, needed...); err != nil {
		return nil, err
	}
	if s.trusted { // else nobody goes by it whom the operator gives certificates
		if err := lasts(now, s.signer()); err != nil {
			return nil, err
		}
	}
	if n := len(encode(s.all()...)); len(s.all()) > longestWay || n > largestWay {
		return nil, unfit("the way to the issuer's own certificate is of %d certificates, and %d KiB", len(s.all()), n>>10)
	}
	return s, nil
}

// lasts says why not each of these signs for long enough.
func lasts(now time.Time, all ...*x509.Certificate) error {
	for _, c := range all {
		switch {
		case !pki.SignsCertificates(c):
			return unfit("the certificate of %q is no authority's: the issuer has to sign with isCA", c.Subject)
		case now.Before(c.NotBefore):
			return unfit("the certificate of %q is not valid before %s", c.Subject, c.NotBefore.UTC().Format(time.RFC3339))
		case c.NotAfter.Sub(now) < LeastLife:
			return unfit("the certificate of %q ends at %s, and %s are needed", c.Subject, c.NotAfter.UTC().Format(time.RFC3339), duration.Format(LeastLife))
		}
	}
	return nil
}

// way finds the way from the authority to one of the issuer's own certificates, the one that lasts longest: leaves are issued by the
// authority, as they would be, and verified by who trusts the issuer's own certificates alone. Of an issuer that does not tell one
// it is whoever signed the last one. What came beyond is shown, too.
func (s *Signed) way(others, tops []*x509.Certificate, h Host, now time.Time) error {
	made, err := s.leaves(h, now)
	if err != nil {
		return unfit("it issues no certificates: %v", err)
	}
	if len(tops) == 0 {
		s.goOn(s.own, others)
		return nil
	}
	chains, err := verify(made[0], append([]*x509.Certificate{s.own}, others...), tops, now)
	for _, chain := range chains { // the leaf, the authority, those between, and the issuer's own
		if n := len(chain); n > 2 && chain[1].Equal(s.own) && (s.top == nil || longer(chain[2:], s.all()[1:])) {
			s.between, s.top = chain[2:n-1], chain[n-1]
		}
	}
	if err == nil && s.top == nil {
		err = errors.New("the authority is on no way to the issuer's own certificate")
	}
	for _, leaf := range made {
		if err == nil {
			_, err = verify(leaf, append([]*x509.Certificate{s.own}, s.between...), []*x509.Certificate{s.top}, now)
		}
	}
	if err != nil {
		return unfit("who trusts the issuer alone would not trust the members: %v", err)
	}
	if slices.ContainsFunc(others, s.top.Equal) && !signsItself(s.top) {
		s.between = append(s.between, s.top)
		s.goOn(s.top, others)
	}
	return nil
}

// goOn has what came of the way from the last one on shown as well, but for one that signs itself: an issuer that was given no root
// calls the certificate its own by which it signs, and who trusts the root needs that one.
func (s *Signed) goOn(last *x509.Certificate, others []*x509.Certificate) {
	for !signsItself(last) && len(s.between) < longestWay {
		i := slices.IndexFunc(others, func(c *x509.Certificate) bool {
			return last.CheckSignatureFrom(c) == nil && !signsItself(c) && !slices.ContainsFunc(s.between, c.Equal)
		})
		if i < 0 {
			return
		}
		last = others[i]
		s.between = append(s.between, last)
	}
}

func signsItself(c *x509.Certificate) bool { return c.CheckSignatureFrom(c) == nil }

// longer says which of two ways is to be had: the one that lasts longer, and of equal ones that of which more is shown.
func longer(way, than []*x509.Certificate) bool {
	first := func(all []*x509.Certificate) time.Time {
		return slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
	}
	return cmp.Or(first(way).Compare(first(than)), len(way)-len(than)) > 0
}

func verify(leaf *x509.Certificate, between, tops []*x509.Certificate, now time.Time) (chains [][]*x509.Certificate, err error) {
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range tops {
		roots.AddCert(c)
	}
	for _, c := range between {
		others.AddCert(c)
	}
	for _, usage := range leaf.ExtKeyUsage {
		if chains, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return nil, err
		}
	}
	return chains, nil
}

// leaves are those of a host by this authority, with keys of nobody.
func (s *Signed) leaves(h Host, now time.Time) (out []*x509.Certificate, err error) {
	err = within(s.files(), func(dir string) error {
		a, err := pki.LoadAuthority(dir, pki.ClientsCA, now)
		if err != nil {
			return err
		}
		public, err := pki.PublicKey(s.key)
		if err != nil {
			return err
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
			out = append(out, leaf)
		}
		return nil
	})
	return out, err
}

func (s *Signed) all() []*x509.Certificate {
	out := append([]*x509.Certificate{s.own}, s.between...)
	if s.top != nil && !slices.ContainsFunc(s.between, s.top.Equal) {
		out = append(out, s.top)
	}
	return out
}

// signer is the certificate by which the issuer signs; nil: it did not come. What it calls its own may be a root above it, by which
// other issuers would be let in.
func (s *Signed) signer() *x509.Certificate {
	if len(s.between) > 0 {
		return s.between[0]
	}
	return s.top
}

func encode(all ...*x509.Certificate) (out []byte) {
	for _, c := range all {
		out = append(out, pki.CertificatePEM(c)...)
	}
	return out
}

// files are those of the clients' authority. Members let in who has a certificate of it, and of the issuer only where that is asked
// for: who has the key of a former authority of the same issuer would be let in as long as that lasts.
func (s *Signed) files() Files {
	out := Files{
		pki.ClientsCA + ".crt": encode(s.own), pki.ClientsCA + ".key": s.key,
		chainFile: encode(append([]*x509.Certificate{s.own}, s.between...)...),
	}
	if by := s.signer(); by != nil {
		out[issuerFile] = encode(by)
		if s.trusted {
			out[pki.ClientsCA+".crt"] = encode(s.own, by)
		}
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
