package tls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/plan"
)

// The authorities of a serving cluster are rotated, and no request fails of clients that are given what the docs say
// before each step. In the end nobody trusts the old ones: no daemon, no member, and no client.
func TestRotateAuthorities(t *testing.T) {
	t.Parallel()
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			if version != testetcd.V36 && !*rig.Long {
				t.Skip("one release is enough for every day: -e2e.long")
			}
			rotateAll(t, version)
		})
	}
}

func rotateAll(t *testing.T, version string) {
	t.Helper()
	c := withOwnAuthorities(t, rig.Options{Version: version})
	old := bundles(t, c.Host(1))
	k := newKnowing(t, c)
	began := time.Now()
	rotate(t, c, "")
	trustAll := time.Since(began)
	for _, h := range c.Hosts {
		for name, certs := range bundles(t, h) {
			if len(certs) != 2 {
				t.Errorf("host %d trusts %d certificates of %s", h.N, len(certs), name)
			}
		}
	}
	k.renew() // both are trusted
	signing := time.Now()
	rotate(t, c, "--sign")
	signed := time.Since(signing)
	k.renew() // a certificate of the next one
	dropping := time.Now()
	rotate(t, c, "--finish")
	t.Logf("all trust both after %s, all use the next ones after %s, the old ones are dropped after %s", trustAll, signed, time.Since(dropping))
	k.check()
	dropped(t, c, old)
	serve(t, c)
	for _, h := range c.Hosts {
		for name, certs := range bundles(t, h) {
			if len(certs) != 1 || certs[0].Equal(old[name][0]) {
				t.Errorf("host %d trusts %d certificates of %s", h.N, len(certs), name)
			}
		}
	}

	// Another rotation begins from there, and is taken back.
	now := bundles(t, c.Host(1))
	rotate(t, c, "")
	rotate(t, c, "--undo")
	for _, h := range c.Hosts {
		for name, certs := range bundles(t, h) {
			if len(certs) != 1 || !certs[0].Equal(now[name][0]) {
				t.Errorf("after an undo host %d trusts %d certificates of %s", h.N, len(certs), name)
			}
		}
	}
}

// The leading daemon is killed in each phase: the rotation goes on, and no request fails.
func TestRotateAuthoritiesOverCrashes(t *testing.T) {
	rig.TakesLong(t, "90 s")
	t.Parallel()
	c := withOwnAuthorities(t, rig.Options{})
	old := bundles(t, c.Host(1))
	k := newKnowing(t, c)
	for _, step := range []struct {
		flag  string
		phase cluster.RotationPhase
	}{{"", cluster.RotateTrust}, {"--sign", cluster.RotateSign}, {"--finish", cluster.RotateDrop}} {
		stepped := make(chan string, 1)
		go func() {
			r := c.Etcdadm(rotateArgs(c.Host(1), step.flag)...)
			stepped <- r.String()
		}()
		reaches(t, c, step.phase)
		h := c.Leader(rig.Soon, c.Host(1))
		h.Kill()
		h.Start()
		said := <-stepped
		// The command may have lost its daemon; said again it goes on.
		rotate(t, c, step.flag)
		t.Logf("%s: host %d was killed; the command said %q", step.phase, h.N, said)
		k.renew()
	}
	k.check()
	dropped(t, c, old)
	serve(t, c)
}

// withOwnAuthorities is a cluster of three whose hosts have each a directory of authorities.
func withOwnAuthorities(t *testing.T, o rig.Options) *rig.Cluster {
	t.Helper()
	o.Hosts, o.TLS = 3, true
	c := rig.NewCluster(t, o)
	for _, h := range c.Hosts {
		dir := pkiOf(h)
		if err := os.CopyFS(dir, os.DirFS(c.PKIDir())); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h.Flags = append(h.Flags, "--pki-dir="+dir)
	}
	c.Form(3)
	return c
}

func pkiOf(h *rig.Host) string { return filepath.Join(h.C.Dir, fmt.Sprintf("pki%d", h.N)) }

func bundles(t *testing.T, h *rig.Host) map[string][]*x509.Certificate {
	t.Helper()
	out := map[string][]*x509.Certificate{}
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		certs, err := pki.ReadCertificates(filepath.Join(pkiOf(h), name+".crt"))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = certs
	}
	return out
}

func rotateArgs(h *rig.Host, flag string) []string {
	args := []string{"certs", "rotate-ca", "--yes", "--timeout=3m", "--data-dir=" + h.Dir}
	if flag != "" {
		args = append(args, flag)
	}
	return args
}

func rotate(t *testing.T, c *rig.Cluster, flag string) {
	t.Helper()
	r := c.Etcdadm(rotateArgs(c.Host(1), flag)...)
	if r.Code != 0 {
		t.Fatalf("rotate-ca %s: %s", flag, r)
	}
	t.Logf("rotate-ca %s: %s", flag, r)
}

// reaches waits until a phase was reached, or a later one.
func reaches(t *testing.T, c *rig.Cluster, phase cluster.RotationPhase) {
	t.Helper()
	rig.Eventually(t, rig.Soon, "phase "+string(phase), func(ctx context.Context) error {
		r, err := c.Report(ctx, c.Host(1))
		if err != nil {
			return err
		}
		if is := plan.RotationOf(r.Observation); is == nil || !is.Phase.Reaches(phase) {
			return fmt.Errorf("the rotation is %+v", is)
		}
		return nil
	})
}

// serve: all three voters are up, as the leading daemon sees them.
func serve(t *testing.T, c *rig.Cluster) {
	t.Helper()
	rig.Eventually(t, rig.Soon, "three voters that are up", func(ctx context.Context) error {
		r, err := c.Report(ctx, c.Host(1))
		if err != nil {
			return err
		}
		if roster, _ := r.Observation.Roster(); len(roster.Voters()) != 3 || len(roster.Up()) != 3 {
			return fmt.Errorf("%d of %d voters are up", len(roster.Up()), len(roster.Voters()))
		}
		return nil
	})
}

// dropped: nobody takes a certificate of the old authorities any more.
func dropped(t *testing.T, c *rig.Cluster, old map[string][]*x509.Certificate) {
	t.Helper()
	stale := c.ClientTLS() // of the directory that nobody has rotated
	for _, h := range c.Hosts {
		config := stale.Clone()
		config.RootCAs, config.InsecureSkipVerify = nil, true //nolint:gosec // whom it trusts is not what is tried
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{h.ClientURL()}, TLS: config, DialTimeout: 3 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_, err = client.Get(ctx, "x")
		cancel()
		client.Close()
		if err == nil {
			t.Errorf("the member of host %d lets a client of the old authority in", h.N)
		}
		for _, dir := range []string{"etcdadm/pki/daemon", "etcdadm/pki/operator", "etcdadm/pki/etcdctl"} {
			certs, err := pki.ReadCertificates(filepath.Join(h.Dir, dir, "ca.crt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, before := range old {
				if slices.ContainsFunc(certs, before[0].Equal) {
					t.Errorf("host %d: %s trusts an old authority", h.N, dir)
				}
			}
		}
	}
}

// knowing are clients that read their files at each handshake, and are given new ones as people are told to.
type knowing struct {
	t       *testing.T
	c       *rig.Cluster
	dir     string
	request pki.Request
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	calls  int
	again  int // writes that were sent again: raft's leader moved
	failed []string
}

func newKnowing(t *testing.T, c *rig.Cluster) *knowing {
	t.Helper()
	request, err := pki.ClientRequest("root", pki.DefaultLifetime())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &knowing{t: t, c: c, dir: filepath.Join(c.Dir, "knowing"), request: request, stop: cancel}
	k.renew()
	for i := range 4 {
		k.done.Go(func() { k.run(ctx, i) })
	}
	t.Cleanup(func() { cancel(); k.done.Wait() })
	k.more(20)
	return k
}

// renew is etcdadm certs renew.
func (k *knowing) renew() {
	k.t.Helper()
	a, err := pki.LoadAuthority(pkiOf(k.c.Host(1)), pki.ClientsCA, time.Now())
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := pki.Ensure(k.dir, pki.ClientNames, a, k.request, time.Now()); err != nil {
		k.t.Fatal(err)
	}
}

func (k *knowing) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // verified below, by the file of the moment
		VerifyConnection: func(cs tls.ConnectionState) error {
			certs, err := pki.ReadCertificates(filepath.Join(k.dir, pki.ClientNames.CA))
			if err != nil {
				return err
			}
			roots := x509.NewCertPool()
			for _, c := range certs {
				roots.AddCert(c)
			}
			_, err = cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := pki.LoadKeypair(k.dir, pki.ClientNames)
			if err != nil {
				return nil, err
			}
			return pair.TLS(), nil
		},
	}
}

// run puts and reads through all members; every second client connects anew each time.
func (k *knowing) run(ctx context.Context, n int) {
	var endpoints []string
	for _, h := range k.c.Hosts {
		endpoints = append(endpoints, h.ClientURL())
	}
	var client *clientv3.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	for i := 0; ctx.Err() == nil; i++ {
		if client == nil || n%2 == 1 {
			if client != nil {
				client.Close()
			}
			var err error
			client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: k.config(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
			if err != nil {
				k.note(err)
				return
			}
		}
		call, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		key := fmt.Sprintf("knowing/%d", n)
		_, err := client.Put(call, key, fmt.Sprint(i))
		if moved(err) {
			k.mu.Lock()
			k.again++
			k.mu.Unlock()
		}
		for ; moved(err) && call.Err() == nil; _, err = client.Put(call, key, fmt.Sprint(i)) {
			time.Sleep(20 * time.Millisecond)
		}
		if err == nil {
			var got *clientv3.GetResponse
			if got, err = client.Get(call, key); err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != fmt.Sprint(i)) {
				err = fmt.Errorf("%s is %v, want %d", key, got.Kvs, i)
			}
		}
		cancel()
		k.note(err)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// moved: raft's leader moved while the write was under way, as it does at each planned restart of the member that
// leads: etcd drops what reaches it in the milliseconds of the hand-over, and clients send it again.
func moved(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "raft proposal dropped") || errors.Is(err, rpctypes.ErrTimeout) || errors.Is(err, rpctypes.ErrLeaderChanged) ||
		errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail) || errors.Is(err, rpctypes.ErrNoLeader))
}

func (k *knowing) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if err != nil {
		k.failed = append(k.failed, time.Now().Format("15:04:05.000 ")+err.Error())
	}
}

func (k *knowing) more(n int) {
	k.t.Helper()
	k.mu.Lock()
	before := k.calls
	k.mu.Unlock()
	rig.Eventually(k.t, rig.Soon, "more calls", func(context.Context) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.calls < before+n {
			return errors.New("none")
		}
		return nil
	})
}

// check ends the clients: none of their requests failed.
func (k *knowing) check() {
	k.t.Helper()
	k.more(20)
	k.stop()
	k.done.Wait()
	k.t.Logf("%d puts and reads; %d writes were sent again since raft's leader moved", k.calls, k.again)
	if k.again > 20 {
		k.t.Errorf("%d writes had to be sent again", k.again)
	}
	if len(k.failed) > 0 {
		k.t.Errorf("%d of %d requests failed: %s", len(k.failed), k.calls, strings.Join(k.failed[:min(5, len(k.failed))], "; "))
	}
}
