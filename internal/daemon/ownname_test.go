package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
)

// A member whose certificates etcd-manager issued for __name__ names its DNS name and
// loopback only, and may listen on the host's own address alone (--etcd-address): it is
// believed there all the same, at both of its ports. One of another host is not.
func TestOwnMemberIsBelievedByItsName(t *testing.T) {
	for _, c := range []struct {
		name    string
		dns     []string
		ips     []net.IP
		refused bool
	}{
		{"as etcd-manager issues them", []string{"a.internal"}, []net.IP{net.IPv4(127, 0, 0, 1)}, false},
		{"loopback only", nil, []net.IP{net.IPv4(127, 0, 0, 1)}, false},
		{"the address only", nil, []net.IP{net.IPv4(127, 0, 0, 2)}, false},
		{"another host", []string{"b.internal"}, []net.IP{net.IPv4(127, 0, 0, 3)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, l := &daemon{log: slog.New(slog.DiscardHandler)}, record.Launch{Token: "one", Adopted: true, Version: cluster.MustVersion("3.6.16")}
			d.cfg = Config{ClusterName: "c", DataDir: t.TempDir(), PKIDir: t.TempDir(), Address: "127.0.0.2", EtcdAddress: "127.0.0.2", DNSSuffix: ".internal"}
			if _, err := pki.Create(d.cfg.PKIDir, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
			var err error
			if d.certs, err = newCerts(&d.cfg, "a", nil, d.log); err != nil {
				t.Fatal(err)
			}
			theirs := pki.Request{CommonName: "a", Server: true, DNS: c.dns, IPs: c.ips, Lifetime: d.certs.life}
			kept := func(dir string, names pki.Names, by *pki.Authority) (string, <-chan error) {
				done, err := pki.Ensure(dir, names, by, theirs, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				return listenAs(t, d.cfg.EtcdAddress, done.Pair)
			}
			peerPort, peers := kept(d.certs.peersDir(l.Token), pki.PeerNames, d.certs.authorities().Peers)
			port, clients := kept(d.certs.clientsDir(l.Token), pki.ServerNames, d.certs.authorities().Clients)
			l.URLs = cluster.URLs{Peer: []string{"https://a.internal:" + peerPort}, Client: []string{"https://a.internal:" + port}}
			if err := d.certs.forLaunch(l); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			config := d.etcdConfig(l)
			client, err := etcd.New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			asking, asked := context.WithCancel(ctx)
			defer asked()
			go client.Status(asking) //nolint:errcheck // nobody answers but for the handshake
			go config.Voters(ctx)    //nolint:errcheck // the same
			for side, shook := range map[string]<-chan error{"client": clients, "peer": peers} {
				select {
				case err := <-shook:
					if (err != nil) != c.refused {
						t.Errorf("the %s port: %v", side, err)
					}
				case <-ctx.Done():
					t.Errorf("nobody called at the %s port", side)
				}
			}
		})
	}
}

// listenAs shakes hands with whoever calls, and says how the first did.
func listenAs(t *testing.T, address string, pair *pki.Keypair) (port string, shook <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*pair.TLS()}, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: tls.RequireAnyClientCert})
			err = server.Handshake()
			select {
			case ended <- err:
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			conn.Close()
		}
	}()
	return fmt.Sprint(listener.Addr().(*net.TCPAddr).Port), ended
}
