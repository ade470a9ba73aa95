package daemon

import (
	"crypto/tls"
	"net/url"

	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
)

// How this daemon reaches its own member, and knows it by its certificate.

// etcdClient is the daemon's own way to its member.
func (k *certs) etcdClient(token string) *tls.Config {
	if !k.etcdTLS {
		return nil
	}
	return inTheNameOf(k.pair(leafClient, token), k.authorities().Clients)
}

// etcdPeer is the way to the member's peer port, where it is a member that asks.
func (k *certs) etcdPeer(l record.Launch) *tls.Config {
	if !k.etcdTLS {
		return nil
	}
	config := inTheNameOf(k.pair(leafPeer, l.Token), k.authorities().Peers)
	config.ServerName = nameIn(k.pair(leafPeer, l.Token), l.URLs.Peer)
	return config
}

// serverName is whom the own member's certificate for clients names.
func (k *certs) serverName(token string, urls []string) string {
	if !k.etcdTLS {
		return ""
	}
	return nameIn(k.pair(leafServer, token), urls)
}

// nameIn is the name by which the own member is believed, wherever its listener is
// reached: the host of its URLs, which every certificate of ours has. One that was kept
// from another program may name loopback only; empty: neither, so that it has to be the
// address that is called.
func nameIn(at pair, urls []string) string {
	var known []string
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil && u.Hostname() != "" {
			known = append(known, u.Hostname())
		}
	}
	pair, err := pki.LoadKeypair(at.dir, at.names)
	if err != nil && len(known) > 0 { // it is issued with the URLs before the member starts
		return known[0]
	} else if err != nil {
		return ""
	}
	for _, name := range append(known, "127.0.0.1") {
		if pair.Leaf().VerifyHostname(name) == nil {
			return name
		}
	}
	return ""
}

// inTheNameOf shows the certificate that is in a directory by then.
func inTheNameOf(at pair, a *pki.Authority) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    a.Pool(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := pki.LoadKeypair(at.dir, at.names)
			if err != nil {
				return nil, err
			}
			return pair.TLS(), nil
		},
	}
}
