package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
)

// soon bounds what takes a second or two on an idle machine.
const soon = 60 * time.Second

// options say what a cluster is like. The zero value is the walkthrough's: no
// TLS, etcd 3.6.
type options struct {
	hosts   int // with a directory and an address; none is started
	tls     bool
	version string   // of etcd; empty: 3.6.16
	flags   []string // of every daemon, after the usual ones
	network bool     // each host in a network namespace of its own
	fixture bool     // all hosts in one network namespace, at 127.0.0.1 and on
	store   string   // URL of the backup store; empty: a directory
	env     []string // of every program
	umask   string   // of every program; empty: the test's
}

// testCluster is a backup store and the hosts that share it.
type testCluster struct {
	t       *testing.T
	dir     string
	name    string
	store   string // directory of the backup store
	options options
	block   block
	net     *network // nil: all on loopback
	hosts   []*host  // hosts[0] is host 1

	password string // of etcd's root, once it is asked for one
	client   *clientv3.Client
}

// newCluster prepares hosts. At the end of the test every process of them is
// ended, and what they wrote is shown if the test failed.
func newCluster(t *testing.T, o options) *testCluster {
	t.Helper()
	if o.version == "" {
		o.version = testetcd.V36
	}
	testetcd.Binary(t, o.version)
	dir := t.TempDir()
	if *keep {
		var err error
		if dir, err = os.MkdirTemp("", "etcdadm-e2e-"+strings.ReplaceAll(t.Name(), "/", "-")+"-"); err != nil {
			t.Fatal(err)
		}
		t.Logf("kept in %s", dir)
	}
	c := &testCluster{t: t, dir: dir, name: "test", store: filepath.Join(dir, "backups", "test"), options: o}
	switch {
	case o.network:
		c.net, c.block = newNetwork(t), block{prefix: networkPrefix}
	case o.fixture:
		c.net, c.block = newNetwork(t), block{prefix: "127.0.0."}
	default:
		c.block = reserve(t)
	}
	watch(dir)
	if o.tls {
		if _, err := pki.Create(c.pkiDir(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for range o.hosts {
		c.addHost()
	}
	t.Cleanup(c.end)
	return c
}

func (c *testCluster) end() {
	if c.client != nil {
		c.client.Close()
	}
	if c.t.Failed() {
		c.t.Logf("end of the daemons' logs:\n%s", c.logs())
	}
	if err := endAll(c.dir); err != nil {
		c.t.Errorf("end the processes of the test: %v", err)
	}
	for _, h := range c.hosts {
		h.reap()
	}
}

func (c *testCluster) logs() string {
	var b strings.Builder
	for _, h := range c.hosts {
		fmt.Fprintf(&b, "== host %d\n%s", h.n, tail(h.log, 60))
		fmt.Fprintf(&b, "-- etcd of host %d\n%s", h.n, tail(filepath.Join(h.dir, "logs", "etcd.log"), 8))
	}
	return b.String()
}

// tail is the last lines of a file, each cut to a bearable length.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	var b strings.Builder
	for _, l := range lines[max(0, len(lines)-n):] {
		if len(l) > 420 {
			l = l[:420] + "…"
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

func (c *testCluster) pkiDir() string { return filepath.Join(c.dir, "pki") }

func (c *testCluster) storeURL() string {
	if c.options.store != "" {
		return c.options.store
	}
	return "file://" + c.store
}

// addHost prepares one more host.
func (c *testCluster) addHost() *host {
	n := len(c.hosts) + 1
	h := &host{c: c, n: n, place: n, address: c.block.host(n), dir: filepath.Join(c.dir, fmt.Sprint(n)), log: filepath.Join(c.dir, fmt.Sprintf("%d.log", n))}
	c.hosts = append(c.hosts, h)
	switch {
	case c.options.fixture:
		c.net.hosts[h.address] = c.net.wire
	case c.net != nil:
		c.net.add(c.t, h.address)
	}
	return h
}

// host is host n, counted from 1.
func (c *testCluster) host(n int) *host { return c.hosts[n-1] }

func (c *testCluster) start(hosts ...int) {
	c.t.Helper()
	for _, n := range hosts {
		c.host(n).start()
	}
}

// configure writes the spec as a person would.
func (c *testCluster) configure(members int) {
	c.t.Helper()
	r := c.ctl(fmt.Sprintf("-member-count=%d", members), "--backup-store="+c.storeURL(), "-etcd-version="+c.options.version, "configure-cluster")
	if r.code != 0 {
		c.t.Fatalf("configure-cluster: %s", r)
	}
}

// result is what a command printed, and how it ended.
type result struct {
	command        string
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("%s: exit code %d\n%s%s", r.command, r.code, r.stdout, r.stderr)
}

func (c *testCluster) run(env []string, program string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	c.options.mask(cmd)
	cmd.Env = slices.Concat(os.Environ(), c.options.env, env)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := c.runHere(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("run %s: %v", program, err)
	}
	return result{filepath.Base(program) + " " + strings.Join(args, " "), stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// mask makes a program begin with the umask, as the same process.
func (o options) mask(cmd *exec.Cmd) {
	if o.umask == "" {
		return
	}
	cmd.Args = append([]string{"sh", "-c", `umask "$0" && exec "$@"`, o.umask, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// runHere runs a program where the test's own clients are.
func (c *testCluster) runHere(cmd *exec.Cmd) error {
	if c.net == nil {
		return cmd.Run()
	}
	if err := c.net.wire.do(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// ctl runs etcd-manager-ctl.
func (c *testCluster) ctl(args ...string) result {
	c.t.Helper()
	return c.run(nil, filepath.Join(programs, "etcd-manager-ctl"), args...)
}

// etcdadm runs etcdadm.
func (c *testCluster) etcdadm(args ...string) result {
	c.t.Helper()
	return c.run(nil, filepath.Join(programs, "etcdadm"), args...)
}

// etcdctl runs the etcdctl of a release against a host's member.
func (c *testCluster) etcdctl(h *host, version string, args ...string) result {
	c.t.Helper()
	access := c.access(h)
	flags := []string{"--endpoints=" + strings.Join(access.Etcd.Endpoints, ","), "--command-timeout=20s", "--dial-timeout=10s"}
	if access.Etcd.Cert != "" {
		flags = append(flags, "--cacert="+access.Etcd.CA, "--cert="+access.Etcd.Cert, "--key="+access.Etcd.Key)
	}
	if c.password != "" {
		flags = append(flags, "--user=root:"+c.password)
	}
	return c.run([]string{"ETCDCTL_API=3"}, testetcd.Binary(c.t, version).Etcdctl, append(flags, args...)...)
}

// access is what a host's daemon left for people.
func (c *testCluster) access(h *host) console.Access {
	c.t.Helper()
	a, err := console.ReadAccess(h.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// etcd is a client of all members that the hosts may have.
func (c *testCluster) etcd() *clientv3.Client {
	c.t.Helper()
	if c.client == nil {
		c.client = c.newClient()
	}
	return c.client
}

// newClient connects to the members of the named hosts, or of all.
func (c *testCluster) newClient(hosts ...int) *clientv3.Client {
	c.t.Helper()
	if len(hosts) == 0 {
		for _, h := range c.hosts {
			hosts = append(hosts, h.n)
		}
	}
	var endpoints []string
	for _, n := range hosts {
		endpoints = append(endpoints, c.host(n).clientURL())
	}
	client, err := c.dial(endpoints...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

func (c *testCluster) dial(endpoints ...string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: endpoints, TLS: c.clientTLS(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if c.password != "" {
		config.Username, config.Password = "root", c.password
	}
	if c.net != nil {
		config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(c.net.dial)}
	}
	return clientv3.New(config)
}

// clientTLS is made of the authorities, so that it needs no daemon.
func (c *testCluster) clientTLS() *tls.Config {
	c.t.Helper()
	if !c.options.tls {
		return nil
	}
	authorities, err := pki.Load(c.pkiDir(), time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	request, err := pki.ClientRequest("root", pki.DefaultLifetime())
	if err != nil {
		c.t.Fatal(err)
	}
	made, err := pki.Ensure(filepath.Join(c.dir, "client"), pki.ClientNames, authorities.Clients, request, time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	return &tls.Config{RootCAs: authorities.Clients.Pool(), Certificates: []tls.Certificate{*made.Pair.TLS()}, MinVersion: tls.VersionTLS12}
}

// eventually asks until there is no complaint any more.
func eventually(t *testing.T, within time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := ask(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Since(began) > within {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(50 * time.Millisecond) // other processes give no events
	}
}

// voters waits until the members on the named hosts are all the members there
// are, all voters, all healthy, and returns them in the order of the hosts.
func (c *testCluster) voters(within time.Duration, hosts ...int) []*etcdserverpb.Member {
	c.t.Helper()
	client := c.newClient(hosts...)
	defer client.Close()
	var found []*etcdserverpb.Member
	eventually(c.t, within, fmt.Sprintf("voters on hosts %v", hosts), func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		found = nil
		for _, n := range hosts {
			at := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool {
				return slices.Contains(m.ClientURLs, c.host(n).clientURL())
			})
			if at < 0 {
				return fmt.Errorf("host %d has no member among %v", n, list.Members)
			}
			if list.Members[at].IsLearner {
				return fmt.Errorf("the member of host %d is a learner", n)
			}
			found = append(found, list.Members[at])
		}
		if len(list.Members) != len(hosts) {
			return fmt.Errorf("there are %d members, want %d: %v", len(list.Members), len(hosts), list.Members)
		}
		for _, n := range hosts {
			if err := c.host(n).healthy(ctx); err != nil {
				return err
			}
		}
		// A member may have been replaced while this waited for its health.
		again, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members again: %w", err)
		}
		if !slices.EqualFunc(list.Members, again.Members, func(a, b *etcdserverpb.Member) bool { return a.ID == b.ID }) {
			return fmt.Errorf("the members changed meanwhile: %v", again.Members)
		}
		return nil
	})
	return found
}

// raftLeader is the host whose member leads raft.
func (c *testCluster) raftLeader(hosts ...int) *host {
	c.t.Helper()
	var led *host
	eventually(c.t, soon, "a raft leader", func(ctx context.Context) error {
		for _, n := range hosts {
			s, err := c.etcd().Status(ctx, c.host(n).clientURL())
			if err != nil {
				return err
			}
			if s.Leader == s.Header.MemberId {
				led = c.host(n)
				return nil
			}
		}
		return errors.New("no member says that it leads")
	})
	return led
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
