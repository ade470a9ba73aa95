package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Role is what kind of caller a certificate of ManagerCA names.
type Role string

// The roles. A host answers for its own member, an operator is a person who may ask for changes, and
// a reader may only look.
const (
	RoleHost     Role = "host"
	RoleOperator Role = "operator"
	RoleReader   Role = "reader"
)

// Identity is who a certificate of ManagerCA says its holder is. It is carried as the one URI
// etcdadm://CLUSTER/ROLE/ID of the certificate's alternative names.
type Identity struct {
	Cluster string // the cluster's name
	Role    Role
	ID      string // a host's ID, or a person's name
}

// ErrIdentity is wrapped by every error about who somebody is, as opposed to whether the certificate is valid.
// The other two tell apart what CheckServer found; both are ErrIdentity too.
var (
	ErrIdentity     = errors.New("wrong identity")
	ErrOtherCluster = fmt.Errorf("%w: another cluster", ErrIdentity)
	ErrOtherHost    = fmt.Errorf("%w: another host", ErrIdentity)
)

const (
	identityScheme = "etcdadm"
	// The bound of a domain name, which the cluster's name stands in for in the URI.
	maxIdentityPart = 253
)

func (id Identity) String() string {
	return identityScheme + "://" + id.Cluster + "/" + string(id.Role) + "/" + url.PathEscape(id.ID)
}

// Validate refuses what could not be written into a certificate and read back unchanged.
func (id Identity) Validate() error {
	switch id.Role {
	case RoleHost, RoleOperator, RoleReader:
	default:
		return fmt.Errorf("%w: role %q is none of host, operator and reader", ErrIdentity, id.Role)
	}
	if !isDotted(id.Cluster) {
		return fmt.Errorf("%w: cluster name %q: use letters, digits, '-', '_' and single dots inside, at most %d in all",
			ErrIdentity, id.Cluster, maxIdentityPart)
	}
	if id.ID == "" || len(id.ID) > maxIdentityPart || id.ID == "." || id.ID == ".." || strings.ContainsFunc(id.ID, notPrintable) {
		return fmt.Errorf("%w: ID %q: use 1 to %d printable ASCII characters without '/'", ErrIdentity, id.ID, maxIdentityPart)
	}
	return nil
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' || r == '/' }

// isDotted says whether name is labels joined by single dots, as host names and cluster names are.
func isDotted(name string) bool {
	if len(name) > maxIdentityPart {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.ContainsFunc(label, notInName) {
			return false
		}
	}
	return true
}

func notInName(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && !('0' <= r && r <= '9') && r != '-' && r != '_'
}

func (id Identity) uri() (*url.URL, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	return url.Parse(id.String())
}

// IdentityOf reads the identity of a certificate. There must be exactly one, in its canonical
// spelling, so that two spellings can never be taken for two callers or the other way round. It says nothing
// about whether the certificate is to be trusted.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var id Identity
	found := 0
	for _, u := range cert.URIs {
		if !strings.EqualFold(u.Scheme, identityScheme) {
			continue
		}
		found++
		role, name, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
		unescaped, err := url.PathUnescape(name)
		if err != nil {
			return Identity{}, fmt.Errorf("%w: cannot read %q", ErrIdentity, u)
		}
		id = Identity{Cluster: u.Host, Role: Role(role), ID: unescaped}
		if err := id.Validate(); err != nil {
			return Identity{}, err
		}
		if id.String() != u.String() {
			return Identity{}, fmt.Errorf("%w: %q is not spelled canonically", ErrIdentity, u)
		}
	}
	if found != 1 {
		return Identity{}, fmt.Errorf("%w: certificate of %q carries %d %s:// names, want exactly one", ErrIdentity, cert.Subject, found, identityScheme)
	}
	return id, nil
}

// CheckServer says whether a server that presented id may be taken for the named host of the cluster.
// An empty host accepts every host of the cluster (a seed's ID is not known yet), and an empty
// cluster every cluster (asking an unknown daemon which one it serves).
func CheckServer(id Identity, cluster, host string) error {
	switch {
	case id.Role != RoleHost:
		return fmt.Errorf("%w: dialled a host, but %s answered", ErrIdentity, id)
	case cluster != "" && id.Cluster != cluster:
		return fmt.Errorf("%w: dialled a host of cluster %q, but it belongs to cluster %q", ErrOtherCluster, cluster, id.Cluster)
	case host != "" && id.ID != host:
		return fmt.Errorf("%w: dialled host %q, but host %q answered", ErrOtherHost, host, id.ID)
	}
	return nil
}

// CheckCaller says whether the holder of a certificate for id is who the call claims.
func CheckCaller(id, claimed Identity) error {
	if id != claimed {
		return fmt.Errorf("%w: the call is from %s by its own account and from %s by its certificate", ErrIdentity, claimed, id)
	}
	return nil
}
