package e2e

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testkube"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// certManagers runs cert-manager's own controllers for the test's namespace, until the test ends or it is run anew.
type certManagers struct {
	h    *hand
	cmd  *exec.Cmd
	file string // by which it reaches the API server
	log  string
}

func newCertManagers(t *testing.T, h *hand) *certManagers {
	t.Helper()
	if testkube.Built(testkube.CertManager) == "" {
		t.Skipf("no %s %s on this machine: go run ./internal/testkube/cmd/fetch %[1]s", testkube.CertManager, testkube.CertManagerVersion)
	}
	requests(t, h.c)
	define(t, h.c, "issuers", "clusterissuers", "certificates")
	m := &certManagers{h: h, file: filepath.Join(t.TempDir(), "kubeconfig"), log: filepath.Join(t.TempDir(), "log")}
	s := kube.server
	must(t, os.WriteFile(m.file, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"users: [{name: u, user: {client-certificate: %q, client-key: %q}}]\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\n", s.Cert, s.Key, s.URL, s.CA), 0o600))
	t.Cleanup(func() {
		m.stop()
		if said, err := os.ReadFile(m.log); err == nil && t.Failed() {
			t.Logf("cert-manager:\n%s", said[max(0, len(said)-4000):])
		}
	})
	return m
}

// runs starts it, in place of the one that runs.
func (m *certManagers) runs(approves bool) {
	t := m.h.t
	t.Helper()
	m.stop()
	out, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer out.Close()
	m.cmd = exec.Command(testkube.Built(testkube.CertManager), "-kubeconfig="+m.file, "-cluster-resource-namespace="+m.h.ns, fmt.Sprintf("-approve=%v", approves))
	m.cmd.Stdout, m.cmd.Stderr, m.cmd.SysProcAttr = out, out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, m.cmd.Start())
}

func (m *certManagers) stop() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.cmd.Wait()         // it ends by the signal
	m.cmd = nil
}

// has makes objects of cert-manager.
func (m *certManagers) has(texts ...string) {
	t := m.h.t
	t.Helper()
	for _, text := range texts {
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(text), &o.Object))
		o.SetAPIVersion("cert-manager.io/v1")
		if o.GetKind() != "ClusterIssuer" {
			o.SetNamespace(m.h.ns)
		}
		must(t, m.h.c.Create(t.Context(), o))
	}
}

// secret is what a Certificate, or a person, put into a Secret.
func (m *certManagers) secret(name string) (s *corev1.Secret) {
	m.h.t.Helper()
	within(m.h.t, time.Minute, "the Secret "+name, func(ctx context.Context) error {
		s = &corev1.Secret{}
		return m.h.c.Get(ctx, m.h.key(name), s)
	})
	return s
}

// way is what leaves of the client side are to show of an issuer: its root, and the certificate by which it signs.
func (m *certManagers) way(secret *corev1.Secret, root *x509.Certificate) *issuer {
	return &issuer{ca: certificates(m.h.t, secret.Data["tls.crt"])[0], root: root}
}

// denies has the requests that nobody has judged denied, as a policy does.
func (m *certManagers) denies(ctx context.Context) error {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(shape.RequestKind)
	if err := m.h.c.List(ctx, all, client.InNamespace(m.h.ns)); err != nil {
		return err
	}
	for i := range all.Items {
		o := &all.Items[i]
		judged, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			return err
		}
		if len(judged) > 0 {
			continue
		}
		condition := map[string]any{"type": "Denied", "status": "True", "reason": "policy.example", "message": "no authority is given to this namespace", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
		must(m.h.t, unstructured.SetNestedSlice(o.Object, []any{condition}, "status", "conditions"))
		if err := m.h.c.Status().Update(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// define has the API server know these kinds as cert-manager defines them.
func define(t *testing.T, c client.Client, kinds ...string) {
	t.Helper()
	dir := definitions(t)
	if dir == "" {
		t.Skip("cert-manager's definitions of its kinds are not on this machine: go run ./internal/testkube/cmd/fetch cert-manager")
	}
	for _, kind := range kinds {
		data, err := os.ReadFile(filepath.Join(dir, "cert-manager.io_"+kind+".yaml"))
		must(t, err)
		crd := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(data, &crd.Object))
		must(t, c.Create(t.Context(), crd))
		within(t, time.Minute, kind+" are known", func(ctx context.Context) error {
			all := &unstructured.UnstructuredList{}
			name, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			all.SetGroupVersionKind(shape.RequestKind.GroupVersion().WithKind(name))
			return errors.Join(err, c.List(ctx, all, client.Limit(1)))
		})
	}
}

// signedBy says why not this issuer signed the clients' authority, by what is written down.
func (h *hand) signedBy(issuer string) func() error {
	return func() error {
		secret, said := &corev1.Secret{}, struct{ Issuer struct{ Name string } }{}
		must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-authorities"), secret))
		must(h.t, json.Unmarshal([]byte(secret.Annotations[shape.AnnotationAuthorities]), &said))
		if said.Issuer.Name != issuer {
			return fmt.Errorf("it is signed by %q", said.Issuer.Name)
		}
		return nil
	}
}

// The real cert-manager: an issuer that is not there, or has no Secret yet, is waited for; one below a root founds a cluster, and signs
// anew for a rotation. One whose Secret lacks the root does no less: who trusts that verifies the members. A request that a policy
// denies is told, and the cluster goes on; a ClusterIssuer signs likewise.
func TestByCertManager(t *testing.T) {
	h := newHand(t)
	m := newCertManagers(t, h)
	m.runs(true)
	r, _ := operator(h.c, -1, nil)
	settled := func(what string, holds func() error) {
		t.Helper()
		within(t, 2*time.Minute, what, func(ctx context.Context) error {
			if _, err := r.Reconcile(ctx, request(h)); err != nil {
				return err
			}
			if err := h.turn(ctx); err != nil {
				return err
			}
			return holds()
		})
	}
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, byIssuer))))
	settled("no issuer", h.waits("IssuerWaits", `Referenced "Issuer" not found`))
	m.has("{kind: Issuer, metadata: {name: corp}, spec: {ca: {secretName: issuing}}}")
	settled("an issuer without its Secret", h.waits("IssuerWaits", "does not have a Ready status condition"))
	ca := "{kind: Certificate, metadata: {name: %s}, spec: {isCA: true, commonName: %[1]s, secretName: %[1]s, duration: 87600h, privateKey: {algorithm: ECDSA}, issuerRef: {name: %s}}}"
	m.has("{kind: Issuer, metadata: {name: self}, spec: {selfSigned: {}}}", fmt.Sprintf(ca, "root", "self"),
		"{kind: Issuer, metadata: {name: root}, spec: {ca: {secretName: root}}}", fmt.Sprintf(ca, "issuing", "root"))
	issuing := m.secret("issuing")
	root := certificates(t, issuing.Data["ca.crt"])[0]
	corp := m.way(issuing, root)
	settled("founded", h.and(h.ready(3, 3), h.certified(corp)))
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	settled("rotated", h.and(h.ready(3, 3), h.certified(corp), h.at("done", 1)))

	bare := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: "bare"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": issuing.Data["tls.crt"], "tls.key": issuing.Data["tls.key"]}}
	must(t, h.c.Create(t.Context(), bare))
	m.has("{kind: Issuer, metadata: {name: bare}, spec: {ca: {secretName: bare}}}")
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"bare"}}}}}`)
	settled("by one that knows no root", h.and(h.ready(3, 3), h.certified(corp), h.at("done", 1), h.signedBy("bare")))

	m.runs(false)
	m.has("{kind: ClusterIssuer, metadata: {name: other}, spec: {ca: {secretName: issuing}}}")
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"other","kind":"ClusterIssuer"},"trustIssuer":true}}}}`)
	settled("denied", func() error {
		return errors.Join(m.denies(t.Context()), h.waits("IssuerRefuses", "Denied, policy.example")())
	})
	if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionFalse || c.Reason != "IssuerRefuses" {
		t.Errorf("%+v", c)
	}
	must(t, h.ready(3, 3)())
	m.runs(true)
	h.patch(`{"spec":{"tls":{"rotate":2}}}`)
	settled("by a ClusterIssuer, which is trusted", h.and(h.ready(3, 3), h.certified(corp), h.at("done", 2), h.signedBy("other")))
	must(t, h.c.Delete(t.Context(), h.see()))
	settled("deleted", h.gone)
}
