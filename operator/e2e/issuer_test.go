package e2e

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const byIssuer = "size: 3, version: 3.6.16, storage: {size: 1Gi}, tls: {clients: {issuerRef: {name: corp}}}"

// certified says why not all of the client side is as its issuer has it: leaves show the whole way to its root, the certificate by which
// it signs is trusted where that is asked for and else nowhere, and who trusts the root alone trusts the members.
func (h *hand) certified(i *issuer) func() error {
	return func() error {
		files, _ := h.authorities()
		own := certificates(h.t, files["etcd-clients-ca.crt"])
		want, c := 1, h.see().Spec.TLS.Clients
		if c.TrustIssuer {
			want = 2
		}
		if len(own) != want || own[0].CheckSignatureFrom(i.ca) != nil || c.TrustIssuer && !own[1].Equal(i.ca) {
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
				if _, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: h.time(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
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
		ec := h.see()
		if ec == nil {
			return errors.New("there is no EtcdCluster")
		}
		for _, b := range ec.Status.Blockers {
			if b.Code == code && strings.Contains(b.Sentence, text) {
				return nil
			}
		}
		return fmt.Errorf("no %s with %q: %+v", code, text, ec.Status.Blockers)
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
	h.patch(`{"spec":{"tls":{"clients":{"trustIssuer":true}}}}`)
	must(t, h.settle(r, "the issuer is trusted", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0))))
	h.patch(`{"spec":{"tls":{"clients":{"trustIssuer":null}}}}`)
	must(t, h.settle(r, "and no more", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0))))
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

// asked is the request that is out.
func (h *hand) asked() (is struct {
	Tries int
	Since time.Time
}) {
	secret, said := &corev1.Secret{}, struct{ Asked any }{Asked: &is}
	must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-authorities"), secret))
	must(h.t, json.Unmarshal([]byte(secret.Annotations[shape.AnnotationAuthorities]), &said))
	return is
}

// A request that cannot be made, as while cert-manager's webhook is down, is told, and holds nothing else up.
func TestRequestCannotBeMade(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	works := r.Writer.Client
	r.Writer.Client = interceptor.NewClient(works.(client.WithWatch), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetObjectKind().GroupVersionKind() == shape.RequestKind {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return c.Create(ctx, o, opts...)
	}})
	h.patch(`{"spec":{"size":5,"tls":{"clients":{"issuerRef":{"name":"corp"}}}}}`)
	must(t, h.settle(r, "told, and grown", h.and(h.waits("IssuerWaits", "failed calling webhook"), func() error {
		if ec := h.see(); ec.Status.Voters != 5 {
			return fmt.Errorf("%d voters", ec.Status.Voters)
		}
		return nil
	})))
	if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "failed calling webhook") || len(h.see().Status.Blockers) != 1 {
		t.Errorf("%+v, %+v", c, h.see().Status.Blockers)
	}
	must(t, h.ready(5, 5)())
	r.Writer.Client = works
	must(t, h.settle(r, "by the issuer", h.and(h.ready(5, 5), h.certified(h.issuer), h.at("done", 0))))
}

// An issuer that does not sign, or signs what does not serve, is asked again, later and later, and then no more before a person says
// so. The cluster goes on meanwhile, and grows.
func TestIssuerRefuses(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	r, writes := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	first, _ := h.authorities()
	var since time.Time
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"corp"}}}}}`)
	for n, test := range []struct{ does, says string }{
		{"denied", "Denied, policy.example"}, {"failed", "Failed"}, {"invalid", "InvalidRequest"}, {"leaf", "is no authority's"}, {"key", "for another key"},
		{"short", "30d are needed"}, {"stranger", "would not trust the members"}, {"rubbish", "cannot be read"},
	} {
		h.issuer.does = test.does
		h.skip += 25 * time.Hour
		must(t, h.settle(r, test.does, h.waits("IssuerRefuses", test.says)))
		if len(h.issuer.seen) != n+1 || h.asked().Tries != n+1 {
			t.Fatalf("%s: %d requests, %+v", test.does, len(h.issuer.seen), h.asked())
		}
		if n == 0 {
			since = h.asked().Since
		} else if is := h.asked().Since; !is.Equal(since) {
			t.Errorf("%s: asked since %s, and first since %s", test.does, is, since)
		}
		if n == 2 {
			h.patch(`{"spec":{"size":5}}`)
			must(t, h.settle(r, "grown", func() error {
				if ec := h.see(); ec.Status.Voters != 5 {
					return fmt.Errorf("%d voters", ec.Status.Voters)
				}
				return nil
			}))
		}
	}
	h.skip += 100 * 24 * time.Hour
	must(t, h.settle(r, "no more", h.waits("IssuerRefuses", "8 requests were refused")))
	before := writes()
	for range 3 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
		must(t, h.turn(t.Context()))
	}
	files, said := h.authorities()
	if n := writes() - before; n > 0 || len(h.issuer.seen) != 8 || said.Step != 1 || !slices.Equal(files["etcd-clients-ca.key"], first["etcd-clients-ca.key"]) {
		t.Errorf("%d writes, %d requests, %+v", n, len(h.issuer.seen), said)
	}
	h.issuer.does = ""
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	must(t, h.settle(r, "asked again", h.and(h.ready(5, 5), h.certified(h.issuer), h.at("done", 1))))
}

// Operators that are killed after each of their writes in turn, from before the cluster is founded to an issuer of another name: it
// ends all the same, by one request for each authority.
func TestIssuerKilled(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, byIssuer))))
	killed := 0
	settled := func(what string, holds func() error) {
		t.Helper()
		for lives := 1; ; lives++ {
			r, _ := operator(h.c, (lives-1)%3+1, nil)
			err := h.settle(r, what, holds)
			if err == nil {
				return
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if killed++; killed > 200 {
				t.Fatal("there is no end")
			}
		}
	}
	settled("founded", h.and(h.ready(3, 3), h.certified(h.issuer)))
	if n := len(h.issuer.seen); n != 1 {
		t.Errorf("%d requests were made", n)
	}
	other := newIssuer(t)
	other.seen, h.issuer = h.issuer.seen, other
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"other"}}}}}`)
	settled("by another one", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0)))
	t.Logf("%d operators were killed", killed)
	if n := len(h.issuer.seen); n != 2 || killed < 20 {
		t.Errorf("%d requests were made, %d operators were killed", n, killed)
	}
}

// The Secret with the keys is lost, or put back from before: the issuer is asked once a person says so, and the cluster comes to an
// authority of it.
func TestAuthoritiesOfAnIssuerLost(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, byIssuer))))
	must(t, h.settle(r, "create", h.and(h.ready(3, 3), h.certified(h.issuer))))
	older := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-authorities"), older))
	must(t, h.c.Delete(t.Context(), older.DeepCopy()))
	must(t, h.settle(r, "told", h.blocked("AuthorityGone")))
	if len(h.issuer.seen) != 1 {
		t.Error("the issuer was asked although nobody says so")
	}
	h.issuer.does = "pending"
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	must(t, h.settle(r, "asked", h.and(h.blocked("AuthorityGone"), h.waits("IssuerWaits", "Referenced"))))
	h.issuer.does = ""
	must(t, h.settle(r, "regained", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 1))))

	now := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-authorities"), now))
	now.Data, now.Annotations = older.Data, older.Annotations
	must(t, h.c.Update(t.Context(), now))
	h.patch(`{"spec":{"size":5}}`)
	must(t, h.settle(r, "an older one is told", h.blocked("AuthorityChanged")))
	h.patch(`{"spec":{"size":3}}`)
	h.issuer.does = "pending"
	h.patch(`{"spec":{"tls":{"rotate":2}}}`)
	must(t, h.settle(r, "asked", h.and(h.blocked("AuthorityChanged"), h.waits("IssuerWaits", "Referenced"))))
	h.issuer.does = ""
	must(t, h.settle(r, "the older one is replaced", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 2))))
	if files, _ := h.authorities(); !slices.Equal(files["etcd-clients-ca.aside.key"], older.Data["etcd-clients-ca.key"]) || len(h.issuer.seen) != 3 {
		t.Errorf("what lay there was not set aside; %d requests", len(h.issuer.seen))
	}
}

// An issuer whose authorities live for ninety days: each is replaced in time, unasked, whatever the year says; and one that has ended
// is replaced by a person's word.
func TestIssuerOfShortLives(t *testing.T) {
	const day = 24 * time.Hour
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	h.issuer.life = 90 * day
	r, _ := operator(h.c, -1, h.time)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, byIssuer))))
	must(t, h.settle(r, "create", h.and(h.ready(3, 3), h.certified(h.issuer))))
	for n, days := range []time.Duration{69, 53} { // two thirds since it was signed, and a quarter of the last one
		h.skip += days * day
		for _, phase := range []string{"trust", "sign"} {
			must(t, h.settle(r, phase, h.at(phase, 0)))
			h.skip += 8 * day
		}
		must(t, h.settle(r, "replaced", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0))))
		if len(h.issuer.seen) != n+2 {
			t.Fatalf("%d requests", len(h.issuer.seen))
		}
	}
	must(t, h.settle(r, "all have leaves of the last step", h.stamped))
	h.skip += 100 * day
	must(t, h.settle(r, "ended", h.blocked("AuthorityEnded")))
	h.lets, h.rolled = true, nil
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	must(t, h.settle(r, "anew", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 1))))
	if !slices.Equal(h.rolled, []string{"main-1", "main-2", "main-3"}) {
		t.Errorf("started anew were %v", h.rolled)
	}
}

// stamped says why not all leaves are of the last step of the authorities.
func (h *hand) stamped() error {
	_, said := h.authorities()
	for _, host := range h.runs() {
		secret := &corev1.Secret{}
		must(h.t, h.c.Get(h.t.Context(), h.key(host+"-leaves"), secret))
		if is := secret.Annotations[shape.AnnotationStep]; is != fmt.Sprintf("%d %d", said.Rotate, said.Step) {
			return fmt.Errorf("%s has leaves of %q: %+v", host, is, said)
		}
	}
	return nil
}

// While it is asked, paused, asleep and deleted clusters do what they do without an issuer.
func TestIssuerAskedMeanwhile(t *testing.T) {
	h := newHand(t)
	requests(t, h.c)
	h.issuer = newIssuer(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	h.issuer.does = "pending"
	h.patch(`{"spec":{"tls":{"clients":{"issuerRef":{"name":"corp"}}}}}`)
	must(t, h.settle(r, "asked", h.and(h.waits("IssuerWaits", "Referenced"), h.ready(3, 3))))
	if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionFalse || c.Reason != "IssuerWaits" {
		t.Errorf("%+v", c)
	}
	h.patch(`{"spec":{"paused":true}}`)
	must(t, h.settle(r, "paused", h.blocked("Paused")))
	h.issuer.does = ""
	for range 3 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
		must(t, h.turn(t.Context()))
	}
	must(t, h.at("done", 0)())
	if files, said := h.authorities(); said.Step != 1 || files["etcd-clients-ca.chain.crt"] != nil {
		t.Errorf("paused, and at %+v", said)
	}
	must(t, h.c.Delete(t.Context(), h.see()))
	must(t, h.settle(r, "deleted", h.gone))
	time.Sleep(1100 * time.Millisecond) // creation has whole seconds
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, byIssuer))))
	must(t, h.settle(r, "taken up again", h.and(h.ready(3, 3), h.certified(h.issuer), h.at("done", 0))))
}
