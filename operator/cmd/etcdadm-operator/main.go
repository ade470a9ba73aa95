// Command etcdadm-operator runs etcd clusters inside Kubernetes: it makes hosts, and the daemons on them make the clusters.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// garbage is how much the heap may grow beyond what lives, in per cent of that. Nearly all of it is the cache, which stays: twice
// as much, as Go takes by default, would be for little.
const garbage = 40

func main() {
	image := flag.String("image", "", "image of the hosts, with etcdadm and the releases of etcd; required")
	namespace := flag.String("leader-election-namespace", "", "namespace of the Lease; default: the operator's own")
	elect := flag.Bool("leader-elect", true, "wait for a Lease, so that one operator of several works")
	metricsAt := flag.String("metrics-bind-address", ":8080", "where metrics are; 0: nowhere")
	healthAt := flag.String("health-probe-bind-address", ":8081", "where /healthz and /readyz are")
	workers := flag.Int("workers", 32, "clusters that are looked at at once")
	grace := flag.Duration("rotation-grace", 10*time.Minute, "how long clients have at each step of spec.tls.rotate to take new certificates up")
	flag.String("alpha", "", "of earlier operators, and has no effect: what it had on is on in each")
	var issuers []string // an overlay may give the flag beside a component
	flag.Func("issuers", "issuers that spec.tls.clients may name, as KIND/NAME or KIND.GROUP/NAME, with commas between, or the flag again; NAME may be *. Default: none", func(s string) error {
		issuers = append(issuers, s)
		return nil
	})
	flag.Parse() // --kubeconfig is controller-runtime's
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	ctrl.SetLogger(zap.New())
	r := &reconcile.Reconciler{Image: *image, RotationGrace: *grace}
	var err error
	if r.Issuers, err = reconcile.ParseIssuers(strings.Join(issuers, ",")); err == nil {
		err = run(r, *namespace, *elect, *metricsAt, *healthAt, *workers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcdadm-operator:", err)
		os.Exit(1)
	}
}

func run(r *reconcile.Reconciler, namespace string, elect bool, metricsAt, healthAt string, workers int) error {
	if r.Image == "" {
		return fmt.Errorf("--image is required: name the image of the hosts, such as registry.example/etcdadm:1.0.0")
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	ctx, p := ctrl.SetupSignalHandler(), &probes{}
	stop, err := p.serve(ctx, healthAt)
	if err != nil {
		return err
	}
	defer stop()
	known, err := awaitAPI(ctx, config, scheme, reconcile.Kinds(), ctrl.Log.WithValues("server", config.Host).Info)
	if ctx.Err() != nil { // by a signal, in order
		return nil
	}
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: reconcile.CacheOptions(), Metrics: server.Options{BindAddress: metricsAt}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return known, nil },
		LeaderElection: elect, LeaderElectionID: "etcdadm-operator", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	if err := m.Add(p); err != nil {
		return err
	}
	r.Cached, r.Live, r.Events = m.GetClient(), m.GetAPIReader(), m.GetEventRecorder("etcdadm-operator")
	r.Writer = &act.Writer{Client: m.GetClient(), Live: m.GetAPIReader()}
	if err := r.Setup(m, workers); err != nil {
		return err
	}
	return p.runs(ctx, m)
}
