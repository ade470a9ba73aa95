package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Live is the key pair and the trusted authorities that handshakes use at this moment. The TLS
// configurations made from it follow every Swap: the next handshake presents the new leaf and trusts the
// new bundle; connections that stand are left alone. Safe for concurrent use.
type Live struct {
	now func() time.Time
	cur atomic.Pointer[credentials]
}

type credentials struct {
	pair  *tls.Certificate
	chain *tls.Certificate // pair, with the authority's certificate behind it
	roots *x509.CertPool
	// verified remembers, by the certificate of a connection, what a full
	// check found: one costs as much as the rest of a call.
	verified sync.Map // *x509.Certificate → verification
}

// verification is the outcome of a full check.
type verification struct {
	usage    x509.ExtKeyUsage
	identity Identity
	at       time.Time
}

// reverify is how long a full check holds for a connection, while the leaf's
// own dates and the trusted authorities stay as they are.
const reverify = time.Minute

var errNoCredentials = errors.New("no certificate is loaded yet")

// NewLive starts with no credentials: handshakes fail until the first Swap. A nil clock is time.Now.
func NewLive(now func() time.Time) *Live {
	if now == nil {
		now = time.Now
	}
	return &Live{now: now}
}

// Swap makes later handshakes present pair and trust a's bundle.
func (l *Live) Swap(pair *Keypair, a *Authority) {
	chain := pair.TLS()
	if ca := a.signer(pair.leaf); ca != nil {
		chain.Certificate = append(chain.Certificate, ca.Raw)
	}
	l.cur.Store(&credentials{pair: pair.TLS(), chain: chain, roots: a.Pool()})
}

// Loaded says whether there was a Swap.
func (l *Live) Loaded() bool { return l.cur.Load() != nil }

// ServerConfig is for a server that asks every caller for a certificate of the trusted authorities that
// carries an identity. Whether that identity may do what it asks is for the server to judge call by call (see
// CheckCaller): a refusal in words reaches the caller, a refused handshake only as an alert. Who calls it by JoinName
// is asked for no certificate, and none is known of it: PeerCertificates is empty.
func (l *Live) ServerConfig() *tls.Config {
	cfg := l.config()
	cfg.ClientAuth = tls.RequireAnyClientCert // chain, dates and usage are verified below, against the authorities of the moment
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := l.Verify(cs.PeerCertificates, x509.ExtKeyUsageClientAuth)
		return err
	}
	return l.withJoiners(cfg)
}

// ClientConfig is for dialling a host of the cluster; what an empty cluster or host accepts is said at CheckServer.
// The server's identity is what counts, not the address it was dialled by: addresses change hands.
func (l *Live) ClientConfig(cluster, host string) *tls.Config {
	cfg := l.config()
	cfg.InsecureSkipVerify = true // replaced, not skipped: VerifyConnection checks chain, dates, usage and identity
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		id, err := l.Verify(cs.PeerCertificates, x509.ExtKeyUsageServerAuth)
		if err != nil {
			return err
		}
		return CheckServer(id, cluster, host)
	}
	return cfg
}

// Verify checks a chain, leaf first, against the authorities of the moment and for the given usage, and
// returns the leaf's identity. A server calls it again for calls on a connection that has been open for long.
func (l *Live) Verify(chain []*x509.Certificate, usage x509.ExtKeyUsage) (Identity, error) {
	c := l.cur.Load()
	switch {
	case c == nil:
		return Identity{}, errNoCredentials
	case len(chain) == 0:
		return Identity{}, fmt.Errorf("%w: no certificate was presented", ErrIdentity)
	}
	now := l.now()
	if err := validAt(chain[0], now); err != nil { // x509 says the same with less detail
		return Identity{}, err
	}
	if v, ok := c.verified.Load(chain[0]); ok {
		if v := v.(verification); v.usage == usage && now.Sub(v.at).Abs() < reverify {
			return v.identity, nil
		}
	}
	if err := verifyLeaf(chain[0], chain[1:], c.roots, usage, now); err != nil {
		return Identity{}, fmt.Errorf("verify certificate of %q: %w", chain[0].Subject, err)
	}
	id, err := IdentityOf(chain[0])
	if err == nil {
		c.verified.Store(chain[0], verification{usage: usage, identity: id, at: now})
	}
	return id, err
}

func (l *Live) config() *tls.Config {
	present := func() (*tls.Certificate, error) {
		if c := l.cur.Load(); c != nil {
			return c.pair, nil
		}
		return nil, errNoCredentials
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		Time:                   l.now,
		SessionTicketsDisabled: true, // every handshake is a full one, on today's certificates
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return present() },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return present() },
	}
}
