package testetcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// startDeadline bounds every wait for members to serve. A cluster is up within
// a second or two; a loaded machine with two cores takes longer.
const startDeadline = 60 * time.Second

// Config says what cluster to start. The zero value is one member of the newest
// release without TLS.
type Config struct {
	Version string   // one of Versions; empty: V37
	Members int      // 0: 1
	TLS     bool     // mutual TLS for clients and peers
	Args    []string // more flags for every member, in the spelling of the release
}

// Cluster is a plain etcd cluster on loopback, members numbered from 0. Its
// methods may not be called concurrently.
type Cluster struct {
	Members []*Member

	dir     string
	token   string
	args    []string
	release Release
	tls     *Certs // nil without TLS
	ports   []*Port
}

// Start runs a cluster for the time of a test and returns when every member is
// healthy. Data and logs lie under t.TempDir; the logs' ends are shown when the
// test fails.
func Start(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	if cfg.Version == "" {
		cfg.Version = V37
	}
	Binary(t, cfg.Version) // skips when offline, and keeps a build out of the deadline below
	c, err := StartIn(t.Context(), t.TempDir(), cfg)
	if c != nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("end the test's etcd: %v", err)
			}
			if t.Failed() {
				for _, m := range c.Members {
					t.Logf("end of %s:\n%s", m.LogFile, m.LogTail(60))
				}
			}
		})
	}
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	return c
}

// StartIn is Start for callers that are not tests: the cluster lives in dir
// until Close. When it returns an error together with a cluster, members may be
// running, and Close is still due.
func StartIn(ctx context.Context, dir string, cfg Config) (*Cluster, error) {
	if cfg.Version == "" {
		cfg.Version = V37
	}
	release, err := Fetch(ctx, cfg.Version)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, token: "by-hand-" + filepath.Base(dir), args: cfg.Args, release: release}
	if cfg.TLS {
		if c.tls, err = NewCerts(filepath.Join(dir, "tls")); err != nil {
			return nil, err
		}
	}
	for range max(cfg.Members, 1) {
		if _, err := c.prepare(); err != nil {
			return c, err
		}
	}
	initial := c.initialCluster()
	for _, m := range c.Members {
		m.join("new", initial)
		if err := m.start(); err != nil {
			return c, err
		}
	}
	return c, c.WaitHealthy(ctx)
}

// prepare reserves the ports and the directory of one more member.
func (c *Cluster) prepare() (*Member, error) {
	scheme := "http"
	if c.tls != nil {
		scheme = "https"
	}
	var urls [2]string
	for i := range urls {
		port, err := ReservePort()
		if err != nil {
			return nil, err
		}
		c.ports = append(c.ports, port)
		urls[i] = fmt.Sprintf("%s://127.0.0.1:%d", scheme, port.Number)
	}
	name := fmt.Sprintf("m%d", len(c.Members))
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &Member{
		Name:      name,
		ClientURL: urls[0],
		PeerURL:   urls[1],
		DataDir:   filepath.Join(dir, "data"),
		LogFile:   filepath.Join(dir, "etcd.log"),
		Release:   c.release,
		Args:      c.args,
		certs:     c.tls,
		token:     c.token,
	}
	c.Members = append(c.Members, m)
	return m, nil
}

func (c *Cluster) initialCluster() string {
	pairs := make([]string, 0, len(c.Members))
	for _, m := range c.Members {
		pairs = append(pairs, m.Name+"="+m.PeerURL)
	}
	return strings.Join(pairs, ",")
}

// WaitHealthy returns once every running member answers a linearizable read.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	for _, m := range c.Members {
		if !m.Running() {
			continue
		}
		if err := m.waitFor(ctx, "/health"); err != nil {
			return fmt.Errorf("member %s does not become healthy: %w", m.Name, err)
		}
	}
	return nil
}

// Kill sends a signal to member i and, unless it is SIGSTOP or SIGCONT, waits
// for the end of the process.
func (c *Cluster) Kill(ctx context.Context, i int, sig syscall.Signal) error {
	return c.Members[i].kill(ctx, sig)
}

// Restart starts member i again on its own data, after a graceful stop when it
// is running, and waits until it is healthy. Without a quorum it cannot become
// that: use Launch.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	if err := c.Launch(ctx, i); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	return c.Members[i].waitFor(ctx, "/health")
}

// Launch is Restart without the wait.
func (c *Cluster) Launch(ctx context.Context, i int) error {
	m := c.Members[i]
	if m.Running() {
		if err := m.kill(ctx, syscall.SIGTERM); err != nil {
			return err
		}
	}
	return m.start()
}

// Use sets the release that member i runs from its next start on. It must be
// one that etcd can move to on the member's data.
func (c *Cluster) Use(ctx context.Context, i int, version string) error {
	release, err := Fetch(ctx, version)
	if err != nil {
		return err
	}
	c.Members[i].Release = release
	return nil
}

// Join adds a member as a learner, starts it, and returns its number once it
// serves; promoting it is left to the caller. Every voter should be up.
func (c *Cluster) Join(ctx context.Context) (int, error) {
	client, err := c.NewClient()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	m, err := c.prepare()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	added, err := client.MemberAddAsLearner(ctx, []string{m.PeerURL})
	if err != nil {
		return 0, fmt.Errorf("add learner: %w", err)
	}
	var pairs []string
	for _, other := range added.Members {
		name := other.Name
		if other.ID == added.Member.ID {
			name = m.Name
		}
		for _, u := range other.PeerURLs {
			pairs = append(pairs, name+"="+u)
		}
	}
	m.join("existing", strings.Join(pairs, ","))
	if err := m.start(); err != nil {
		return 0, err
	}
	// A learner answers no linearizable read, so this asks for less than health.
	if err := m.waitFor(ctx, "/version"); err != nil {
		return 0, fmt.Errorf("learner %s does not serve: %w", m.Name, err)
	}
	return len(c.Members) - 1, nil
}

// Endpoints are the client addresses (host:port) of all members, up or not.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, 0, len(c.Members))
	for _, m := range c.Members {
		endpoints = append(endpoints, m.Endpoint())
	}
	return endpoints
}

// ClientTLS is what a client needs to connect; nil without TLS.
func (c *Cluster) ClientTLS() *tls.Config {
	if c.tls == nil {
		return nil
	}
	return c.tls.Config()
}

// Certs are the files that members and clients share; nil without TLS.
func (c *Cluster) Certs() *Certs { return c.tls }

// NewClient connects to the named members, or to all when none is named. The
// caller closes it. Its calls block while no endpoint answers, as always with
// this client: give each a deadline.
func (c *Cluster) NewClient(members ...int) (*clientv3.Client, error) {
	endpoints := c.Endpoints()
	if len(members) > 0 {
		endpoints = nil
		for _, i := range members {
			endpoints = append(endpoints, c.Members[i].Endpoint())
		}
	}
	return clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		TLS:         c.ClientTLS(),
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
	})
}

// Client is NewClient for the time of a test.
func (c *Cluster) Client(t testing.TB, members ...int) *clientv3.Client {
	t.Helper()
	client, err := c.NewClient(members...)
	if err != nil {
		t.Fatalf("connect to etcd: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Close kills every member that runs, waits for their ends and gives the ports
// back. The data directories stay.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var errs []error
	for _, m := range c.Members {
		if m.Running() {
			errs = append(errs, m.kill(ctx, syscall.SIGKILL))
		}
	}
	for _, p := range c.ports {
		p.Release()
	}
	c.ports = nil
	return errors.Join(errs...)
}

// hostPort strips the scheme of a URL that this package made.
func hostPort(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Host
}
