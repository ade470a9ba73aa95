package rig

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"etcdadm.io/internal/testetcd"
)

// Theirs is a cluster as etcd-manager of kubernetes-sigs keeps it: its files in
// the hosts' data directories, and etcd run as its daemon runs it, configured by
// the environment alone. The daemon itself cannot be had here.
type Theirs struct {
	c       *Cluster
	token   string
	version string
	ids     []string // of the hosts, which are the members' names
	running map[int]*theirEtcd
	byHand  bool // etcd has a directory of its own, and nothing is etcd-manager's
}

type theirEtcd struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// FormTheirs makes a cluster of theirs on the hosts, with its store, and starts it.
func (c *Cluster) FormTheirs(hosts ...int) *Theirs {
	c.T.Helper()
	x := &Theirs{c: c, token: "WYO_47BFnMQLG6-hxHEVyg", version: c.Options.Version, running: map[int]*theirEtcd{}}
	for _, n := range hosts {
		id := fmt.Sprintf("ffffhost%d-aaaaaaaaaaaaa", n)[:22]
		x.ids = append(x.ids, id)
		Put(c.T, filepath.Join(c.Host(n).Dir, "myid"), []byte(id), 0o644)
	}
	for _, n := range hosts {
		Put(c.T, x.StatePath(n), x.State(), 0o600)
		if c.Host(n).Secure() {
			x.issue(n)
		}
	}
	control := filepath.Join(c.Store, "control")
	Put(c.T, filepath.Join(control, "etcd-cluster-created"), []byte(`{"timestamp":1795218050563060910}`), 0o600)
	Put(c.T, filepath.Join(control, "etcd-cluster-spec"), fmt.Appendf(nil, "{\n  \"memberCount\":  %d,\n  \"etcdVersion\":  \"%s\"\n}", len(hosts), x.version), 0o600)
	x.Start("new", hosts...)
	c.T.Cleanup(x.End)
	return x
}

// UnpackTheirs puts the fixture that their daemon wrote into the hosts' places,
// and starts its three members.
func (c *Cluster) UnpackTheirs() *Theirs {
	c.T.Helper()
	dir := c.T.TempDir()
	packed := filepath.Join("..", "testdata", "etcd-manager-3-nodes-3.6.16.tar.gz")
	if out, err := exec.CommandContext(c.T.Context(), "tar", "-xzf", packed, "-C", dir).CombinedOutput(); err != nil {
		c.T.Fatalf("unpack %s: %v: %s", packed, err, out)
	}
	x := &Theirs{c: c, token: "WYO_47BFnMQLG6-hxHEVyg", version: testetcd.V36, running: map[int]*theirEtcd{}}
	for n := 1; n <= 3; n++ {
		if err := os.Rename(filepath.Join(dir, "data", fmt.Sprint(n)), c.Host(n).Dir); err != nil {
			c.T.Fatal(err)
		}
		x.ids = append(x.ids, string(c.Host(n).ID()))
	}
	if err := os.MkdirAll(filepath.Dir(c.Store), 0o700); err != nil {
		c.T.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "store", "test"), c.Store); err != nil {
		c.T.Fatal(err)
	}
	x.Start("existing", 1, 2, 3)
	c.T.Cleanup(x.End)
	return x
}

func Put(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
}

func (x *Theirs) StatePath(n int) string { return filepath.Join(x.c.Host(n).Dir, "state") }

func (x *Theirs) URL(n, port int) string {
	return x.c.Host(n).Scheme() + "://" + x.c.Block.At(n, port)
}

// State is their state file.
func (x *Theirs) State() []byte {
	text := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	var all []byte
	all = text(all, 5, x.token)
	for i, id := range x.ids {
		var node []byte
		node = text(node, 1, id)
		node = text(node, 2, x.URL(i+1, PortPeer))
		node = text(node, 3, x.URL(i+1, PortClient))
		node = text(node, 4, x.URL(i+1, portQuarantine))
		if x.c.Host(i + 1).Secure() {
			node = protowire.AppendVarint(protowire.AppendTag(node, 5, protowire.VarintType), 1)
		}
		all = text(all, 7, string(node))
	}
	return text(text(nil, 2, string(all)), 3, x.version)
}

// environment is what their daemon gives etcd.
func (x *Theirs) environment(n int, state string) []string {
	dir := x.c.Host(n).Dir
	var initial []string
	for i, id := range x.ids {
		initial = append(initial, id+"="+x.URL(i+1, PortPeer))
	}
	data := filepath.Join(dir, "data", x.token)
	if x.byHand {
		data = x.handDir(n)
	}
	env := []string{
		"ETCD_NAME=" + x.ids[n-1], "ETCD_DATA_DIR=" + data,
		"ETCD_LISTEN_PEER_URLS=" + x.URL(n, PortPeer), "ETCD_LISTEN_CLIENT_URLS=" + x.URL(n, PortClient),
		"ETCD_ADVERTISE_CLIENT_URLS=" + x.URL(n, PortClient), "ETCD_INITIAL_ADVERTISE_PEER_URLS=" + x.URL(n, PortPeer),
		"ETCD_INITIAL_CLUSTER_TOKEN=" + x.token, "ETCD_INITIAL_CLUSTER_STATE=" + state, "ETCD_INITIAL_CLUSTER=" + strings.Join(initial, ","),
	}
	if x.c.Host(n).Secure() {
		peers, clients := x.pki(n, "peers"), x.pki(n, "clients")
		if x.byHand {
			dir := filepath.Join(x.c.Dir, fmt.Sprintf("certs%d", n))
			return append(env, "ETCD_PEER_CLIENT_CERT_AUTH=true", "ETCD_PEER_TRUSTED_CA_FILE="+filepath.Join(dir, "ca.crt"), "ETCD_PEER_CERT_FILE="+filepath.Join(dir, "peer.crt"), "ETCD_PEER_KEY_FILE="+filepath.Join(dir, "peer.key"),
				"ETCD_CLIENT_CERT_AUTH=true", "ETCD_TRUSTED_CA_FILE="+filepath.Join(dir, "ca.crt"), "ETCD_CERT_FILE="+filepath.Join(dir, "server.crt"), "ETCD_KEY_FILE="+filepath.Join(dir, "server.key"))
		}
		env = append(env,
			"ETCD_PEER_CLIENT_CERT_AUTH=true", "ETCD_PEER_TRUSTED_CA_FILE="+filepath.Join(peers, "ca.crt"), "ETCD_PEER_CERT_FILE="+filepath.Join(peers, "me.crt"), "ETCD_PEER_KEY_FILE="+filepath.Join(peers, "me.key"),
			"ETCD_CLIENT_CERT_AUTH=true", "ETCD_TRUSTED_CA_FILE="+filepath.Join(clients, "ca.crt"), "ETCD_CERT_FILE="+filepath.Join(clients, "server.crt"), "ETCD_KEY_FILE="+filepath.Join(clients, "server.key"))
	}
	return env
}

func (x *Theirs) pki(n int, side string) string {
	return filepath.Join(x.c.Host(n).Dir, "pki", x.token, side)
}

// Start runs etcd on hosts, and waits until each serves.
func (x *Theirs) Start(state string, hosts ...int) {
	x.c.T.Helper()
	for _, n := range hosts {
		x.launch(n, state)
	}
	for _, n := range hosts {
		x.c.Host(n).Serves(Soon)
	}
}

func (x *Theirs) launch(n int, state string) {
	x.c.T.Helper()
	h := x.c.Host(n)
	cmd := exec.Command(testetcd.Binary(x.c.T, x.version).Etcd)
	log, err := os.OpenFile(filepath.Join(x.c.Dir, fmt.Sprintf("theirs%d.log", n)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		x.c.T.Fatal(err)
	}
	defer log.Close()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, x.environment(n, state)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	e := &theirEtcd{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // with whose end the process would die
		defer close(e.done)
		err := h.enter()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		x.c.T.Fatal(err)
	}
	x.running[n] = e
}

// Kill is how their daemon stops etcd.
func (x *Theirs) Kill(hosts ...int) {
	for _, n := range hosts {
		if e := x.running[n]; e != nil {
			e.cmd.Process.Kill()
			<-e.done
			delete(x.running, n)
		}
	}
}

func (x *Theirs) End() {
	if x.c.T.Failed() {
		for n := range x.ids {
			x.c.T.Logf("-- their etcd of host %d\n%s", n+1, Tail(filepath.Join(x.c.Dir, fmt.Sprintf("theirs%d.log", n+1)), 6))
		}
	}
	for n := range x.running {
		x.Kill(n)
	}
}

// issue writes the key pairs of a host as their daemon has them: RSA, named by
// the host's ID and by the addresses of the peer URLs and loopback.
func (x *Theirs) issue(n int) {
	x.c.T.Helper()
	for _, pair := range []struct{ side, ca, name string }{{"peers", "etcd-peers-ca", "me"}, {"clients", "etcd-clients-ca", "server"}} {
		ca, err := tls.LoadX509KeyPair(filepath.Join(x.c.PKIDir(), pair.ca+".crt"), filepath.Join(x.c.PKIDir(), pair.ca+".key"))
		if err != nil {
			x.c.T.Fatal(err)
		}
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			x.c.T.Fatal(err)
		}
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: x.ids[n-1]}, DNSNames: []string{x.ids[n-1]},
			IPAddresses: []net.IP{net.ParseIP(x.c.Host(n).Address), net.ParseIP("127.0.0.1"), net.ParseIP("::1")},
			NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(2 * 365 * 24 * time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		parent, err := x509.ParseCertificate(ca.Certificate[0])
		if err != nil {
			x.c.T.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, parent, &key.PublicKey, ca.PrivateKey)
		if err != nil {
			x.c.T.Fatal(err)
		}
		dir := x.pki(n, pair.side)
		Put(x.c.T, filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: parent.Raw}), 0o644)
		Put(x.c.T, filepath.Join(dir, pair.name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
		Put(x.c.T, filepath.Join(dir, pair.name+".key"), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600)
	}
}

// MemberIDs are the members' IDs by their hosts, and the cluster's ID.
func (x *Theirs) MemberIDs() (clusterID uint64, ids map[string]uint64) {
	x.c.T.Helper()
	ids = map[string]uint64{}
	Eventually(x.c.T, Soon, "a member list", func(ctx context.Context) error {
		list, err := x.c.Etcd().MemberList(ctx)
		if err != nil {
			return err
		}
		clusterID = list.Header.ClusterId
		for _, m := range list.Members {
			ids[m.Name] = m.ID
		}
		return nil
	})
	return clusterID, ids
}
