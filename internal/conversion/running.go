package conversion

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
)

// running is a throw-away etcd, and how it is reached.
type running struct {
	etcd     *snapshot.ThrowAway
	endpoint keycopy.Endpoint
	within   time.Duration // that it may take to serve
}

// nobody is an address at which nothing is, for etcds that have no peers.
const nobody = "http://127.0.0.1:1"

// answerWithin bounds one answer of an etcd that may be starting; it is asked again.
const answerWithin = 5 * time.Second

// startV3 runs an etcd of version 3 that takes a key and value of this size.
func startV3(ctx context.Context, site *snapshot.Site, r release.Release, data string, largest int64) (*running, error) {
	v, err := cluster.ParseVersion(r.Version)
	if err != nil {
		return nil, err
	}
	// One member that elects itself has nobody to wait for.
	flags := []string{"--heartbeat-interval=10", "--election-timeout=100"}
	if v.AtLeast(3, 3) && largest > 1<<20 {
		flags = append(flags, fmt.Sprintf("--max-request-bytes=%d", largest+1<<20))
	}
	if v.AtLeast(3, 5) {
		flags = append(flags, "--unsafe-no-fsync") // what is kept of it is synced as a whole
	}
	etcd, err := site.Start(r, data, flags...)
	if err != nil {
		return nil, err
	}
	return healthy(ctx, &running{etcd: etcd, endpoint: keycopy.Endpoint{URLs: []string{"http://throw-away:1"}, Dial: etcd.Dial}, within: snapshot.ServesWithin(data)})
}

// startV2 runs an etcd of version 2, as a founder or as whoever its data say.
func startV2(ctx context.Context, site *snapshot.Site, r release.Release, data string, f Founder, flags ...string) (*running, error) {
	pair, err := newCertificate(site)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	client, peer := "https://"+ports[0], "https://"+ports[1]
	if f.Name == "" {
		f = Founder{Name: "throw-away", PeerURLs: []string{peer}, Token: "throw-away"}
	}
	initial := make([]string, 0, len(f.PeerURLs))
	for _, u := range f.PeerURLs {
		initial = append(initial, f.Name+"="+u)
	}
	etcd, err := site.StartWith(r, slices.Concat([]string{
		"--name=" + f.Name,
		"--data-dir=" + data,
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + nobody,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + strings.Join(f.PeerURLs, ","),
		"--initial-cluster=" + strings.Join(initial, ","),
		"--initial-cluster-token=" + f.Token,
		"--heartbeat-interval=10", "--election-timeout=100",
		"--client-cert-auth", "--cert-file=" + pair.cert, "--key-file=" + pair.key, "--trusted-ca-file=" + pair.cert,
		"--peer-client-cert-auth", "--peer-cert-file=" + pair.cert, "--peer-key-file=" + pair.key, "--peer-trusted-ca-file=" + pair.cert,
	}, flags)...)
	if err != nil {
		return nil, err
	}
	v2, err := healthy(ctx, &running{etcd: etcd, endpoint: keycopy.Endpoint{URLs: []string{client}, TLS: pair.config}, within: snapshot.ServesWithin(data)})
	if err != nil {
		return nil, err
	}
	return v2, v2.capable(ctx)
}

// capable waits until an etcd 2 answers about users, too: until it has looked at the
// version of its cluster, twice in a second, it says 500. Source:
// etcdserver/api/capability.go.
func (r *running) capable(ctx context.Context) error {
	return r.answers(ctx, "answers about users", "/v2/auth/enable", func(status int) bool { return status != http.StatusInternalServerError })
}

// healthy waits until the etcd has a leader and answers.
func healthy(ctx context.Context, r *running) (*running, error) {
	if err := r.answers(ctx, "is healthy", snapshot.HealthPath, func(status int) bool { return status == http.StatusOK }); err != nil {
		return nil, err
	}
	return r, nil
}

// answers waits until the etcd answers a request well; if it does not, it is ended.
func (r *running) answers(ctx context.Context, what, path string, well func(status int) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.within, snapshot.NotServed(r.within))
	defer cancel()
	transport := &http.Transport{TLSClientConfig: r.endpoint.TLS.Clone(), DisableKeepAlives: true}
	if r.endpoint.Dial != nil {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return r.endpoint.Dial(ctx) }
	}
	err := r.etcd.Until(ctx, what, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.endpoint.URLs[0]+path, nil)
		if err != nil {
			return false, err
		}
		reply, err := transport.RoundTrip(request)
		if err != nil {
			return false, err
		}
		defer reply.Body.Close()
		said, err := io.ReadAll(io.LimitReader(reply.Body, 1<<10))
		if err == nil && !well(reply.StatusCode) {
			err = fmt.Errorf("%s: %s", reply.Status, said)
		}
		return err == nil, err
	})
	if err != nil {
		r.etcd.Kill()
	}
	return err
}

// freePorts finds ports of loopback that nobody listens on. Somebody else may take
// one before etcd does: then etcd ends, and what is made is made again.
func freePorts(ctx context.Context, n int) (addresses []string, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// certificate is good for one run: who has it is the server, or its client, or
// its peer.
type certificate struct {
	cert, key string // files
	config    *tls.Config
}

func newCertificate(site *snapshot.Site) (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "throw-away"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(7 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return certificate{}, err
	}
	c := certificate{cert: site.Path("cert.pem"), key: site.Path("key.pem")}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	if err := errors.Join(os.WriteFile(c.cert, certPEM, 0o600), os.WriteFile(c.key, keyPEM, 0o600)); err != nil {
		return certificate{}, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return certificate{}, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	c.config = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}
	return c, nil
}
