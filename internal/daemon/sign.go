package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
	"etcdadm.io/internal/token"
)

// genuine refuses a token whose record nobody with the authorities' keys has made: whoever writes the store, a host
// without keys among them, could let in whom it likes else.
func (a admitter) genuine(rec token.Record, r peer.JoinRequest) error {
	cas := a.d.certs.authorities()
	if cas == nil || !cas.Manager.Sealed(rec.Statement(a.d.cfg.ClusterName), rec.Seal) {
		return fmt.Errorf("token %s %w", rec.ID, token.ErrUnsealed)
	}
	if rec.Host != "" && rec.Host != string(r.Host) {
		return fmt.Errorf("token %s %w: it is for host %s, and %s came with it", rec.ID, token.ErrOtherHost, rec.Host, r.Host)
	}
	return nil
}

// provesItself tells whether the joiner has the key of a certificate that said it is this host, whether it has ended or not.
func (a admitter) provesItself(r peer.JoinRequest) bool {
	cas := a.d.certs.authorities()
	if cas == nil || len(r.Former) == 0 || len(r.Leaf) == 0 {
		return false
	}
	public, err := signing.Proven(r.Leaf)
	if err != nil {
		return false
	}
	former, err := x509.ParseCertificate(r.Former)
	if err != nil || !cas.Manager.Signed(former) {
		return false
	}
	id, err := pki.IdentityOf(former)
	return err == nil && id == pki.Identity{Cluster: a.d.cfg.ClusterName, Role: pki.RoleHost, ID: string(r.Host)} && pki.SameKey(former.PublicKey, public)
}

// leaf is the certificate of a joiner's daemon, which is all that it needs to ask for the others.
func (a admitter) leaf(r peer.JoinRequest, known bool, now time.Time) ([]byte, error) {
	d := a.d
	if len(r.Leaf) == 0 {
		return nil, mistake("install the same release of etcdadm on both hosts", "the join token gives no authority's key, and the joiner asked for no certificate")
	}
	if err := a.nobodyElses(r, known); err != nil {
		return nil, err
	}
	who := signing.Who{Cluster: d.cfg.ClusterName, Host: string(r.Host), Names: signing.Names(string(r.Host), r.Address, d.cfg.DNSSuffix)}
	der, err := certify(d, signing.Daemon, r.Leaf, who, now)
	if err != nil {
		return nil, &Error{Problem: "no certificate was signed for the joiner", Err: err, Advice: "install the same release of etcdadm on both hosts, and give the joiner's own address: --address"}
	}
	return der, nil
}

// nobodyElses refuses to certify a name or an address that is another host's. Who gets the keys could take any; who gets
// a leaf must not.
func (a admitter) nobodyElses(r peer.JoinRequest, known bool) error {
	d := a.d
	forget := func(host string) string {
		return "give the joiner a name and an address of its own; if host " + host + " is gone for good: etcdadm host forget " + host
	}
	if net.ParseIP(string(r.Host)) != nil && !signing.Same(string(r.Host), r.Address) {
		return mistake("give the joiner another ID, or its own address: --host-id, --address", "the ID %s is an address, and the joiner's is %s", r.Host, r.Address)
	}
	names := signing.Names(string(r.Host), r.Address, d.cfg.DNSSuffix)
	for _, c := range d.contacts() {
		if c.Host == r.Host {
			if !known {
				return mistake(forget(string(c.Host)), "the cluster knows a host %s, and the joiner does not have the key of its certificate", c.Host)
			}
			continue
		}
		for _, name := range names {
			if isNamed(d, c, name) {
				return mistake(forget(string(c.Host)), "%s is a name of host %s of the cluster", name, c.Host)
			}
		}
	}
	return nil
}

// names tells whether a name or an address is that of a host.
func isNamed(d *daemon, c cluster.Contact, name string) bool {
	return signing.Same(name, hostOf(c.Endpoint)) || signing.Same(name, string(c.Host)) || signing.Same(name, d.cfg.HostName(c.Host))
}

// hostOf is the host of an endpoint.
func hostOf(endpoint string) string {
	at := strings.LastIndexByte(endpoint, ':')
	if at < 0 {
		return endpoint
	}
	return strings.Trim(endpoint[:at], "[]")
}

// errNoKeys says that this host signs nothing, for want of the keys.
var errNoKeys = errors.New("this host does not hold the authorities' keys")

// certify signs for another host what that may have.
func certify(d *daemon, kind signing.Kind, request []byte, who signing.Who, now time.Time) ([]byte, error) {
	cas := d.certs.authorities()
	if cas == nil {
		return nil, errNoKeys
	}
	if a := cas.Of(kind.Authority()); a != nil && !a.CanIssue() {
		return nil, errNoKeys
	}
	public, r, err := signing.Judge(kind, request, who, signing.Life(d.certs.life.Duration))
	if err != nil {
		return nil, err
	}
	leaf, err := cas.Of(kind.Authority()).Certify(public, r, now)
	if err != nil {
		return nil, err
	}
	d.log.Info("signed a certificate for another host", "host", who.Host, "certificate", kind, "names", signing.NamesOf(leaf), "serial", fmt.Sprintf("%x", leaf.SerialNumber), "until", leaf.NotAfter)
	return leaf.Raw, nil
}

const (
	// signsAnHour is how many certificates are signed for one host within an hour, at least: ten times what it needs
	// when it joins. Where certificates live so shortly that more are needed, three times that. Each is a line of the log.
	signsAnHour = 60
	// signsALife is three times six certificates that are renewed at a third of their life.
	signsALife = 3 * 6 * 3
	// maxSigned bounds the hosts whose certificates are counted.
	maxSigned = 256
)

// signer signs for other hosts, which show their certificates.
type signer struct {
	d *daemon

	mu    sync.Mutex
	count map[string]int // guarded by mu; by host, since
	since time.Time      // guarded by mu
}

// Sign implements peer.Signer. The names of the host are those of the certificate that it shows.
func (s *signer) Sign(_ context.Context, from peer.Caller, r peer.SignRequest) (peer.SignReply, error) {
	now := time.Now()
	if !s.another(from.Identity.ID, now) {
		return peer.SignReply{}, mistake("look at its log, why it asks so often", "%d certificates were signed for host %s within this hour, and no more are", s.most(), from.Identity.ID)
	}
	who := signing.Who{Cluster: s.d.cfg.ClusterName, Host: from.Identity.ID, Names: signing.NamesOf(from.Leaf), Shared: sharedNames(s.d)}
	der, err := certify(s.d, signing.Kind(r.Kind), r.Request, who, now)
	switch {
	case errors.Is(err, errNoKeys):
		return peer.SignReply{}, &Error{Problem: fmt.Sprintf("host %s signs no certificates", s.d.id), Err: err, Advice: "ask a host that holds them"}
	case errors.Is(err, signing.ErrName):
		return peer.SignReply{}, &Error{Problem: "no certificate was signed", Err: err, Advice: "where the host's address or name is another one now: make a token with --leaf-only --host, and run etcdadm join --again there"}
	case err != nil:
		return peer.SignReply{}, &Error{Problem: "no certificate was signed", Err: err, Advice: "install the same release of etcdadm on both hosts"}
	}
	return peer.SignReply{Certificate: der}, nil
}

// another counts one more certificate for a host, and tells whether that is still in order.
func (s *signer) another(host string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.since); since >= time.Hour || since < 0 {
		s.count, s.since = map[string]int{}, now
	}
	if s.count[host] >= s.most() || s.count[host] == 0 && len(s.count) >= maxSigned {
		return false
	}
	s.count[host]++
	return true
}

// most is how many certificates are signed for one host within an hour.
func (s *signer) most() int {
	return max(signsAnHour, int(signsALife*time.Hour/s.d.certs.life.Duration))
}

// sharedNames are those under which each host may serve clients: what is written out in the URLs that all hosts have,
// and is no host's own.
func sharedNames(d *daemon) (out []string) {
	shared := d.cfg.Shared()
	known := d.contacts()
	for _, flag := range []string{"client-urls", "quarantine-client-urls"} {
		for raw := range strings.SplitSeq(shared[flag], ",") {
			u, err := url.Parse(raw)
			if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), "__") {
				continue
			}
			name := u.Hostname()
			if !slices.ContainsFunc(known, func(c cluster.Contact) bool { return isNamed(d, c, name) }) {
				out = append(out, name)
			}
		}
	}
	return out
}
