package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/duration"
)

// Settings of etcd-manager that Lifetime is read from.
const (
	EnvDuration    = "ETCD_MANAGER_CERT_DURATION"
	EnvMinTimeLeft = "ETCD_MANAGER_CERT_MIN_TIME_LEFT"
)

// Lifetime is how long a leaf lives and when it is renewed: when two thirds of its life are over or less
// than MinTimeLeft remains, whichever comes first.
type Lifetime struct {
	Duration    time.Duration
	MinTimeLeft time.Duration
}

// DefaultLifetime is what applies without a setting.
func DefaultLifetime() Lifetime {
	return Lifetime{Duration: 730 * duration.Day, MinTimeLeft: 60 * duration.Day}
}

// LifetimeFromEnv reads both settings from an environment such as os.Getenv. With only the duration set, the
// default minimum is lowered to a third of it, so that a short life alone is a valid setting.
func LifetimeFromEnv(getenv func(string) string) (Lifetime, error) {
	life := DefaultLifetime()
	for _, setting := range []struct {
		name string
		into *time.Duration
	}{{EnvDuration, &life.Duration}, {EnvMinTimeLeft, &life.MinTimeLeft}} {
		text := getenv(setting.name)
		if text == "" {
			continue
		}
		d, err := duration.Parse(text)
		if err != nil {
			return Lifetime{}, fmt.Errorf("read %s: %w", setting.name, err)
		}
		*setting.into = d
	}
	if getenv(EnvMinTimeLeft) == "" {
		life.MinTimeLeft = min(life.MinTimeLeft, life.Duration/3)
	}
	return life, life.Validate()
}

// Validate refuses a lifetime under which every certificate would be due for renewal at birth.
func (l Lifetime) Validate() error {
	if l.Duration < time.Minute {
		return fmt.Errorf("certificate lifetime %s is shorter than a minute: set %s", duration.Format(max(l.Duration, 0)), EnvDuration)
	}
	if l.MinTimeLeft < 0 || l.MinTimeLeft >= l.Duration {
		return fmt.Errorf("certificates that live %s cannot be renewed while %s is left: set %s below %s",
			duration.Format(l.Duration), l.MinTimeLeft, EnvMinTimeLeft, EnvDuration)
	}
	return nil
}

// RenewAt is when a certificate of this lifetime is due for renewal.
func (l Lifetime) RenewAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	twoThirds := leaf.NotBefore.Add(life - life/3)
	if early := leaf.NotAfter.Add(-l.MinTimeLeft); early.Before(twoThirds) {
		return early
	}
	return twoThirds
}

// renewAt is when a leaf is due.
func (r Request) renewAt(leaf *x509.Certificate) time.Time {
	if !r.OnRequest {
		return r.Lifetime.RenewAt(leaf)
	}
	issued, life := Life(leaf)
	spread := sha256.Sum256(leaf.Raw)
	return issued.Add(life/3 + life/12*time.Duration(spread[0])/256)
}

// Life is when a leaf of ours was issued, which is not where its validity begins, and for how long.
func Life(leaf *x509.Certificate) (issued time.Time, life time.Duration) {
	issued = leaf.NotBefore.Add(clockSlack)
	return issued, max(leaf.NotAfter.Sub(issued), 0)
}

// Request says what a leaf shall certify. Every leaf may act as a client; Server adds the server's usage.
type Request struct {
	CommonName string
	Server     bool
	DNS        []string // sorted, without repetition
	IPs        []net.IP // sorted, without repetition
	Identity   Identity // zero: none
	Lifetime   Lifetime
	// Key is the kind of a key that is made; one that is there is kept, whatever it is.
	Key KeyAlgorithm
	// Kept: a pair that another program issued stays as it is while it serves and is
	// not due, whatever it names.
	Kept bool
	// Anew: a person asked for a new certificate, whether one is due or not.
	Anew bool
	// OnRequest: another host signs, which may be out of reach for a while. Such a leaf is due from a third of its own
	// life on, each one at its own time within the next twelfth.
	OnRequest bool
	// first is the key that is taken where there is none; nil: a new one.
	first crypto.Signer
}

// HostRequest is for a daemon: its identity, and the addresses it is reached at (IPs or DNS names).
func HostRequest(id Identity, addresses []string, life Lifetime) (Request, error) {
	r := Request{CommonName: id.ID, Server: true, Identity: id, Lifetime: life}
	if id.Role != RoleHost {
		return Request{}, fmt.Errorf("%w: %s is not a host", ErrIdentity, id)
	}
	if err := id.Validate(); err != nil {
		return Request{}, err
	}
	err := r.addHosts(addresses)
	return r, err
}

// CallerRequest is for an operator or a reader, who calls daemons and serves nothing.
func CallerRequest(id Identity, life Lifetime) (Request, error) {
	if id.Role == RoleHost {
		return Request{}, fmt.Errorf("%w: %s is a host, which also serves", ErrIdentity, id)
	}
	return Request{CommonName: id.ID, Identity: id, Lifetime: life}, id.Validate()
}

// PeerRequest is for etcd's peer port. etcd uses it on both ends and, when a certificate names addresses,
// compares them with the address that the connection comes from (checkCertSAN in its package transport), so
// list every address of the host besides the peer URLs' own names.
func PeerRequest(hostID string, peerURLs, addresses []string, life Lifetime) (Request, error) {
	r := Request{CommonName: hostID, Server: true, Lifetime: life}
	err := errors.Join(r.addURLs(peerURLs), r.addHosts(addresses))
	return r, err
}

// ServerRequest is for etcd's client port. It is a client's certificate too: etcd's own HTTP gateway
// dials the gRPC port with it, from loopback, and health probes arrive there, so loopback is always among the names.
func ServerRequest(hostID string, clientURLs, addresses []string, life Lifetime) (Request, error) {
	r := Request{CommonName: hostID, Server: true, Lifetime: life}
	err := errors.Join(r.addURLs(clientURLs), r.addHosts(addresses), r.addHosts([]string{"localhost", "127.0.0.1", "::1"}))
	return r, err
}

// ClientRequest is for a client of etcd. With authentication on, commonName is the etcd user. It names no
// address, so that etcd does not tie it to one.
func ClientRequest(commonName string, life Lifetime) (Request, error) {
	if commonName == "" {
		return Request{}, errors.New("request client certificate: the common name is empty: name the etcd user")
	}
	return Request{CommonName: commonName, Lifetime: life}, nil
}

func (r *Request) addURLs(urls []string) error {
	var hosts []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			return fmt.Errorf("request certificate: %q is not a URL with a host", text)
		}
		hosts = append(hosts, u.Hostname())
	}
	return r.addHosts(hosts)
}

// addHosts sorts IPs from names. Addresses that mean "all of them" certify nothing and are left out.
func (r *Request) addHosts(hosts []string) error {
	for _, host := range hosts {
		ip := net.ParseIP(strings.Trim(host, "[]"))
		switch {
		case ip != nil && ip.IsUnspecified():
		case ip != nil:
			if v4 := ip.To4(); v4 != nil {
				ip = v4
			}
			r.IPs = append(r.IPs, ip)
		case !isDotted(strings.TrimSuffix(host, ".")):
			return fmt.Errorf("request certificate: %q is neither an IP address nor a host name", host)
		default:
			r.DNS = append(r.DNS, strings.ToLower(strings.TrimSuffix(host, ".")))
		}
	}
	r.sortHosts()
	return nil
}

func (r *Request) sortHosts() {
	slices.Sort(r.DNS)
	r.DNS = slices.Compact(r.DNS)
	slices.SortFunc(r.IPs, func(a, b net.IP) int { return slices.Compare(a, b) })
	r.IPs = slices.CompactFunc(r.IPs, net.IP.Equal)
}

// differs says in words what of a certificate is not as requested; empty when all is.
func (r Request) differs(c *x509.Certificate) string {
	dns, ips := slices.Sorted(slices.Values(c.DNSNames)), slices.Clone(c.IPAddresses)
	for i, ip := range ips {
		if v4 := ip.To4(); v4 != nil {
			ips[i] = v4
		}
	}
	slices.SortFunc(ips, func(a, b net.IP) int { return slices.Compare(a, b) })
	var uris []string
	for _, u := range c.URIs {
		uris = append(uris, u.String())
	}
	var wantURIs []string
	if r.Identity != (Identity{}) {
		wantURIs = []string{r.Identity.String()}
	}
	switch {
	case c.Subject.CommonName != r.CommonName:
		return fmt.Sprintf("its common name is %q, want %q", c.Subject.CommonName, r.CommonName)
	case !slices.Equal(dns, r.DNS) || !slices.EqualFunc(ips, r.IPs, net.IP.Equal):
		return fmt.Sprintf("it names %v %v, want %v %v", dns, ips, r.DNS, r.IPs)
	case !slices.Equal(uris, wantURIs):
		return fmt.Sprintf("its identity is %q, want %q", uris, wantURIs)
	}
	for _, u := range r.usages() {
		if !slices.Contains(c.ExtKeyUsage, u) {
			return "it lacks a usage"
		}
	}
	return ""
}

func (r Request) usages() []x509.ExtKeyUsage {
	if r.Server {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}
