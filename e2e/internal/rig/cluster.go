package rig

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

// Soon bounds what takes a second or two on an idle machine.
const Soon = 60 * time.Second

// Options say what a cluster is like. The zero value is the walkthrough's: no
// TLS, etcd 3.6.
type Options struct {
	Hosts   int // with a directory and an address; none is started
	TLS     bool
	Version string   // of etcd; empty: 3.6.16
	Flags   []string // of every daemon, after the usual ones
	Network bool     // each host in a network namespace of its own
	Fixture bool     // all hosts in one network namespace, at 127.0.0.1 and on
	Store   string   // URL of the backup store; empty: a directory
	Control string   // URL of the store of the control record; empty: the backup store has it
	Kept    bool     // there is no shared store: the hosts keep what it would have
	Env     []string // of every program
	Umask   string   // of every program; empty: the test's
}

// Cluster is a backup store and the hosts that share it.
type Cluster struct {
	T       *testing.T
	Dir     string
	Name    string
	Store   string // directory of the backup store
	Options Options
	Block   block
	Net     *network // nil: all on loopback
	Hosts   []*Host  // hosts[0] is host 1

	Password string // of etcd's root, once it is asked for one
	client   *clientv3.Client
}

// NewCluster prepares hosts. At the end of the test every process of them is
// ended, and what they wrote is shown if the test failed.
func NewCluster(t *testing.T, o Options) *Cluster {
	t.Helper()
	if o.Version == "" {
		o.Version = testetcd.V36
	}
	testetcd.Binary(t, o.Version)
	dir := t.TempDir()
	if *keep {
		var err error
		if dir, err = os.MkdirTemp("", "etcdadm-e2e-"+strings.ReplaceAll(t.Name(), "/", "-")+"-"); err != nil {
			t.Fatal(err)
		}
		t.Logf("kept in %s", dir)
	}
	c := &Cluster{T: t, Dir: dir, Name: "test", Store: filepath.Join(dir, "backups", "test"), Options: o}
	switch {
	case o.Network:
		c.Net, c.Block = NewNetwork(t), block{prefix: NetworkPrefix}
	case o.Fixture:
		c.Net, c.Block = NewNetwork(t), block{prefix: "127.0.0."}
	default:
		c.Block = reserve(t)
	}
	watch(dir)
	if o.TLS {
		if _, err := pki.Create(c.PKIDir(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for range o.Hosts {
		c.AddHost()
	}
	t.Cleanup(c.End)
	return c
}

func (c *Cluster) End() {
	if c.client != nil {
		c.client.Close()
	}
	if c.T.Failed() {
		c.T.Logf("end of the daemons' logs:\n%s", c.Logs())
	}
	if err := EndAll(c.Dir); err != nil {
		c.T.Errorf("end the processes of the test: %v", err)
	}
	for _, h := range c.Hosts {
		h.reap()
	}
}

func (c *Cluster) Logs() string {
	var b strings.Builder
	for _, h := range c.Hosts {
		fmt.Fprintf(&b, "== host %d\n%s", h.N, Tail(h.Log, 60))
		fmt.Fprintf(&b, "-- etcd of host %d\n%s", h.N, Tail(filepath.Join(h.Dir, "logs", "etcd.log"), 8))
	}
	return b.String()
}

// Tail is the last lines of a file, each cut to a bearable length.
func Tail(path string, n int) string {
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

func (c *Cluster) PKIDir() string { return filepath.Join(c.Dir, "pki") }

func (c *Cluster) StoreURL() string {
	if c.Options.Store != "" {
		return c.Options.Store
	}
	if c.Options.Kept {
		return c.Host(1).StoreURL()
	}
	return "file://" + c.Store
}

// AddHost prepares one more host.
func (c *Cluster) AddHost() *Host {
	n := len(c.Hosts) + 1
	h := &Host{C: c, N: n, Place: n, Address: c.Block.Host(n), Dir: filepath.Join(c.Dir, fmt.Sprint(n)), Log: filepath.Join(c.Dir, fmt.Sprintf("%d.log", n))}
	c.Hosts = append(c.Hosts, h)
	switch {
	case c.Options.Fixture:
		c.Net.Hosts[h.Address] = c.Net.wire
	case c.Net != nil:
		c.Net.Add(c.T, h.Address)
	}
	return h
}

// Host is host n, counted from 1.
func (c *Cluster) Host(n int) *Host { return c.Hosts[n-1] }

func (c *Cluster) Start(hosts ...int) {
	c.T.Helper()
	for _, n := range hosts {
		c.Host(n).Start()
	}
}

// Configure writes the spec as a person would.
func (c *Cluster) Configure(members int) {
	c.T.Helper()
	store := "--backup-store=" + c.StoreURL()
	if c.Options.Control != "" {
		store = "--control-store=" + c.Options.Control
	}
	r := c.Ctl(fmt.Sprintf("-member-count=%d", members), store, "-etcd-version="+c.Options.Version, "configure-cluster")
	if r.Code != 0 {
		c.T.Fatalf("configure-cluster: %s", r)
	}
}

// Result is what a command printed, and how it ended.
type Result struct {
	Command        string
	Stdout, Stderr string
	Code           int
}

func (r Result) String() string {
	return fmt.Sprintf("%s: exit code %d\n%s%s", r.Command, r.Code, r.Stdout, r.Stderr)
}

func (c *Cluster) Run(env []string, program string, args ...string) Result {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	c.Options.mask(cmd)
	cmd.Env = slices.Concat(os.Environ(), c.Options.Env, env)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := c.RunHere(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.T.Fatalf("run %s: %v", program, err)
	}
	return Result{filepath.Base(program) + " " + strings.Join(args, " "), stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// mask makes a program begin with the umask, as the same process.
func (o Options) mask(cmd *exec.Cmd) {
	if o.Umask == "" {
		return
	}
	cmd.Args = append([]string{"sh", "-c", `umask "$0" && exec "$@"`, o.Umask, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// RunHere runs a program where the test's own clients are.
func (c *Cluster) RunHere(cmd *exec.Cmd) error {
	if c.Net == nil {
		return cmd.Run()
	}
	if err := c.Net.wire.Do(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// Ctl runs etcd-manager-ctl.
func (c *Cluster) Ctl(args ...string) Result {
	c.T.Helper()
	return c.Run(nil, filepath.Join(Programs, "etcd-manager-ctl"), args...)
}

// Etcdadm runs etcdadm.
func (c *Cluster) Etcdadm(args ...string) Result {
	c.T.Helper()
	return c.Run(nil, filepath.Join(Programs, "etcdadm"), args...)
}

// Etcdctl runs the etcdctl of a release against a host's member.
func (c *Cluster) Etcdctl(h *Host, version string, args ...string) Result {
	c.T.Helper()
	access := c.Access(h)
	flags := []string{"--endpoints=" + strings.Join(access.Etcd.Endpoints, ","), "--command-timeout=20s", "--dial-timeout=10s"}
	if access.Etcd.Cert != "" {
		flags = append(flags, "--cacert="+access.Etcd.CA, "--cert="+access.Etcd.Cert, "--key="+access.Etcd.Key)
	}
	if c.Password != "" {
		flags = append(flags, "--user=root:"+c.Password)
	}
	return c.Run([]string{"ETCDCTL_API=3"}, testetcd.Binary(c.T, version).Etcdctl, append(flags, args...)...)
}

// Access is what a host's daemon left for people.
func (c *Cluster) Access(h *Host) console.Access {
	c.T.Helper()
	a, err := console.ReadAccess(h.Dir)
	if err != nil {
		c.T.Fatal(err)
	}
	return a
}

// Etcd is a client of all members that the hosts may have.
func (c *Cluster) Etcd() *clientv3.Client {
	c.T.Helper()
	if c.client == nil {
		c.client = c.NewClient()
	}
	return c.client
}

// NewClient connects to the members of the named hosts, or of all.
func (c *Cluster) NewClient(hosts ...int) *clientv3.Client {
	c.T.Helper()
	if len(hosts) == 0 {
		for _, h := range c.Hosts {
			hosts = append(hosts, h.N)
		}
	}
	var endpoints []string
	for _, n := range hosts {
		endpoints = append(endpoints, c.Host(n).ClientURL())
	}
	client, err := c.Dial(endpoints...)
	if err != nil {
		c.T.Fatal(err)
	}
	return client
}

func (c *Cluster) Dial(endpoints ...string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: endpoints, TLS: c.ClientTLS(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if c.Password != "" {
		config.Username, config.Password = "root", c.Password
	}
	if c.Net != nil {
		config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(c.Net.Dial)}
	}
	return clientv3.New(config)
}

// ClientTLS is made of the authorities, so that it needs no daemon.
func (c *Cluster) ClientTLS() *tls.Config {
	c.T.Helper()
	if !c.Options.TLS {
		return nil
	}
	authorities, err := pki.Load(c.PKIDir(), time.Now())
	if err != nil {
		c.T.Fatal(err)
	}
	request, err := pki.ClientRequest("root", pki.DefaultLifetime())
	if err != nil {
		c.T.Fatal(err)
	}
	made, err := pki.Ensure(filepath.Join(c.Dir, "client"), pki.ClientNames, authorities.Clients, request, time.Now())
	if err != nil {
		c.T.Fatal(err)
	}
	return &tls.Config{RootCAs: authorities.Clients.Pool(), Certificates: []tls.Certificate{*made.Pair.TLS()}, MinVersion: tls.VersionTLS12}
}

// Eventually asks until there is no complaint any more.
func Eventually(t *testing.T, within time.Duration, what string, ask func(context.Context) error) {
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

// Voters waits until the members on the named hosts are all the members there
// are, all voters, all healthy, and returns them in the order of the hosts.
func (c *Cluster) Voters(within time.Duration, hosts ...int) []*etcdserverpb.Member {
	c.T.Helper()
	client := c.NewClient(hosts...)
	defer client.Close()
	var found []*etcdserverpb.Member
	Eventually(c.T, within, fmt.Sprintf("voters on hosts %v", hosts), func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		found = nil
		for _, n := range hosts {
			at := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool {
				return slices.Contains(m.ClientURLs, c.Host(n).ClientURL())
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
			if err := c.Host(n).Healthy(ctx); err != nil {
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

// RaftLeader is the host whose member leads raft.
func (c *Cluster) RaftLeader(hosts ...int) *Host {
	c.T.Helper()
	var led *Host
	Eventually(c.T, Soon, "a raft leader", func(ctx context.Context) error {
		for _, n := range hosts {
			s, err := c.Etcd().Status(ctx, c.Host(n).ClientURL())
			if err != nil {
				return err
			}
			if s.Leader == s.Header.MemberId {
				led = c.Host(n)
				return nil
			}
		}
		return errors.New("no member says that it leads")
	})
	return led
}

func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
