// Package real tries the operator on a real Kubernetes, as its users do and as machines fail: kubelets, scheduler, volumes,
// kube-proxy and DNS are none of ours. Every test has its own namespace and a cluster under a checked load.
//
//	go test ./e2e/real -v -timeout 1h -kubeconfig=FILE -operator-image=… -host-image=… -load-image=…
//
// The images are on the nodes, or can be pulled: those of a release (tools/release), and one whose entry is ./e2e/real/load. The
// operator is installed, unless a Deployment of it is there. -node=CMD has machines fail: CMD off NODE, on, wipe, cut, heal.
// -conformance-image has three programs of one release of Kubernetes (CGO_ENABLED=0): /kube-apiserver, /kube-controller-manager and
// /e2e.test, which is what go test -c makes of k8s.io/kubernetes/test/e2e. What this Kubernetes cannot do is skipped, and said.
package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testkube"
	"etcdadm.io/operator/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var (
	kubeconfig    = flag.String("kubeconfig", "", "of the Kubernetes to use; none: all is skipped")
	operatorImage = flag.String("operator-image", "", "the operator's")
	hostImage     = flag.String("host-image", "", "that of the hosts, with the releases -from and -to")
	loadImage     = flag.String("load-image", "", "with ./e2e/real/load as its entry")
	storeImage    = flag.String("store-image", "", "with an object store as its entry that takes -s3 flags as versitygw does; none: no backups are tried")
	conformance   = flag.String("conformance-image", "", "with /kube-apiserver, /kube-controller-manager and /e2e.test; none: no second API server is tried")
	from          = flag.String("from", "3.6.16", "the release that clusters begin with")
	to            = flag.String("to", "3.7.3", "that they are brought to")
	nodeCommand   = flag.String("node", "", "command that is run with off, on, wipe, cut or heal, and a node's name; none: no machine fails")
	controlPlane  = flag.String("control-plane", "", "what -node calls the machine of the API server; none: TestRandom leaves it alone")
	randomFor     = flag.Duration("random", 0, "how long TestRandom lets things fail; 0: not at all")
)

const (
	system  = "etcdadm-system"
	program = "etcdadm-operator"
)

var must, within = testkube.Must, testkube.Within

var kube struct {
	c      client.Client
	set    *kubernetes.Clientset
	config *rest.Config
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *kubeconfig != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		err := begin(ctx)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, "begin:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// begin connects, and installs the operator where there is none.
func begin(ctx context.Context) error {
	for flag, value := range map[string]string{"-operator-image": *operatorImage, "-host-image": *hostImage, "-load-image": *loadImage} {
		if value == "" {
			return fmt.Errorf("%s is missing", flag)
		}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if kube.config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return err
	}
	kube.config.QPS = -1
	if kube.set, err = kubernetes.NewForConfig(kube.config); err != nil { // each call is bounded by its context: the load's check takes minutes
		return err
	}
	kube.config.Timeout = 30 * time.Second
	for _, dir := range []string{"crd", "operator"} {
		if err := install(ctx, "../../config/"+dir); err != nil {
			return err
		}
	}
	if kube.c, err = client.New(kube.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for {
		d := &appsv1.Deployment{}
		err := kube.c.Get(ctx, client.ObjectKey{Namespace: system, Name: program}, d)
		if err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 2 && d.Status.AvailableReplicas == 2 && d.Status.Replicas == 2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the operator does not run: %+v, %w", d.Status.Conditions, errors.Join(err, ctx.Err()))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// install applies the manifests of a directory, with the images that were given, and rotations by steps of half a minute.
func install(ctx context.Context, dir string) error {
	c, err := client.New(kube.config, client.Options{})
	if err != nil {
		return err
	}
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no manifests in %s: %w", dir, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data = bytes.ReplaceAll(data, []byte("image: etcdadm-operator\n"), []byte("image: "+*operatorImage+"\n"))
		data = bytes.ReplaceAll(data, []byte("value: etcdadm}"), []byte("value: "+*hostImage+"}"))
		data = bytes.ReplaceAll(data, []byte("- --image=$(HOST_IMAGE)\n"), []byte("- --image=$(HOST_IMAGE)\n        - --rotation-grace=30s\n"))
		for part := range bytes.SplitSeq(data, []byte("\n---\n")) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(part, &o.Object); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			switch o.GetKind() {
			case "", "Kustomization":
			case "Namespace":
				all = append([]*unstructured.Unstructured{o}, all...)
			default:
				all = append(all, o)
			}
		}
	}
	for _, o := range all {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// world is a test's namespace, and the cluster "main" in it.
type world struct {
	t  *testing.T
	ns string
}

// begins makes a namespace and in it, unless its spec is to come, the cluster.
func begins(t *testing.T, name, spec string) *world {
	t.Helper()
	if *kubeconfig == "" {
		t.Skip("no -kubeconfig: no real Kubernetes to try it on")
	}
	w := &world{t: t, ns: fmt.Sprintf("real-%s-%d", name, time.Now().Unix()%100000)}
	must(t, kube.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}))
	t.Cleanup(w.ends)
	if spec != "" {
		w.begin(spec)
	}
	return w
}

// begin makes the cluster.
func (w *world) begin(spec string) {
	w.t.Helper()
	w.apply("{apiVersion: etcdadm.io/v1alpha1, kind: EtcdCluster, metadata: {name: main}, spec: {" + spec + ", storage: {size: 1Gi}, deletion: {finalBackup: Never, volumes: Delete}}}")
}

// ends deletes the cluster, as a person does, and the namespace; what failed stays to be looked at.
func (w *world) ends() {
	if w.t.Failed() {
		w.t.Logf("namespace %s stays", w.ns)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "main"}}
	err := kube.c.Delete(ctx, ec)
	for ; !apierrors.IsNotFound(err); time.Sleep(200 * time.Millisecond) {
		if ctx.Err() != nil {
			w.t.Errorf("main was not deleted within 2 minutes: %v %s", err, words(ec))
			return
		}
		err = kube.c.Get(ctx, w.key("main"), ec)
	}
	if err := kube.c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}); err != nil {
		w.t.Error(err)
	}
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.ns, Name: name}
}

func (w *world) apply(text string) {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	must(w.t, yaml.Unmarshal([]byte(text), &o.Object))
	o.SetNamespace(w.ns)
	must(w.t, kube.c.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"), client.ForceOwnership))
}

func (w *world) patch(text string) {
	w.t.Helper()
	ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "main"}}
	must(w.t, kube.c.Patch(w.t.Context(), ec, client.RawPatch("application/merge-patch+json", []byte(text))))
}

func (w *world) see(ctx context.Context) (*v1alpha1.EtcdCluster, error) {
	ec := &v1alpha1.EtcdCluster{}
	return ec, kube.c.Get(ctx, w.key("main"), ec)
}

// words are what a person sees of a cluster.
func words(ec *v1alpha1.EtcdCluster) string {
	var all []string
	for _, c := range ec.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, b := range ec.Status.Blockers {
		all = append(all, b.Code+": "+b.Sentence)
	}
	return strings.Join(all, "; ")
}

// ready waits for a cluster of so many voters that is as its spec asks, and says how long it took.
func (w *world) ready(limit time.Duration, voters int32, what string) {
	w.t.Helper()
	began := time.Now()
	within(w.t, limit, what, func(ctx context.Context) error {
		ec, err := w.see(ctx)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(ec.Status.Conditions, "Ready")
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != ec.Generation || ec.Status.Voters != voters || ec.Status.Up == nil || *ec.Status.Up != voters || ec.Status.Version != ec.Spec.Version {
			return errors.New(words(ec))
		}
		return w.podsReady(ctx, voters)
	})
	w.t.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}

// podsReady says which pod does not serve yet.
func (w *world) podsReady(ctx context.Context, voters int32) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	n := int32(0)
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				n++
			}
		}
	}
	if n < voters {
		return fmt.Errorf("%d of %d pods are ready", n, len(pods))
	}
	return nil
}

// pods are those of the cluster's hosts.
func (w *world) pods(ctx context.Context) ([]corev1.Pod, error) {
	ec, err := w.see(ctx)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.ParseToLabelSelector(ec.Status.Selector)
	if err != nil || ec.Status.Selector == "" {
		return nil, fmt.Errorf("it shows no selector: %w", err)
	}
	list := &corev1.PodList{}
	err = kube.c.List(ctx, list, client.InNamespace(w.ns), client.MatchingLabels(selector.MatchLabels))
	return list.Items, err
}

// kill deletes a pod, with a grace of so many seconds; below 0 that of the pod.
func kill(t *testing.T, ns, name string, grace int64) {
	t.Helper()
	var o []client.DeleteOption
	if grace >= 0 {
		o = append(o, client.GracePeriodSeconds(grace))
	}
	must(t, client.IgnoreNotFound(kube.c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}, o...)))
}

// machine has one fail, or come back.
func machine(t *testing.T, what, name string) {
	t.Helper()
	if *nodeCommand == "" {
		t.Skip("no -node: no machine can be told to fail")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	for try := 1; ; try++ { // what makes machines may fail, which is not what is tested here
		command := exec.CommandContext(ctx, *nodeCommand, what, name)
		command.Env = testenv.Outside()
		said, err := command.CombinedOutput()
		if err == nil {
			break
		}
		if try == 3 {
			t.Fatalf("%s %s %s: %v\n%s", *nodeCommand, what, name, err, said)
		}
		t.Logf("%s %s %s: %v: once more\n%s", *nodeCommand, what, name, err, said)
		time.Sleep(5 * time.Second)
	}
	t.Logf("%s: %s", name, what)
}

// nodes are the machines that take pods.
func nodes(t *testing.T) (names []string) {
	t.Helper()
	list := &corev1.NodeList{}
	must(t, kube.c.List(t.Context(), list))
	for _, n := range list.Items {
		if !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 {
			names = append(names, n.Name)
		}
	}
	return names
}

// load is the pod that uses a cluster.
type load struct {
	w    *world
	name string
}

// stats are those of ./load.
type stats struct {
	Written, Retried, Failed, Lost int
	LongestStall                   time.Duration
	Last, Checked, Broken          string
}

// uses starts the load, by the certificate of a host's user, which that host's Secret keeps current.
func (w *world) uses(name string) *load {
	w.t.Helper()
	ec, err := w.see(w.t.Context())
	must(w.t, err)
	return w.load(name, "https://main-client", `[{name: ca, configMap: {name: main-ca}}, {name: certs, secret: {secretName: `+ec.Status.Hosts[0].Name+`-leaves}}]`)
}

// load starts it at a Service, named with its scheme, by what its volumes have: whom to trust, and a client's certificate.
func (w *world) load(name, service, volumes string) *load {
	w.t.Helper()
	w.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0,
  automountServiceAccountToken: false, tolerations: [{operator: Exists}],
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: load, image: %q, imagePullPolicy: IfNotPresent, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}},
    args: ["--endpoint=%[3]s.%[4]s.svc:2379", "--ca=/ca/etcd-clients-ca.crt", "--certs=/certs", "--prefix=%[1]s/"],
    volumeMounts: [{name: ca, mountPath: /ca}, {name: certs, mountPath: /certs}]}],
  volumes: %[5]s}}`, name, *loadImage, service, w.ns, volumes))
	l := &load{w, name}
	within(w.t, time.Minute, "the load writes", func(ctx context.Context) error {
		s, err := l.ask(ctx, "stats")
		if err == nil && s.Written < 10 {
			err = fmt.Errorf("%d writes", s.Written)
		}
		return err
	})
	return l
}

func (l *load) ask(ctx context.Context, what string) (s stats, err error) {
	data, err := kube.set.CoreV1().Pods(l.w.ns).ProxyGet("http", l.name, "8080", what, nil).DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// since tells what the load saw since an earlier look.
func (l *load) since(before stats, what string) stats {
	l.w.t.Helper()
	var s stats
	within(l.w.t, 30*time.Second, "the load tells", func(ctx context.Context) (err error) {
		s, err = l.ask(ctx, "stats")
		return err
	})
	l.w.t.Logf("%s: %d writes, %d retried, %d failed %s", what, s.Written-before.Written, s.Retried-before.Retried, s.Failed-before.Failed, s.Last)
	return s
}

// ends stops the load, and holds what it saw against what etcd promises.
func (l *load) ends() stats {
	l.w.t.Helper()
	ctx, cancel := context.WithTimeout(l.w.t.Context(), 4*time.Minute)
	defer cancel()
	var s stats
	data, err := kube.set.CoreV1().Pods(l.w.ns).ProxyGet("http", l.name, "8080", "stop", nil).DoRaw(ctx)
	must(l.w.t, err)
	must(l.w.t, json.Unmarshal(data, &s))
	l.w.t.Logf("%d writes, %d retried, %d failed, longest stall %.1f s; %s", s.Written, s.Retried, s.Failed, s.LongestStall.Seconds(), s.Checked)
	if s.Lost > 0 || s.Broken != "" {
		l.w.t.Errorf("%d acknowledged writes are lost; %s", s.Lost, s.Broken)
	}
	kill(l.w.t, l.w.ns, l.name, 0)
	return s
}

// served stops a load that was served all the time: no write of it may fail after one retry.
func (l *load) served() {
	l.w.t.Helper()
	if s := l.ends(); s.Failed > 0 {
		l.w.t.Errorf("%d writes failed after one retry; the last: %s", s.Failed, s.Last)
	}
}
