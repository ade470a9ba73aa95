package e2e

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testenv"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// certManager is the release whose definition of CertificateRequest the API server is given, where it can be fetched.
const certManager = "github.com/cert-manager/cert-manager@v1.21.2"

var requestKind sync.Once

// requests has the API server know CertificateRequests.
func requests(t *testing.T, c client.Client) {
	t.Helper()
	requestKind.Do(func() {
		file := "testdata/certificaterequests.yaml"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fetch := exec.CommandContext(ctx, "go", "mod", "download", "-json", certManager)
		fetch.Dir, fetch.Env = t.TempDir(), append(testenv.Outside(), "GOWORK=off", "GOFLAGS=-mod=mod")
		said, err := fetch.Output()
		module := struct{ Dir string }{}
		if err == nil && json.Unmarshal(said, &module) == nil && module.Dir != "" {
			file = filepath.Join(module.Dir, "deploy/crds/cert-manager.io_certificaterequests.yaml")
		}
		t.Logf("CertificateRequests are those of %s", file)
		data, err := os.ReadFile(file)
		must(t, err)
		crd := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(data, &crd.Object))
		must(t, c.Create(t.Context(), crd))
	})
	within(t, time.Minute, "CertificateRequests are known", func(ctx context.Context) error {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(shape.RequestKind)
		return c.List(ctx, all, client.Limit(1))
	})
}

// issuer stands in for cert-manager and an issuer of it: a root, and what it signs by.
type issuer struct {
	root, ca       *x509.Certificate
	rootKey, caKey crypto.Signer
	// does says what becomes of requests: empty: they are signed; pending, denied, failed, invalid, or what is wrong with what is signed:
	// leaf, key, short, rubbish, ended, stranger.
	does string
	seen []string // requests, in their order
	bare bool     // it does not tell its own certificate
}

func certificate(t *testing.T, c *x509.Certificate, key crypto.PublicKey, by *x509.Certificate, byKey crypto.Signer) *x509.Certificate {
	t.Helper()
	if by == nil {
		by = c
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.BasicConstraintsValid = true
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(20 * 365 * 24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, key, byKey)
	must(t, err)
	out, err := x509.ParseCertificate(der)
	must(t, err)
	return out
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{rootKey: newKey(t), caKey: newKey(t)}
	usage := x509.KeyUsageCertSign
	i.root = certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "corp root"}, IsCA: true, KeyUsage: usage}, i.rootKey.Public(), nil, i.rootKey)
	i.ca = certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "corp issuing"}, IsCA: true, KeyUsage: usage}, i.caKey.Public(), i.root, i.rootKey)
	return i
}

// application is a client's certificate of the issuer, as an application has it.
func (i *issuer) application(t *testing.T) (certificatePEM, keyPEM []byte) {
	t.Helper()
	key := newKey(t)
	leaf := certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "root"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key.Public(), i.ca, i.caKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return []byte(pki.CertificatePEM(leaf) + pki.CertificatePEM(i.ca)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// turn does what is asked for once.
func (i *issuer) turn(ctx context.Context, h *hand) error {
	if i == nil {
		return nil
	}
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(shape.RequestKind)
	if err := h.c.List(ctx, all, client.InNamespace(h.ns)); err != nil {
		return err
	}
	for n := range all.Items {
		o := &all.Items[n]
		if !slices.Contains(i.seen, o.GetName()) {
			i.seen = append(i.seen, o.GetName())
		}
		if status, is, _ := unstructured.NestedMap(o.Object, "status"); is && len(status) > 0 && i.does != "" {
			continue
		}
		if done, _, _ := unstructured.NestedString(o.Object, "status", "certificate"); done != "" {
			continue
		}
		status, err := i.answer(h.t, o)
		if err != nil {
			return err
		}
		o.Object["status"] = status
		if err := h.c.Status().Update(ctx, o); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (i *issuer) answer(t *testing.T, o *unstructured.Unstructured) (map[string]any, error) {
	said := func(kind, is, reason, message string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": is, "reason": reason, "message": message, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}}
	}
	switch i.does {
	case "pending":
		return said("Ready", "False", "Pending", `Referenced "Issuer" not found`), nil
	case "denied":
		return said("Denied", "True", "policy.example", "no authority is given to this namespace"), nil
	case "failed":
		return said("Ready", "False", "Failed", "the signer says no"), nil
	case "invalid":
		return said("InvalidRequest", "True", "Weak", "the key is none"), nil
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	text, err := base64.StdEncoding.DecodeString(spec["request"].(string))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the request is no PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	life, err := time.ParseDuration(spec["duration"].(string))
	if err != nil {
		return nil, err
	}
	if spec["isCA"] != true || !slices.Equal(spec["usages"].([]any), []any{"cert sign", "digital signature"}) {
		return nil, fmt.Errorf("it asks for %v", spec)
	}
	c := &x509.Certificate{Subject: csr.Subject, IsCA: i.does != "leaf", KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotAfter: time.Now().Add(life)}
	public := csr.PublicKey
	switch i.does {
	case "key":
		public = newKey(t).Public()
	case "short":
		c.NotAfter = time.Now().Add(29 * 24 * time.Hour)
	case "ended":
		c.NotAfter = time.Now().Add(-time.Minute)
	}
	ca := i.root
	if i.does == "stranger" {
		ca = newIssuer(t).root
	}
	signed := pki.CertificatePEM(certificate(t, c, public, i.ca, i.caKey)) + pki.CertificatePEM(i.ca)
	if i.does == "rubbish" {
		signed = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	}
	status := said("Ready", "True", "Issued", "signed")
	status["certificate"] = base64.StdEncoding.EncodeToString([]byte(signed))
	if !i.bare {
		status["ca"] = base64.StdEncoding.EncodeToString([]byte(pki.CertificatePEM(ca)))
	}
	return status, nil
}

const byIssuer = "size: 3, version: 3.6.16, storage: {size: 1Gi}, tls: {clients: {issuerRef: {name: corp}}}"

// certified says why not all of the client side is as its issuer has it: leaves show the whole way to it, its own certificate is
// trusted beside the clients' authority, and who trusts it alone trusts the members.
func (h *hand) certified(i *issuer) func() error {
	return func() error {
		files, _ := h.authorities()
		own := certificates(h.t, files["etcd-clients-ca.crt"])
		if len(own) != 2 || own[0].CheckSignatureFrom(i.ca) != nil || !own[1].Equal(i.root) {
			return fmt.Errorf("trusted are %d certificates", len(own))
		}
		bundle := &corev1.ConfigMap{}
		must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-ca"), bundle))
		if bundle.Data["etcd-clients-ca.crt"] != string(files["etcd-clients-ca.crt"]) {
			return errors.New("clients are told to trust others")
		}
		roots := x509.NewCertPool()
		roots.AddCert(i.root)
		for _, host := range h.runs() {
			secret := &corev1.Secret{}
			must(h.t, h.c.Get(h.t.Context(), h.key(host+"-leaves"), secret))
			for _, name := range []string{"server", "client"} {
				shown := certificates(h.t, secret.Data[name+".crt"])
				if len(shown) != 3 {
					return fmt.Errorf("%s shows %d certificates of %s", host, len(shown), name)
				}
				between := x509.NewCertPool()
				for _, c := range shown[1:] {
					between.AddCert(c)
				}
				if _, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
					return err
				}
				if shown[0].NotAfter.After(own[0].NotAfter) {
					return errors.New("a leaf outlives its authority")
				}
			}
			if len(certificates(h.t, secret.Data["peer.crt"])) != 1 {
				return errors.New("the peers' side has others")
			}
		}
		return nil
	}
}

// waits says why the cluster does not say that it waits for an issuer.
func (h *hand) waits(code, text string) func() error {
	return func() error {
		for _, b := range h.see().Status.Blockers {
			if b.Code == code && strings.Contains(b.Sentence, text) {
				return nil
			}
		}
		return fmt.Errorf("no %s with %q: %+v", code, text, h.see().Status.Blockers)
	}
}

// A cluster is founded with an authority that its issuer signed, and no host is made before.
func TestFoundedByAnIssuer(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	h.issuer.does = "pending"
	r, writes := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, byIssuer))))
	must(t, h.settle(r, "waits", h.waits("IssuerWaits", "Referenced")))
	if c := h.condition(v1alpha1.Ready); c.Status != metav1.ConditionFalse || c.Reason != "IssuerWaits" || !strings.Contains(c.Message, "No host is made before that") {
		t.Errorf("%+v", c)
	}
	before := writes()
	for range 3 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	must(t, h.c.List(t.Context(), claims, client.InNamespace(h.ns)))
	if n := writes() - before; n > 0 || len(claims.Items) > 0 || len(h.issuer.seen) != 1 {
		t.Errorf("while it waits there were %d writes and are %d volumes; requests: %v", n, len(claims.Items), h.issuer.seen)
	}
	h.issuer.does = ""
	must(t, h.settle(r, "founded", h.and(h.ready(3, 3), h.certified(h.issuer))))
	o := shape.Request()
	must(t, h.c.Get(t.Context(), h.key(h.issuer.seen[0]), o))
	if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != h.see().UID {
		t.Errorf("it is owned by %v", owners)
	}
	files, said := h.authorities()
	if len(files) != 8 || said.Phase != "done" {
		t.Errorf("%+v, %d files", said, len(files))
	}
}

// A cluster with authorities of its own gets an issuer, another one, and none again: each is a rotation, in which an authority comes
// from a request of its own.
func TestIssuerOfARunningCluster(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"corp"}}}}}`)
	must(t, h.settle(r, "by the issuer", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0))))
	if n := len(h.issuer.seen); n != 1 {
		t.Errorf("%d requests were made", n)
	}
	other := newIssuer(t)
	other.seen, h.issuer = h.issuer.seen, other
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"other","kind":"ClusterIssuer"}}}}}`)
	must(t, h.settle(r, "by another one", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0))))
	h.patch(`{"spec":{"tls":{"clients":null}}}`)
	must(t, h.settle(r, "by itself", h.and(h.ready(3, 3), h.at("done", 0), func() error {
		files, _ := h.authorities()
		own := certificates(t, files["etcd-clients-ca.crt"])
		if len(files) != 6 || len(own) != 1 || own[0].CheckSignatureFrom(own[0]) != nil {
			return fmt.Errorf("%d files, %d certificates", len(files), len(own))
		}
		return nil
	})))
}

// at says why the authorities are not at a phase, for a number of spec.tls.rotate.
func (h *hand) at(phase string, rotate int) func() error {
	return func() error {
		if _, said := h.authorities(); said.Phase != phase || said.Rotate != rotate {
			return fmt.Errorf("%+v: %+v", said, h.condition(v1alpha1.Rotating))
		}
		return nil
	}
}

var _ = authority.Files{}
