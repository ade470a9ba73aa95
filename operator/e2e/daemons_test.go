package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubelet runs the pods of a cluster with real daemons: each is a process 1 in a name space of its own, at an address of
// loopback, under the names that its Services would give it.
type kubelet struct {
	h       *hand
	dir     string
	program string
	runs    map[string]*container // by host
	deleted []string              // hosts whose pods were asked to end, in that order
	late    map[string]time.Time  // hosts whose Secret comes late, until then, once it changed
	off     map[string]bool       // hosts whose machine is off
	store   string                // of backups, in place of what a flag says; empty: it is as it says
}

// container is a pod that runs.
type container struct {
	uid     string
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
	asked   bool // to end
}

// daemons gives a test a kubelet; it needs name spaces.
func daemons(t *testing.T, h *hand) *kubelet {
	t.Helper()
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no name spaces: %v %s", err, out)
	}
	k := &kubelet{h: h, dir: t.TempDir(), runs: map[string]*container{}}
	k.program = filepath.Join(k.dir, "etcdadm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", k.program, "./cmd/etcdadm")
	cmd.Dir, cmd.Env = "../..", append(testenv.Outside(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		for name, c := range k.runs {
			_ = c.cmd.Process.Kill() // and with it what is in its name space
			<-c.ended
			if log, err := os.ReadFile(filepath.Join(k.dir, name+".log")); err == nil && t.Failed() {
				t.Logf("%s:\n%s", name, log[max(0, len(log)-6000):])
			}
		}
	})
	return k
}

func (k *kubelet) address(n int) string { return fmt.Sprintf("127.77.%d.%d", os.Getpid()%250, n) }

// turn does what is to be done once: pods are made for sets, started, told ready, and ended.
func (k *kubelet) turn(ctx context.Context) error {
	sets, pods := &appsv1.StatefulSetList{}, &corev1.PodList{}
	for _, l := range []client.ObjectList{sets, pods} {
		if err := k.h.c.List(ctx, l, client.InNamespace(k.h.ns)); err != nil {
			return err
		}
	}
	there := map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		there[p.Name] = true
		if err := k.pod(ctx, p); err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
	}
	for _, s := range sets.Items {
		if *s.Spec.Replicas == 0 || there[s.Name+"-0"] {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.h.ns, Name: s.Name + "-0", Labels: s.Spec.Template.Labels, Annotations: s.Spec.Template.Annotations}, Spec: s.Spec.Template.Spec}
		pod.Spec.NodeName = "node" // which has to let it go before it is gone
		if err := k.h.c.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return k.h.disruptions(ctx)
}

func (k *kubelet) pod(ctx context.Context, p *corev1.Pod) error {
	name := p.Labels[shape.LabelHost]
	c := k.runs[name]
	state := corev1.ContainerStatus{Name: shape.ContainerName}
	switch {
	case p.DeletionTimestamp != nil && c != nil && c.uid == string(p.UID):
		if !c.asked {
			c.asked, k.deleted = true, append(k.deleted, name)
			if err := c.signal(syscall.SIGTERM); err != nil {
				return err
			}
		}
		select {
		case <-c.ended:
			delete(k.runs, name)
		default:
			return nil
		}
		fallthrough
	case k.off[name]:
		if c == nil {
			return nil
		}
		_ = c.cmd.Process.Kill() // and with it what is in its name space
		<-c.ended
		delete(k.runs, name)
		return nil
	case p.DeletionTimestamp != nil:
		return client.IgnoreNotFound(k.h.c.Delete(ctx, p, client.GracePeriodSeconds(0)))
	case p.Spec.Containers[0].Image == k.h.bad:
		state.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}
	case c == nil:
		return k.start(ctx, name, p)
	default:
		if err := k.refresh(ctx, name); err != nil {
			return err
		}
		state.Ready = k.ready(ctx, c)
		state.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
	}
	if was := p.Status.ContainerStatuses; len(was) == 1 && was[0].Ready == state.Ready && (was[0].State.Running == nil) == (state.State.Running == nil) {
		return nil
	}
	tells(p, state)
	return k.h.c.Status().Update(ctx, p)
}

// refresh brings the Secret of a host's leaves to its pod, each file at once and not all of them.
func (k *kubelet) refresh(ctx context.Context, name string) error {
	secret := &corev1.Secret{}
	if err := k.h.c.Get(ctx, k.h.key(name+"-leaves"), secret); err != nil {
		return err
	}
	if until, is := k.late[name]; is {
		had, err := os.ReadFile(filepath.Join(k.dir, name+"-leaves", "etcd-peers-ca.crt"))
		switch {
		case err != nil || bytes.Equal(had, secret.Data["etcd-peers-ca.crt"]):
		case until.IsZero():
			k.late[name] = time.Now().Add(15 * time.Second)
			return nil
		case time.Now().Before(until):
			return nil
		default:
			k.late[name] = time.Time{}
		}
	}
	for file, text := range secret.Data {
		path := filepath.Join(k.dir, name+"-leaves", file)
		if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, text) {
			continue
		}
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubelet) ready(ctx context.Context, c *container) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/voterz", c.address, shape.PortHealth), nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// start runs the container of a pod, with its volumes and its environment.
func (k *kubelet) start(ctx context.Context, name string, p *corev1.Pod) error {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return err
	}
	data, leaves, account := filepath.Join(k.dir, name), filepath.Join(k.dir, name+"-leaves"), filepath.Join(k.dir, "account")
	for _, dir := range []string{data, leaves, account} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := k.refresh(ctx, name); err != nil {
		return err
	}
	if err := kube.server.Token(ctx, k.h.ns, p.Spec.ServiceAccountName, account); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n"
	for i := 1; i <= 9; i++ { // a headless Service has the addresses of all
		hosts += fmt.Sprintf("%s %s-%d-0.%[2]s-hosts.%[4]s.svc\n%[1]s %[2]s-hosts.%[4]s.svc\n", k.address(i), k.h.name, i, k.h.ns)
	}
	if err := os.WriteFile(filepath.Join(k.dir, "hosts"), []byte(hosts), 0o600); err != nil {
		return err
	}
	args := slices.Clone(p.Spec.Containers[0].Command)[1:]
	for i, a := range args {
		a = strings.NewReplacer("$(POD_IP)", k.address(n), "/var/lib/etcdadm", data, "/etc/etcdadm/leaves", leaves).Replace(a)
		if strings.HasPrefix(a, "--control-store=") {
			a += "?server=" + kube.server.URL + "&account=" + account
		}
		if k.store != "" && strings.HasPrefix(a, "--backup-store=") {
			a = "--backup-store=" + k.store
		}
		args[i] = a
	}
	args = append(args, "--etcd-address="+k.address(n))
	log, err := os.OpenFile(filepath.Join(k.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := &container{uid: string(p.UID), address: k.address(n), ended: make(chan struct{})}
	c.cmd = exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, filepath.Join(k.dir, "hosts"), k.program}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	k.runs[name] = c
	if err := os.WriteFile(filepath.Join(k.dir, name+".pid"), []byte(strconv.Itoa(c.cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	return nil
}

// signal sends a signal to the process 1 of the container.
func (c *container) signal(s syscall.Signal) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.cmd.Process.Pid))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// writer writes all the time, each key once more where the first try fails. It has a certificate, and trusts, what a pod would
// that mounts main-ca and the client's certificate of main-1.
type writer struct {
	mu             sync.Mutex
	done, retried  int
	failed         []string
	client         *http.Client
	addresses      []string
	stop, finished chan struct{}
}

// client has that certificate, and trusts, as they are at each connection.
func (k *kubelet) client(ctx context.Context) *http.Client {
	pair := func() (*tls.Certificate, error) {
		secret := &corev1.Secret{}
		if err := k.h.c.Get(ctx, k.h.key(k.h.name+"-1-leaves"), secret); err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(secret.Data["client.crt"], secret.Data["client.key"])
		return &pair, err
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() },
			InsecureSkipVerify:   true, // replaced below: no name of theirs is resolved here
			VerifyConnection: func(s tls.ConnectionState) error {
				bundle := &corev1.ConfigMap{}
				if err := k.h.c.Get(ctx, k.h.key(k.h.name+"-ca"), bundle); err != nil {
					return err
				}
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM([]byte(bundle.Data["etcd-clients-ca.crt"]))
				_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
				return err
			},
		}}}
}

func (k *kubelet) write(t *testing.T, hosts int) *writer {
	t.Helper()
	w := &writer{stop: make(chan struct{}), finished: make(chan struct{}), client: k.client(context.WithoutCancel(t.Context()))}
	for n := 1; n <= hosts; n++ {
		w.addresses = append(w.addresses, k.address(n))
	}
	go w.run()
	t.Cleanup(w.end)
	return w
}

func (w *writer) run() {
	defer close(w.finished)
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if i%25 == 0 { // so that there are new connections at all times
			w.client.CloseIdleConnections()
		}
		err := w.put(i, w.addresses[i%len(w.addresses)])
		again := error(nil)
		if err != nil {
			again = w.put(i, w.addresses[(i+1)%len(w.addresses)])
		}
		w.mu.Lock()
		switch {
		case again != nil:
			w.failed = append(w.failed, errors.Join(err, again).Error())
		case err != nil:
			w.retried++
			fallthrough
		default:
			w.done++
		}
		w.mu.Unlock()
	}
}

func (w *writer) put(i int, address string) error {
	b64 := base64.StdEncoding.EncodeToString
	answer, err := w.client.Post(fmt.Sprintf("https://%s:%d/v3/kv/put", address, shape.PortClient), "application/json",
		bytes.NewReader(fmt.Appendf(nil, `{"key":%q,"value":%q}`, b64([]byte("k"+strconv.Itoa(i))), b64([]byte("v")))))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	return nil
}

func (w *writer) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	<-w.finished
}

// Real daemons, under writes: another label rolls through three hosts, an operator that is killed in the middle hinders
// nothing, and an image that is nowhere takes one host down and no other.
func TestRollOfDaemons(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	k := daemons(t, h)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	h.patch(`{"spec":{"version":"3.7.3"}}`) // which is built in
	settled := func(limit time.Duration, what string, holds func() error) {
		t.Helper()
		began := time.Now()
		within(t, limit, what, func(ctx context.Context) error {
			if _, err := r.Reconcile(ctx, request(h)); err != nil && !errors.Is(err, errKilled) {
				t.Logf("%s: %v", what, err)
			}
			if err := k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
				return err
			}
			return holds()
		})
		t.Logf("%s: %s, stopped were %v", what, time.Since(began).Round(time.Second), k.deleted)
	}
	settled(3*time.Minute, "created", h.ready(3, 3))
	w := k.write(t, 3)
	h.patch(`{"spec":{"pod":{"metadata":{"labels":{"team":"a"}}}}}`)
	settled(3*time.Minute, "one is replaced", func() error {
		if len(k.deleted) == 0 {
			return errors.New("none is stopped")
		}
		return nil
	})
	r, _ = operator(h.c, -1, nil) // which knows nothing of the pause that is open
	settled(5*time.Minute, "rolled", h.and(h.made("localhost/etcdadm:1", "a"), h.unpaused, h.ready(3, 3)))
	leader := k.deleted[2]
	if len(k.deleted) != 3 {
		t.Errorf("stopped were %v", k.deleted)
	}
	w.end()
	t.Logf("%d writes, %d at the second try; %s was the last", w.done, w.retried, leader)
	if len(w.failed) > 0 || w.done < 100 {
		t.Errorf("%d writes, %d failed: %v", w.done, len(w.failed), w.failed[:min(3, len(w.failed))])
	}

	w = k.write(t, 3)
	h.bad, r.Image = "localhost/etcdadm:none", "localhost/etcdadm:none"
	settled(3*time.Minute, "held", h.blocked("RollHeld"))
	until := time.Now().Add(12 * time.Second) // more than a status takes
	settled(time.Minute, "held for longer", func() error {
		if time.Now().Before(until) {
			return errors.New("not long enough")
		}
		return nil
	})
	if len(k.deleted) != 4 {
		t.Errorf("stopped were %v", k.deleted)
	}
	r.Image = "localhost/etcdadm:1"
	settled(3*time.Minute, "set back", h.and(h.made("localhost/etcdadm:1", "a"), h.unpaused, h.ready(3, 3)))
	w.end()
	if len(w.failed) > 0 {
		t.Errorf("%d writes, %d failed: %v", w.done, len(w.failed), w.failed[:min(3, len(w.failed))])
	}
}
