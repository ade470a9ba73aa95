// Package signing is about certificates that one host signs for another one, which holds no authority's key: what such
// a host asks for, and what may be signed for it.
//
//	the host: makes a key that never leaves it → New → the request goes to a host that holds the keys
//	there:    who asks is known by its certificate, or by its join token → Judge → the authority certifies
//
// What must always hold:
//
//   - Judge builds what is signed by itself, of what is known of the host that asks. Of the request it takes the
//     public key, and which of the host's own names are wanted. Anything else in it is a reason to refuse all of it.
//   - A host gets its own identity and its own names only, never another host's, and never what signs others.
//   - Who asks has shown that it has the private key.
//
// The package reads no file, no clock and no network.
package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
)

// Kind is which of a host's certificates is meant.
type Kind string

// The kinds, by the names under which a daemon tells of them.
const (
	Daemon   Kind = "daemon"   // to other daemons, in the host's name
	Operator Kind = "operator" // root's on that host, to daemons
	Etcdctl  Kind = "etcdctl"  // root's on that host, to etcd
	Peer     Kind = "etcd-peer"
	Server   Kind = "etcd-server"
	Client   Kind = "etcd-client" // the daemon's, to its etcd
)

// OperatorName is whom the operator's certificate of a host names.
const OperatorName = "operator"

// RootUser is whom certificates of etcd's clients on a host name.
const RootUser = "root"

// MaxLife is how long a certificate lives at most that is signed for another host: who was to be a host no more is out
// by then, without a new authority.
const MaxLife = 365 * duration.Day

// MaxRequest bounds a request, in bytes: one for a key of 4096 bits with fifty names has half of it.
const MaxRequest = 8 << 10

// What Judge refuses. The errors wrap these, and repeat no more of a request than its names.
var (
	ErrKind       = errors.New("no such certificate is signed for other hosts")
	ErrUnreadable = errors.New("the request cannot be read")
	ErrProof      = errors.New("the request does not show that its sender has the key")
	ErrKey        = errors.New("the key is too weak, or of a kind that is not used")
	ErrName       = errors.New("the request is for a name that is not the host's own")
	ErrMore       = errors.New("the request asks for more than names")
)

// Who is the host that asks, as its certificate or its join token says.
type Who struct {
	Cluster string
	Host    string
	Names   []string // its own, addresses and DNS names
	Shared  []string // those that each host may serve clients under, as of a load balancer
}

// Names are a host's own: its address, and its name where names have a suffix.
func Names(id, address, suffix string) []string {
	if suffix == "" && net.ParseIP(id) == nil {
		return []string{address}
	}
	return []string{address, id + suffix}
}

// NamesOf are those that a certificate has.
func NamesOf(leaf *x509.Certificate) []string {
	out := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// Authority is the name of the authority that signs the kind; empty: there is no such kind.
func (k Kind) Authority() string {
	switch k {
	case Daemon, Operator:
		return pki.ManagerCA
	case Peer:
		return pki.PeersCA
	case Etcdctl, Server, Client:
		return pki.ClientsCA
	}
	return ""
}

// Life is how long a certificate lives that is signed where certificates live so long.
func Life(here time.Duration) pki.Lifetime {
	return pki.Lifetime{Duration: min(here, MaxLife)}
}

// Judge says what is to be signed for a host, and for which key; or why nothing is.
func Judge(kind Kind, request []byte, who Who, life pki.Lifetime) (crypto.PublicKey, pki.Request, error) {
	ask, err := read(kind, request)
	if err != nil {
		return nil, pki.Request{}, err
	}
	names := NamesOf(&x509.Certificate{DNSNames: ask.DNSNames, IPAddresses: ask.IPAddresses})
	if foreign := strangers(names, who.may(kind)); len(foreign) > 0 {
		return nil, pki.Request{}, fmt.Errorf("%w: host %s asked for %s, and may have %s", ErrName, who.Host, shown(foreign), shown(who.may(kind)))
	}
	if kind == Daemon { // all that is the host's own: its other certificates go by it
		names = who.Names
	}
	r, err := who.request(kind, names, life)
	if err != nil {
		return nil, pki.Request{}, fmt.Errorf("%w: %w", ErrName, err)
	}
	// Who it is for is not for the request to say; where it does, it has to be right.
	if cn := ask.Subject.CommonName; cn != r.CommonName {
		return nil, pki.Request{}, fmt.Errorf("%w: host %s asked for the common name %q, and may have %q", ErrName, who.Host, cn, r.CommonName)
	}
	for _, u := range ask.URIs {
		if u.String() != r.Identity.String() || r.Identity == (pki.Identity{}) {
			return nil, pki.Request{}, fmt.Errorf("%w: host %s asked for the identity %q", ErrName, who.Host, u)
		}
	}
	return ask.PublicKey, r, nil
}

// Proven is the key of a request whose sender has shown that it has it.
func Proven(request []byte) (crypto.PublicKey, error) {
	ask, err := read(Daemon, request)
	if err != nil {
		return nil, err
	}
	return ask.PublicKey, nil
}

// sanExtension is subjectAltName, the only extension that a request may ask for.
var sanExtension = asn1.ObjectIdentifier{2, 5, 29, 17}

// read parses a request, and refuses what asks for more than a key with names.
func read(kind Kind, request []byte) (*x509.CertificateRequest, error) {
	if kind.Authority() == "" {
		return nil, fmt.Errorf("%w: %q", ErrKind, kind)
	}
	if len(request) > MaxRequest {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are allowed", ErrUnreadable, len(request), MaxRequest)
	}
	ask, err := x509.ParseCertificateRequest(request)
	if err != nil { // what is wrong with it could repeat all of it
		return nil, fmt.Errorf("%w: it is no PKCS 10", ErrUnreadable)
	}
	if !usable(ask.PublicKey) { // before its signature is looked at, which a huge key makes slow
		return nil, ErrKey
	}
	switch ask.SignatureAlgorithm { //nolint:exhaustive // all others are refused
	case x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA, x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512:
	default:
		return nil, fmt.Errorf("%w: it is signed by %s", ErrProof, ask.SignatureAlgorithm)
	}
	if ask.CheckSignature() != nil {
		return nil, ErrProof
	}
	for _, e := range ask.Extensions {
		if !e.Id.Equal(sanExtension) {
			return nil, fmt.Errorf("%w: the extension %s", ErrMore, e.Id)
		}
	}
	if len(ask.EmailAddresses) > 0 || len(ask.Subject.Names) > 1 {
		return nil, fmt.Errorf("%w: a subject beyond its common name, or addresses of mail", ErrMore)
	}
	return ask, nil
}

// usable: keys that every release of etcd takes, and that nobody makes by mistake.
func usable(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048 && k.N.BitLen() <= 4096 && k.E == 65537
	case *ecdsa.PublicKey:
		bits := k.Curve.Params().BitSize
		return bits >= 256 && bits <= 521
	}
	return false
}

// may are the names that a certificate of the kind may have.
func (w Who) may(kind Kind) []string {
	switch kind {
	case Daemon:
		return w.Names
	case Peer:
		return slices.Concat(w.Names, []string{"127.0.0.1"})
	case Server:
		return slices.Concat(w.Names, []string{"localhost", "127.0.0.1", "::1"}, w.Shared)
	case Operator, Etcdctl, Client:
	}
	return nil
}

// request is what is signed for the host.
func (w Who) request(kind Kind, names []string, life pki.Lifetime) (pki.Request, error) {
	switch kind {
	case Daemon:
		return pki.HostRequest(pki.Identity{Cluster: w.Cluster, Role: pki.RoleHost, ID: w.Host}, names, life)
	case Operator:
		return pki.CallerRequest(pki.Identity{Cluster: w.Cluster, Role: pki.RoleOperator, ID: OperatorName}, life)
	case Peer:
		return pki.PeerRequest(w.Host, nil, names, life)
	case Server:
		return pki.ServerRequest(w.Host, nil, names, life)
	case Etcdctl, Client:
		return pki.ClientRequest(RootUser, life)
	}
	return pki.Request{}, fmt.Errorf("%w: %q", ErrKind, kind)
}

// strangers are the names that are not among those allowed.
func strangers(names, allowed []string) (out []string) {
	for _, name := range names {
		if !slices.ContainsFunc(allowed, func(a string) bool { return Same(a, name) }) {
			out = append(out, name)
		}
	}
	return out
}

// Same tells whether two spellings are one address or one name.
func Same(a, b string) bool {
	if x, y := net.ParseIP(strings.Trim(a, "[]")), net.ParseIP(strings.Trim(b, "[]")); x != nil || y != nil {
		return x.Equal(y) && x != nil
	}
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// shown are a few names, for a sentence.
func shown(names []string) string {
	const most = 5
	if len(names) == 0 {
		return "none"
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%.80q", n)
	}
	return strings.Join(quoted, ", ") + more
}
