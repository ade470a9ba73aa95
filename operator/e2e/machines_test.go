package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machines run real daemons for the pods of one cluster: each in a process tree and with names of its own, on a loopback
// address. What Kubernetes gives a pod they give: the volume, which is a directory for each claim, the leaves, the account's
// token, and the names of all pods.
type machines struct {
	h       *hand
	dir     string
	prefix  string // of addresses, "127.a.b."
	program string
	pods    map[string]*podProcess
	off     map[string]bool // hosts whose machine is off
	beside  *machines       // others whose names are known here; nil: none
}

type podProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

const (
	stopWithin  = time.Minute
	buildWithin = 10 * time.Minute
)

// withDaemons has a hand's pods run real daemons.
func withDaemons(h *hand) *machines {
	t := h.t
	if os.Geteuid() != 0 {
		t.Skip("pods with names of their own need root")
	}
	m := &machines{h: h, dir: t.TempDir(), prefix: addresses(t), program: builtEtcdadm(t), pods: map[string]*podProcess{}, off: map[string]bool{}}
	must(t, os.WriteFile(m.hosts(), nil, 0o644))
	h.real = m
	t.Cleanup(func() {
		for name := range m.pods {
			m.kill(name)
		}
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(m.dir, "*.log"))
			for _, log := range logs {
				data, _ := os.ReadFile(log)
				t.Logf("%s:\n%s", filepath.Base(log), data[max(0, len(data)-2500):])
			}
		}
	})
	return m
}

// builtEtcdadm builds the program, which the go command links only if anything has changed.
func builtEtcdadm(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ETCDADM_E2E_PROGRAMS"); dir != "" {
		return filepath.Join(dir, "etcdadm")
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildWithin)
	defer cancel()
	root, err := filepath.Abs("../..")
	must(t, err)
	cache, err := testetcd.CacheDir()
	must(t, err)
	dir := filepath.Join(filepath.Dir(cache), "test-programs", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	must(t, os.MkdirAll(dir, 0o700))
	unlock, err := testetcd.LockFile(ctx, dir+".lock")
	must(t, err)
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-X etcdadm.io/internal/release.SystemRoot=/nonexistent", "-o", dir+string(filepath.Separator), "./cmd/etcdadm")
	cmd.Dir, cmd.Env, cmd.WaitDelay = root, testenv.Outside(), 5*time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build etcdadm: %v\n%s", err, said)
	}
	return filepath.Join(dir, "etcdadm")
}

// addresses are loopback addresses on which nobody listens, and that no other test takes.
func addresses(t *testing.T) string {
	t.Helper()
	cache, err := testetcd.CacheDir()
	must(t, err)
	dir := filepath.Join(filepath.Dir(cache), "test-blocks")
	must(t, os.MkdirAll(dir, 0o700))
	for range 200 {
		prefix := fmt.Sprintf("127.%d.%d.", 16+rand.IntN(200), rand.IntN(256))
		f, err := os.OpenFile(filepath.Join(dir, prefix+"lock"), os.O_CREATE|os.O_RDWR, 0o600)
		must(t, err)
		l, err := net.Listen("tcp", net.JoinHostPort(prefix+"1", fmt.Sprint(shape.PortClient)))
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && err == nil {
			l.Close()
			t.Cleanup(func() { f.Close() })
			return prefix
		}
		f.Close()
		if err == nil {
			l.Close()
		}
	}
	t.Skip("another program of this machine has etcd's port on all addresses")
	return ""
}

func (m *machines) hosts() string { return filepath.Join(m.dir, "hosts") }

func (m *machines) shape() shape.Cluster { return shape.Cluster{Namespace: m.h.ns, Name: m.h.name} }

func (m *machines) address(host string) string {
	n, _ := m.shape().Number(host)
	return m.prefix + fmt.Sprint(n)
}

// run has the daemons of these hosts run, and no others.
func (m *machines) run(ctx context.Context, running []string) error {
	for name, p := range m.pods {
		select {
		case <-p.ended:
			delete(m.pods, name) // the set makes the pod again
		default:
			if !slices.Contains(running, name) || m.off[name] {
				m.stop(name)
			}
		}
	}
	for _, name := range running {
		if m.pods[name] != nil || m.off[name] {
			continue
		}
		if err := m.start(ctx, name); err != nil {
			return fmt.Errorf("the pod of %s: %w", name, err)
		}
	}
	text := "127.0.0.1 localhost\n" + m.names()
	if m.beside != nil {
		text += m.beside.names()
	}
	if was, err := os.ReadFile(m.hosts()); err != nil || string(was) == text {
		return err
	}
	return os.WriteFile(m.hosts(), []byte(text), 0o644) // in place: pods have this very file
}

// names are those of the pods that run, as a resolver has them.
func (m *machines) names() (text string) {
	c := m.shape()
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		n, _ := c.Number(name)
		text += fmt.Sprintf("%s %s %s.%s.svc\n", m.address(name), c.HostDNS(n), c.HostsName(), c.Namespace)
	}
	return text
}

// volume is the directory of a host's claim; empty: there is no volume.
func (m *machines) volume(ctx context.Context, host string) (string, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := m.h.c.Get(ctx, m.h.key(host), claim); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	dir := filepath.Join(m.dir, "volumes", string(claim.UID))
	return dir, os.MkdirAll(dir, 0o700)
}

// start runs the daemon of a host's set as its container's first process. Without the volume the pod stays pending.
func (m *machines) start(ctx context.Context, host string) error {
	set, leaves := &appsv1.StatefulSet{}, &corev1.Secret{}
	volume, err := m.volume(ctx, host)
	if err != nil || volume == "" {
		return err
	}
	c := m.shape()
	n, _ := c.Number(host)
	if err := errors.Join(m.h.c.Get(ctx, m.h.key(host), set), m.h.c.Get(ctx, m.h.key(c.LeavesName(n)), leaves)); err != nil {
		return err
	}
	at := filepath.Join(m.dir, host+"-leaves")
	for name, data := range leaves.Data {
		if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, name), data, 0o600)); err != nil {
			return err
		}
	}
	account, err := m.account(ctx)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(m.dir, host+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cache, err := testetcd.CacheDir()
	if err != nil {
		return err
	}
	args := []string{"-c", `mount --make-rprivate / && mount -t proc proc /proc && mount --bind "$0" /etc/hosts && exec "$@"`, m.hosts(), m.program}
	env, err := m.environment(ctx, &set.Spec.Template.Spec.Containers[0])
	if err != nil {
		return err
	}
	for _, arg := range set.Spec.Template.Spec.Containers[0].Command[1:] {
		flag, value, _ := strings.Cut(arg, "=")
		switch flag {
		case "--control-store":
			arg += "?server=" + kube.server.URL + "&account=" + account
		case "--data-dir":
			arg = flag + "=" + volume
		case "--leaves-dir":
			arg = flag + "=" + at
		case "--backup-store":
			if len(env) > 0 { // a real one
				break
			}
			if arg, err = m.store(value); err != nil {
				return err
			}
			arg = flag + "=file://" + arg
		}
		args = append(args, strings.ReplaceAll(arg, "$(POD_IP)", m.address(host)))
	}
	cmd := exec.Command("sh", append(args, "--etcd-address="+m.address(host), "--release-dir="+cache)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &podProcess{cmd, make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its log says why
	}()
	m.pods[host] = p
	return nil
}

// store is the directory that stands for a bucket.
func (m *machines) store(url string) (string, error) {
	_, path, _ := strings.Cut(url, "://")
	dir := filepath.Join(m.dir, "stores", path)
	return dir, os.MkdirAll(dir, 0o700)
}

// account is the directory with the token of the pods' account.
func (m *machines) account(ctx context.Context) (string, error) {
	dir := filepath.Join(m.dir, "account")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, kube.server.Token(ctx, m.h.ns, m.shape().AccountName(), dir)
}

// stop ends a pod in order; kill takes the power from its machine.
func (m *machines) stop(host string) {
	_ = m.pods[host].cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-m.pods[host].ended:
	case <-time.After(stopWithin):
		m.h.t.Errorf("%s does not end", host)
	}
	m.kill(host)
}

func (m *machines) kill(host string) {
	p := m.pods[host]
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // with it all that runs in its pod
	<-p.ended
	delete(m.pods, host)
}

// wipe empties the volume of a host that does not run.
func (m *machines) wipe(host string) {
	m.h.t.Helper()
	volume, err := m.volume(m.h.t.Context(), host)
	must(m.h.t, err)
	must(m.h.t, os.RemoveAll(volume))
	must(m.h.t, os.MkdirAll(volume, 0o700))
}

// lose takes a host away for good, with its volume: its node is gone, and a person has given the claim up.
func (m *machines) lose(host string) {
	t := m.h.t
	t.Helper()
	m.kill(host)
	claim := &corev1.PersistentVolumeClaim{}
	must(t, m.h.c.Get(t.Context(), m.h.key(host), claim))
	must(t, m.h.c.Delete(t.Context(), claim))
	must(t, m.h.c.Get(t.Context(), m.h.key(host), claim))
	claim.Finalizers = nil
	must(t, m.h.c.Update(t.Context(), claim))
}

// exec runs etcdadm in a host's pod, as kubectl exec does.
func (m *machines) exec(host string, args ...string) string {
	m.h.t.Helper()
	ctx, cancel := context.WithTimeout(m.h.t.Context(), time.Minute)
	defer cancel()
	volume, err := m.volume(ctx, host)
	must(m.h.t, err)
	args = append([]string{"--target", fmt.Sprint(m.pods[host].cmd.Process.Pid), "--mount", "--pid", m.program}, append(args, "--data-dir="+volume)...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		m.h.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// ask asks the etcd of a host, by the gateway of its client API, as who has the host's leaves.
func (m *machines) ask(ctx context.Context, host, path string, in, out any) error {
	c := m.shape()
	n, _ := c.Number(host)
	leaves := &corev1.Secret{}
	if err := m.h.c.Get(ctx, m.h.key(c.LeavesName(n)), leaves); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(leaves.Data["client.crt"], leaves.Data["client.key"])
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(leaves.Data["etcd-clients-ca.crt"])
	via := &http.Transport{TLSClientConfig: &tls.Config{ServerName: c.HostDNS(n), Certificates: []tls.Certificate{pair}, RootCAs: trusted}}
	defer via.CloseIdleConnections()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://%s:%d%s", m.address(host), shape.PortClient, path), bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: via}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, said)
	}
	return errors.Join(err, json.Unmarshal(said, out))
}

// put writes a key by any host that serves.
func (m *machines) put(key, value string) {
	m.h.t.Helper()
	within(m.h.t, time.Minute, "write "+key, func(ctx context.Context) (err error) {
		for host := range m.pods {
			var out any
			if err = m.ask(ctx, host, "/v3/kv/put", map[string][]byte{"key": []byte(key), "value": []byte(value)}, &out); err == nil {
				return nil
			}
		}
		return err
	})
}

// has waits until a key has a value; empty: there is no such key.
func (m *machines) has(key, value string) {
	m.h.t.Helper()
	within(m.h.t, time.Minute, key+" is "+value, func(ctx context.Context) error {
		var err error
		for host := range m.pods {
			var out struct{ KVs []struct{ Value []byte } }
			if err = m.ask(ctx, host, "/v3/kv/range", map[string][]byte{"key": []byte(key)}, &out); err != nil {
				continue
			}
			is := ""
			if len(out.KVs) > 0 {
				is = string(out.KVs[0].Value)
			}
			if is != value {
				m.h.t.Fatalf("%s is %q, want %q", key, is, value)
			}
			return nil
		}
		return fmt.Errorf("nobody answers: %w", err)
	})
}
