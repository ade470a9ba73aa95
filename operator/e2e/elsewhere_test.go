package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// foreign is an etcd of three members that something else runs: with TLS, by an authority of its own, or without.
type foreign struct {
	t        *testing.T
	dir      string
	names    []string
	urls     []string // of clients
	commands []*exec.Cmd
	client   *http.Client
	begins   string // what the EtcdCluster begins with that adopts it
}

// runsElsewhere starts it. Its members resolve the names of the hosts that are to join.
func runsElsewhere(t *testing.T, k *kubelet, secure bool) *foreign {
	t.Helper()
	scheme := "https"
	f := &foreign{t: t, begins: "{adopt: {secret: {name: old-ca}}}", dir: t.TempDir(), names: []string{"old-0", "old-1", "old-2"}}
	if !secure {
		scheme, f.begins, f.client = "http", "{adopt: {}}", k.client(context.WithoutCancel(t.Context()))
	}
	hosts := "127.0.0.1 localhost\n"
	for _, at := range []func(int) string{k.address, func(int) string { return "127.0.0.1" }} { // where a host is, and where its connections come from here
		for i := 1; i <= 3; i++ {
			hosts += fmt.Sprintf("%s %s-%d-0.%[2]s-hosts.%[4]s.svc\n", at(i), k.h.name, i, k.h.ns)
		}
	}
	f.write("hosts", []byte(hosts))
	authorities, err := pki.Create(f.dir, time.Now())
	must(t, err)
	ca := filepath.Join(f.dir, pki.PeersCA+".crt")
	var initial, peers []string
	for _, name := range f.names {
		request, err := pki.PeerRequest(name, []string{"https://127.0.0.1:1"}, nil, pki.DefaultLifetime())
		must(t, err)
		_, err = pki.Ensure(f.dir, pki.Names{CA: "ca-of-" + name + ".crt", Cert: name + ".crt", Key: name + ".key"}, authorities.Peers, request, time.Now())
		must(t, err)
		for _, urls := range []*[]string{&f.urls, &peers} {
			p, err := testetcd.ReservePort()
			must(t, err)
			t.Cleanup(p.Release)
			*urls = append(*urls, fmt.Sprintf("%s://127.0.0.1:%d", scheme, p.Number))
		}
		initial = append(initial, name+"="+peers[len(peers)-1])
	}
	program := testetcd.Binary(t, testetcd.V37).Etcd
	for i, name := range f.names {
		args := []string{"--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, filepath.Join(f.dir, "hosts"), program, "--name=" + name, "--data-dir=" + filepath.Join(f.dir, name),
			"--listen-client-urls=" + f.urls[i], "--advertise-client-urls=" + f.urls[i], "--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i],
			"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=by-a-chart"}
		for _, side := range []string{"", "peer-"} {
			if !secure {
				break
			}
			args = append(args, "--"+side+"client-cert-auth", "--"+side+"trusted-ca-file="+ca, "--"+side+"cert-file="+filepath.Join(f.dir, name+".crt"), "--"+side+"key-file="+filepath.Join(f.dir, name+".key"))
		}
		log, err := os.Create(filepath.Join(f.dir, name+".log"))
		must(t, err)
		c := exec.Command("unshare", args...)
		c.Stdout, c.Stderr, c.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must(t, c.Start())
		log.Close()
		f.commands = append(f.commands, c)
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
				t.Logf("%s:\n%s", name, said[max(0, len(said)-3000):])
			}
		})
	}
	if secure {
		f.client = f.trusts(authorities.Peers.Pool())
	}
	within(t, time.Minute, "the cluster that is to be adopted serves", func(ctx context.Context) error {
		_, err := f.members(f.urls[0])
		return err
	})
	return f
}

// trusts is a client with a certificate of its authority.
func (f *foreign) trusts(roots *x509.CertPool) *http.Client {
	f.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(f.dir, "old-0.crt"), filepath.Join(f.dir, "old-0.key"))
	must(f.t, err)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, // replaced below: no name of a host is resolved here
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		},
	}}}
}

func (f *foreign) write(name string, data []byte) {
	must(f.t, os.WriteFile(filepath.Join(f.dir, name), data, 0o600))
}

// secret has its authority, as a chart keeps it.
func (f *foreign) secret(ns, name string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{}}
	for file, as := range map[string]string{pki.PeersCA + ".crt": "ca.crt", pki.PeersCA + ".key": "ca.key"} {
		data, err := os.ReadFile(filepath.Join(f.dir, file))
		must(f.t, err)
		s.Data[as] = data
	}
	return s
}

// ask asks a member by its gateway.
func (f *foreign) ask(url, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := f.client.Post(url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, said)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(said, answer)
}

// list is a cluster as a member lists it, by way of raft.
type list struct {
	Header struct {
		Cluster string `json:"cluster_id"`
	}
	Members []struct {
		Name    string
		Learner bool     `json:"isLearner"`
		Peers   []string `json:"peerURLs"`
	}
}

func (f *foreign) members(url string) (l list, err error) {
	return l, f.ask(url, "/v3/cluster/member/list", map[string]bool{"linearizable": true}, &l)
}

// load writes all the time, to whoever answers, and keeps what was acknowledged.
type load struct {
	f        *foreign
	mu       sync.Mutex
	acked    []string
	retried  int
	stop     chan struct{}
	finished chan struct{}
}

func (f *foreign) load(urls []string) *load {
	l := &load{f: f, stop: make(chan struct{}), finished: make(chan struct{})}
	go func() {
		defer close(l.finished)
		for i, at := 0, 0; ; {
			select {
			case <-l.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			key := "k" + strconv.Itoa(i)
			b64 := base64.StdEncoding.EncodeToString
			err := f.ask(urls[at%len(urls)], "/v3/kv/put", map[string]string{"key": b64([]byte(key)), "value": b64([]byte(key))}, new(struct{}))
			l.mu.Lock()
			if err != nil { // the same once more, elsewhere
				at++
				l.retried++
			} else {
				l.acked = append(l.acked, key)
				i++
			}
			if i%100 == 0 {
				at++
			}
			l.mu.Unlock()
		}
	}()
	f.t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.finished
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// lost are those of what was acknowledged that a member has not.
func (l *load) lost(url string) (lost []string) {
	var answer struct {
		Kvs []struct{ Key []byte }
	}
	b64 := base64.StdEncoding.EncodeToString
	must(l.f.t, l.f.ask(url, "/v3/kv/range", map[string]any{"key": b64([]byte("k")), "range_end": b64([]byte("l")), "keys_only": true}, &answer))
	there := map[string]bool{}
	for _, kv := range answer.Kvs {
		there[string(kv.Key)] = true
	}
	for _, key := range l.acked {
		if !there[key] {
			lost = append(lost, key)
		}
	}
	return lost
}
