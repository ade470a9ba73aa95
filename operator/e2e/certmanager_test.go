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
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testkube"
	"etcdadm.io/operator/shape"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// certManager is the release whose definition of CertificateRequest the API server is given, where it can be fetched.
const certManager = "github.com/cert-manager/cert-manager@" + testkube.CertManagerVersion

var requestKind sync.Once

// requests has the API server that tests share know CertificateRequests.
func requests(t *testing.T, c client.Client) {
	t.Helper()
	requestKind.Do(func() { defineRequests(t, c) })
	within(t, time.Minute, "CertificateRequests are known", func(ctx context.Context) error {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(shape.RequestKind)
		return c.List(ctx, all, client.Limit(1))
	})
}

func defineRequests(t *testing.T, c client.Client) {
	t.Helper()
	file := "testdata/certificaterequests.yaml"
	if dir := definitions(t); dir != "" {
		file = filepath.Join(dir, "cert-manager.io_certificaterequests.yaml")
	}
	t.Logf("CertificateRequests are those of %s", file)
	data, err := os.ReadFile(file)
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal(data, &crd.Object))
	must(t, c.Create(t.Context(), crd))
}

// definitions is the directory that has those of cert-manager; empty: they cannot be fetched.
func definitions(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fetch := exec.CommandContext(ctx, "go", "mod", "download", "-json", certManager)
	fetch.Dir, fetch.Env = t.TempDir(), append(testenv.Outside(), "GOWORK=off", "GOFLAGS=-mod=mod")
	said, err := fetch.Output()
	module := struct{ Dir string }{}
	if err != nil || json.Unmarshal(said, &module) != nil || module.Dir == "" {
		return ""
	}
	return filepath.Join(module.Dir, "deploy", "crds")
}

// issuer stands in for cert-manager and an issuer of it: a root, and what it signs by.
type issuer struct {
	root, ca       *x509.Certificate
	rootKey, caKey crypto.Signer
	// does says what becomes of requests: empty: they are signed; pending, denied, failed, invalid, or what is wrong with what is signed:
	// leaf, key, short, rubbish, ended, stranger.
	does string
	seen []string      // requests, in their order
	life time.Duration // of what it signs at most; 0: as is asked for
	bare bool          // it does not tell its own certificate
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
		status, err := i.answer(h, o)
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

func (i *issuer) answer(h *hand, o *unstructured.Unstructured) (map[string]any, error) {
	t := h.t
	said := func(kind, is, reason, message string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": is, "reason": reason, "message": message, "lastTransitionTime": h.time().UTC().Format(time.RFC3339)}}}
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
	if i.life > 0 {
		life = min(life, i.life)
	}
	if spec["isCA"] != true || !slices.Equal(spec["usages"].([]any), []any{"cert sign", "digital signature"}) {
		return nil, fmt.Errorf("it asks for %v", spec)
	}
	c := &x509.Certificate{Subject: csr.Subject, IsCA: i.does != "leaf", KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotBefore: h.time().Add(-time.Hour), NotAfter: h.time().Add(life)}
	public := csr.PublicKey
	switch i.does {
	case "key":
		public = newKey(t).Public()
	case "short":
		c.NotAfter = h.time().Add(29 * 24 * time.Hour)
	case "ended":
		c.NotAfter = h.time().Add(-time.Minute)
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
