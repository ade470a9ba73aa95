package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// manager runs an operator as its program does, with caches and a Lease, until stop is called.
func manager(t *testing.T, by *rest.Config, ns, name string) (stop func(), leads <-chan struct{}) {
	t.Helper()
	anyName := true
	lease, renew, retry := 3*time.Second, 2*time.Second, 200*time.Millisecond
	caches := reconcile.CacheOptions()
	caches.DefaultNamespaces = map[string]cache.Config{ns: {}} // other tests have clusters, too
	m, err := ctrl.NewManager(by, ctrl.Options{
		Scheme: scheme, Cache: caches, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "etcdadm-operator", LeaderElectionNamespace: ns, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry, Controller: config.Controller{SkipNameValidation: &anyName},
	})
	must(t, err)
	r := &reconcile.Reconciler{Cached: m.GetClient(), Live: m.GetAPIReader(), Writer: &act.Writer{Client: m.GetClient(), Live: m.GetAPIReader()}, Image: "localhost/etcdadm:1", Events: m.GetEventRecorder("etcdadm-operator"), Issuers: reconcile.Issuers{{Kind: "Issuer", Name: "*", Group: "cert-manager.io"}}}
	must(t, r.Setup(m, 4))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("operator %s: %v", name, err)
			}
		})
	}
	t.Cleanup(stop)
	return stop, m.Elected()
}

// Two operators as their program runs them, by the rights that their manifests give: the one with the Lease works; when it ends
// the other goes on. Nothing is refused to them, and each right is used.
func TestTwoOperators(t *testing.T) {
	g, ns := newRig(t), "team"
	must(t, g.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	h := &hand{t: t, c: g.c, ns: ns, name: "main", silent: map[string]bool{}}
	first := g.starts()
	holder := g.leads("")
	second := g.starts()
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 3, version: 3.6.16, storage: {size: 1Gi}, backup: {store: \"s3://b/"+ns+"\"}"))))
	must(t, h.c.Create(t.Context(), etcdBackup(t, ns, "b")))
	must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdBackupSchedule\nmetadata: {name: often}\nspec: {cluster: main, schedule: \"0 3 29 2 *\"}")))
	settled := func(what string, holds func() error) {
		t.Helper()
		within(t, time.Minute, what, func(ctx context.Context) error {
			if err := h.turn(ctx); err != nil {
				return err
			}
			return holds()
		})
	}
	settled("created by the first", h.ready(3, 3))
	settled("backed up by the first", func() error {
		if is := h.backup("b").Status; is.Phase != v1alpha1.Done {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
	must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdRestore\nmetadata: {name: r}\nspec: {cluster: main, replaces: 1, source: {backup: a-backup}}")))
	settled("restored by the first", func() error {
		r := &v1alpha1.EtcdRestore{}
		if err := h.c.Get(t.Context(), h.key("r"), r); err != nil || r.Status.Phase != v1alpha1.Done {
			return fmt.Errorf("%+v: %w", r.Status, err)
		}
		return h.ready(3, 3)()
	})
	g.founds()
	if n := second.looks(t.Context())["etcdcluster"]; n > 0 {
		t.Fatal("both work")
	}
	first.stop()
	g.leads(holder)
	h.patch(`{"spec":{"size":5}}`)
	settled("grown by the second", h.ready(5, 5))
	h.patch(`{"spec":{"size":1}}`)
	settled("shrunk by the second", h.ready(1, 1))
	h.patch(`{"spec":{"pod":{"metadata":{"labels":{"team":"a"}}}}}`)
	settled("rolled by the second", h.and(h.made("localhost/etcdadm:1", "a"), h.unpaused, h.ready(1, 1)))
	must(t, h.c.Delete(t.Context(), h.see()))
	settled("deleted by the second", func() error {
		if h.see() != nil {
			return errors.New("it is still there")
		}
		return nil
	})
	g.held()
}

// founds has operators that began without cert-manager found a cluster by an issuer of it, once it is there.
func (g *rig) founds() {
	t, ns := g.t, "signed"
	t.Helper()
	must(t, g.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	h := &hand{t: t, c: g.c, ns: ns, name: "signed", silent: map[string]bool{}}
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("signed", "size: 1, version: 3.6.16, storage: {size: 1Gi}, tls: {clients: {issuerRef: {name: corp}}}"))))
	settled := func(what string, holds func() error) {
		t.Helper()
		within(t, time.Minute, what, func(ctx context.Context) error {
			if err := h.turn(ctx); err != nil && h.issuer == nil {
				return err
			}
			return holds()
		})
	}
	settled("cert-manager is missing", h.waits("IssuerWaits", "knows no CertificateRequests"))
	defineRequests(t, g.c)
	h.issuer = newIssuer(t)
	settled("founded by an issuer", h.ready(1, 1))
	must(t, h.c.Delete(t.Context(), h.see()))
	settled("deleted", h.gone)
}

// leads waits until another operator than the one before has the Lease, and says which one.
func (g *rig) leads(before string) (holder string) {
	g.t.Helper()
	within(g.t, time.Minute, "an operator has the Lease", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		err := g.c.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: "etcdadm-operator"}, lease)
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if err == nil && (holder == "" || holder == before) {
			err = fmt.Errorf("it is %q", holder)
		}
		return err
	})
	return holder
}
