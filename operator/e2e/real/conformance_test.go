package real

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// specsFor bounds the specs.
	specsFor = 8 * time.Minute
	// restFor is between faults once each was there, so that a spec has the time for its second try.
	restFor = 20 * time.Second
)

// streams run side by side: conformance specs by a regular expression for their names. What looks at all groups of the API is in one
// stream with what makes and deletes groups, since such specs fail beside each other on any etcd.
var streams = []struct{ name, specs string }{
	{"definitions", `\[sig-api-machinery\] (AggregatedDiscovery|CustomResource(PublishOpenAPI|FieldSelectors|Definition)|Discovery|FieldValidation)`},
	{"machinery", `\[sig-api-machinery\] (API priority|Garbage collector|(Mutating|Validating)AdmissionPolicy|Namespaces|[Ss]erver|Watchers)`},
	{"quotas", `\[sig-api-machinery\] ResourceQuota`},
	{"resources", `\[sig-(apps|auth|instrumentation|network|node|scheduling|storage)\] (` + strings.Join([]string{
		`CronJob should support`, `DisruptionController .*(list and delete|should create)`, `ReplicationController should surface`,
		`Certificates API`, `ServiceAccounts should (allow|create|guarantee|run|update)`, `SubjectReview`,
		`Events`, `API Server`, `Endpoints`, `EndpointSlice`, `Ingress`, `Services should (complete|delete|find)`,
		`ConfigMap should (fail|run|update)`, `Lease`, `PodTemplates`, `RuntimeClass should (reject|support)`, `Secrets should (fail|patch)`,
		`Node Lifecycle`, `Pods Extended Pods Set QOS`, `\[DRA\]`, `LimitRange`,
		`CSINodes`, `CSIStorageCapacity`, `PersistentVolumes CSI`, `StorageClasses`, `VolumeAttachment`, `VolumeAttributesClass`,
	}, "|") + `)`},
}

// leftOut of them is what cannot pass here.
var leftOut = []string{
	// These need a node, and fail on any etcd where there is none: for a pod that runs, for its name, or for how many pods it takes.
	`CustomResourceFieldSelectors`,
	`should ensure that all pods are removed when a namespace is deleted`,
	`should keep the rc around until all its pods are deleted`,
	`should not delete dependents that have both valid owner`,
	`should orphan pods created by rc`,
	`for Pods matching a Service`,
	`Service with multiple (ports|endpoint IPs) specified in multiple EndpointSlices`,
	`VolumeAttachment Conformance`,
	// These run kubectl.
	`works for CRD (with|without) validation schema`,
	`works for CRD preserving unknown fields`,
	// These make 400 objects, try each four times without a pause, and one that fails all four ends all specs.
	`API chunking`,
}

// second is a Kubernetes API server on the cluster, and what runs its conformance specs: one pod.
type second struct {
	w *world
}

// TestConformance has a second Kubernetes API server on the cluster, and its conformance specs pass while pods of the cluster are
// killed, it grows, shrinks and is upgraded. A spec may be tried twice, as a write of the load may, and neither may fail then.
// Rotation is no part of it, since this API server reads etcd's authority once.
func TestConformance(t *testing.T) {
	if *conformance == "" {
		t.Skip("no -conformance-image: no second API server, and no specs for it")
	}
	w := begins(t, "conform", three())
	w.ready(2*time.Minute, 3, "applied to ready")
	l := w.uses("load")
	s := w.runs()
	began, before := time.Now(), stats{}
	fault := func(name string, do func()) {
		do()
		before = l.since(before, fmt.Sprintf("%s, %.0f s into the specs", name, time.Since(began).Seconds()))
	}
	killed := func() {
		fault("kill", func() {
			kill(t, w.ns, w.voter(false), -1)
			w.ready(2*time.Minute, 3, "pod deleted to ready")
		})
	}
	leaderKilled := func() {
		fault("kill the leading daemon", func() {
			kill(t, w.ns, w.voter(true), 0)
			w.ready(2*time.Minute, 3, "the leading daemon's pod killed to ready")
		})
	}
	killed()
	leaderKilled()
	fault("grow", func() {
		w.patch(`{"spec":{"size":5}}`)
		w.ready(3*time.Minute, 5, "3 to 5")
	})
	fault("shrink", func() {
		w.patch(`{"spec":{"size":3}}`)
		w.ready(3*time.Minute, 3, "5 to 3")
	})
	fault("upgrade", func() {
		w.patch(`{"spec":{"version":"` + *to + `"}}`)
		w.ready(5*time.Minute, 3, *from+" to "+*to)
	})
	if s.ended(t.Context()) == nil {
		t.Error("the specs ended before the upgrade did")
	}
	for n := 0; s.ended(t.Context()) != nil && time.Since(began) < specsFor-time.Minute; n++ {
		time.Sleep(restFor)
		[]func(){killed, leaderKilled}[n%2]()
	}
	within(t, max(time.Until(began.Add(specsFor)), time.Second), "the specs end", s.ended)
	t.Logf("the specs: %.0f s", time.Since(began).Seconds())
	s.passed()
	l.served()
	kill(t, w.ns, "second", 0)
}

// runs starts the API server with its controllers, and what runs the specs once it is ready.
func (w *world) runs() *second {
	w.t.Helper()
	ec, err := w.see(w.t.Context())
	must(w.t, err)
	w.secrets()
	var specs strings.Builder
	for _, s := range streams {
		fmt.Fprintf(&specs, `
  - {name: %s, image: %q, imagePullPolicy: IfNotPresent, securityContext: *confined, command: [/e2e.test], args: [--kubeconfig=/admin/kubeconfig, --provider=skeleton,
      --num-nodes=0, --allowed-not-ready-nodes=-1, --dump-logs-on-failure=false, --ginkgo.no-color, --ginkgo.silence-skips, --ginkgo.flake-attempts=2, --ginkgo.timeout=%s,
      --ginkgo.label-filter=Conformance, %q, %q], volumeMounts: *files}`,
			s.name, *conformance, specsFor, "--ginkgo.focus="+s.specs, "--ginkgo.skip="+strings.Join(leftOut, "|"))
	}
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: second}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  enableServiceLinks: false
  tolerations: [{operator: Exists}]
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  initContainers:
  - {name: kube-apiserver, image: %[1]q, imagePullPolicy: IfNotPresent, restartPolicy: Always, command: [/kube-apiserver], args: [
      "--etcd-servers=https://main-client.%[2]s.svc:2379", --etcd-cafile=/ca/etcd-clients-ca.crt, --etcd-certfile=/certs/client.crt, --etcd-keyfile=/certs/client.key,
      --cert-dir=/serving, --token-auth-file=/admin/tokens.csv, --authorization-mode=RBAC, --service-cluster-ip-range=10.97.0.0/16,
      "--service-account-issuer=https://kubernetes.default.svc", --service-account-key-file=/admin/sa.pub, --service-account-signing-key-file=/admin/sa.key],
     startupProbe: {httpGet: {scheme: HTTPS, port: 6443, path: /readyz}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 60},
     securityContext: &confined {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}},
     volumeMounts: &files [{name: admin, mountPath: /admin}, {name: serving, mountPath: /serving}, {name: tmp, mountPath: /tmp}, {name: ca, mountPath: /ca}, {name: certs, mountPath: /certs}]}
  - {name: kube-controller-manager, image: %[1]q, imagePullPolicy: IfNotPresent, restartPolicy: Always, command: [/kube-controller-manager], args: [--kubeconfig=/admin/kubeconfig,
      --secure-port=0, --leader-elect=false, --service-account-private-key-file=/admin/sa.key, --root-ca-file=/serving/apiserver.crt, --flex-volume-plugin-dir=/tmp/none,
      --kube-api-qps=200, --kube-api-burst=400], securityContext: *confined, volumeMounts: *files}
  containers:%[3]s
  volumes: [{name: admin, secret: {secretName: second}}, {name: serving, emptyDir: {}}, {name: tmp, emptyDir: {}},
    {name: ca, configMap: {name: main-ca}}, {name: certs, secret: {secretName: %[4]s-leaves}}]`, *conformance, w.ns, specs.String(), ec.Status.Hosts[0].Name))
	s := &second{w}
	began := time.Now()
	within(w.t, 2*time.Minute, "the specs begin", func(ctx context.Context) error {
		pod, err := s.pod(ctx)
		if err != nil {
			return err
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running == nil {
				return fmt.Errorf("%s: %+v, after %+v", c.Name, c.State, pod.Status.InitContainerStatuses)
			}
		}
		if len(pod.Status.ContainerStatuses) != len(streams) {
			return fmt.Errorf("%d containers: %+v", len(pod.Status.ContainerStatuses), pod.Status.Conditions)
		}
		return nil
	})
	w.t.Logf("the second API server ready: %.1f s", time.Since(began).Seconds())
	return s
}

// secrets are the API server's: who its administrator is, and the keys of its service accounts.
func (w *world) secrets() {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(w.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	must(w.t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(w.t, err)
	token := rand.Text()
	must(w.t, kube.c.Create(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "second"}, StringData: map[string]string{
		"tokens.csv": token + ",admin,admin,system:masters\n",
		"sa.key":     string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})),
		"sa.pub":     string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"kubeconfig": `{apiVersion: v1, kind: Config, current-context: second, contexts: [{name: second, context: {cluster: second, user: admin}}],
  clusters: [{name: second, cluster: {server: "https://localhost:6443", certificate-authority: /serving/apiserver.crt}}],
  users: [{name: admin, user: {token: ` + token + `}}]}`,
	}}))
}

func (s *second) pod(ctx context.Context) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, kube.c.Get(ctx, s.w.key("second"), pod)
}

// ended says which streams still run. One that failed ends the test.
func (s *second) ended(ctx context.Context) error {
	pod, err := s.pod(ctx)
	if err != nil {
		return err
	}
	var left []string
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Terminated == nil:
			left = append(left, c.Name)
		case c.State.Terminated.ExitCode != 0:
			log := s.log(c.Name)
			if _, failures, found := strings.Cut(log, "\nSummarizing "); found {
				log = failures
			}
			s.w.t.Fatalf("%s ended with %d: %s", c.Name, c.State.Terminated.ExitCode, log[max(0, len(log)-6000):])
		}
	}
	if len(left) > 0 {
		return errors.New("still running: " + strings.Join(left, ", "))
	}
	return nil
}

// log is that of a container of the pod.
func (s *second) log(container string) string {
	s.w.t.Helper()
	var log []byte
	within(s.w.t, time.Minute, "the log of "+container, func(ctx context.Context) (err error) {
		log, err = kube.set.CoreV1().Pods(s.w.ns).GetLogs("second", &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
		return err
	})
	return string(log)
}

var (
	ran = regexp.MustCompile(`(?m)^(?:SUCCESS|FAIL)! -- (\d+) Passed \| (\d+) Failed \|(?: (\d+) Flaked \|)?`)
	// secondTry is in a report of a spec that passed then, before its name.
	secondTry = regexp.MustCompile(`ATTEMPTS TO PASS\].*\n(.*)`)
)

// passed says how many specs did, at the first or the second try, and that the API server went on all the time.
func (s *second) passed() {
	s.w.t.Helper()
	passed, twice := 0, 0
	for _, stream := range streams {
		log := s.log(stream.name)
		m := ran.FindStringSubmatch(log)
		if m == nil || m[1] == "0" || m[2] != "0" {
			s.w.t.Errorf("%s ran nothing, or not to the end: %q", stream.name, m)
			continue
		}
		n, _ := strconv.Atoi(m[1])
		again, _ := strconv.Atoi(m[3])
		passed, twice = passed+n, twice+again
		s.w.t.Logf("%s: %s passed, %d of them at the second try", stream.name, m[1], again)
		for _, spec := range secondTry.FindAllStringSubmatch(log, -1) {
			s.w.t.Logf("at the second try: %s", spec[1])
		}
	}
	s.w.t.Logf("%d conformance specs passed, %d of them at the second try", passed, twice)
	pod, err := s.pod(s.w.t.Context())
	must(s.w.t, err)
	for _, c := range pod.Status.InitContainerStatuses {
		if c.RestartCount > 0 {
			s.w.t.Errorf("%s was restarted %d times: %+v", c.Name, c.RestartCount, c.LastTerminationState)
		}
	}
}
