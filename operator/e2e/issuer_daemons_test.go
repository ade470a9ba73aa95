package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/shape"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// application is a client of the cluster whose certificate an issuer signed, and which trusts the root of the cluster's issuer and
// nothing else.
func (k *kubelet) application(t *testing.T, by *issuer) *writer {
	t.Helper()
	text, key := by.application(t)
	pair, err := tls.X509KeyPair(text, key)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(k.h.issuer.root)
	w := &writer{stop: make(chan struct{}), finished: make(chan struct{}), client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
			InsecureSkipVerify:   true, // replaced below: no name of theirs is resolved here
			VerifyConnection: func(s tls.ConnectionState) error {
				between := x509.NewCertPool()
				for _, c := range s.PeerCertificates[1:] {
					between.AddCert(c)
				}
				_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: k.h.name + "-client." + k.h.ns + ".svc"})
				return err
			},
		}}}}
	close(w.finished) // it does nothing by itself
	for n := 1; n <= 3; n++ {
		w.addresses = append(w.addresses, k.address(n))
	}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// serves says why not each member takes a write of the application, and gives it back.
func (w *writer) serves() error {
	w.client.CloseIdleConnections()
	for n, address := range w.addresses {
		err := w.put(-n-1, address)
		if err == nil {
			err = w.get(-n-1, address)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
	}
	return nil
}

// get reads what put wrote.
func (w *writer) get(i int, address string) error {
	key := base64.StdEncoding.EncodeToString([]byte("k" + strconv.Itoa(i)))
	answer, err := w.client.Post(fmt.Sprintf("https://%s:%d/v3/kv/range", address, shape.PortClient), "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(said), key) {
		return fmt.Errorf("%s: %s %w", answer.Status, said, err)
	}
	return nil
}

// Real daemons, under writes: a cluster with authorities of its own is given an issuer. No write fails twice; then an application with
// a certificate of the issuer, which trusts that alone, writes to each member, and one of a stranger does not.
func TestDaemonsByAnIssuer(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	k := daemons(t, h)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	h.patch(`{"spec":{"version":"3.7.3"}}`) // which is built in
	settled := k.settled(t, &r)
	settled(3*time.Minute, "created", h.ready(3, 3))
	app, stranger := k.application(t, h.issuer), k.application(t, newIssuer(t))
	if err := app.serves(); err == nil {
		t.Error("it is let in before the issuer is wanted")
	}
	w := k.write(t, 3)
	r, _ = operator(h.c, 1, nil)
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"corp"},"trustIssuer":true}}}}`)
	settled(6*time.Minute, "by the issuer", h.and(h.certified(h.issuer), h.at("done", 0), h.ready(3, 3)))
	w.end()
	t.Logf("%d writes, %d at the second try", w.done, w.retried)
	if len(w.failed) > 0 || w.done < 100 {
		t.Errorf("%d writes, %d failed: %v", w.done, len(w.failed), w.failed[:min(3, len(w.failed))])
	}
	if len(k.deleted) > 0 {
		t.Errorf("pods were stopped: %v", k.deleted)
	}
	settled(30*time.Second, "an application is let in", app.serves)
	if err := stranger.serves(); err == nil {
		t.Error("a stranger is let in")
	}
}

// Real daemons: a cluster is founded by an issuer, and an application of it writes from the start.
func TestDaemonsFoundedByAnIssuer(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	k := daemons(t, h)
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, "size: 3, version: 3.7.3, storage: {size: 1Gi}, tls: {clients: {issuerRef: {name: corp}, trustIssuer: true}}"))))
	settled := k.settled(t, &r)
	settled(3*time.Minute, "founded", h.and(h.ready(3, 3), h.certified(h.issuer)))
	settled(30*time.Second, "an application is let in", k.application(t, h.issuer).serves)
	if err := k.application(t, newIssuer(t)).serves(); err == nil {
		t.Error("a stranger is let in")
	}
}

// settled runs operators, each of which is killed after a few of its writes where the first one is, the issuer and the kubelet, until
// what is wanted holds.
func (k *kubelet) settled(t *testing.T, r **reconcile.Reconciler) func(limit time.Duration, what string, holds func() error) {
	return func(limit time.Duration, what string, holds func() error) {
		t.Helper()
		began, lives := time.Now(), 0
		within(t, limit, what, func(ctx context.Context) error {
			if _, err := (*r).Reconcile(ctx, request(k.h)); errors.Is(err, errKilled) {
				lives++
				*r, _ = operator(k.h.c, lives%4+1, nil)
				(*r).RotationGrace = 5 * time.Second
			} else if err != nil {
				t.Logf("%s: %v", what, err)
			}
			if err := k.h.issuer.turn(ctx, k.h); err != nil {
				return err
			}
			if err := k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
				return err
			}
			return holds()
		})
		t.Logf("%s: %s, %d operators were killed", what, time.Since(began).Round(time.Second), lives)
	}
}
