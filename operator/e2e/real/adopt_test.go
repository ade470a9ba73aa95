package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/operator/plugin"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAdopt takes over an etcd of three members that a StatefulSet runs with TLS, as charts make it: no acknowledged write is lost, and
// its ID stays.
func TestAdopt(t *testing.T) {
	adopts(t, chart{scheme: "https", begins: "{adopt: {secret: {name: old-ca}}}", volumes: `[{name: ca, secret: {secretName: etcd}}, {name: certs, secret: {secretName: etcd}}]`})
}

// TestAdoptWithoutTLS takes over one without TLS, as most charts make it unless they are asked.
func TestAdoptWithoutTLS(t *testing.T) {
	adopts(t, chart{scheme: "http", begins: "{adopt: {}}", volumes: `[{name: ca, emptyDir: {}}, {name: certs, emptyDir: {}}]`})
}

// chart is how a StatefulSet runs etcd, what an EtcdCluster begins with that adopts it, and what its clients mount.
type chart struct{ scheme, begins, volumes string }

func adopts(t *testing.T, c chart) {
	w := begins(t, "adopt", "")
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("no kubectl, by which the plugin runs a command in pods: ", err)
	}
	id := w.chart(c)
	old := w.load("old", c.scheme+"://etcd", c.volumes)
	w.begin(three() + ", backup: " + w.store() + ", bootstrap: " + c.begins)
	within(t, 2*time.Minute, "its hosts run and wait", func(ctx context.Context) error {
		ec, err := w.see(ctx)
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(ec.Status.Conditions, "Ready"); c == nil || c.Reason != "Adopting" || !strings.Contains(c.Message, "kubectl etcdadm adopt main") {
			return errors.New(words(ec))
		}
		return nil
	})
	w.adopt(c, "--dry-run")
	w.adopt(c, "--keep")
	old.ends()
	l := w.uses("load")
	w.adopt(c)
	w.ready(3*time.Minute, 3, "adopted to ready")
	must(t, kube.c.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "etcd"}}))
	l.ends()
	if ec, err := w.see(t.Context()); err != nil || ec.Status.ClusterID != id {
		t.Errorf("cluster ID %s, and it was %s: %v", ec.Status.ClusterID, id, err)
	}
}

// adopt runs the plugin, as a person does.
func (w *world) adopt(c chart, more ...string) {
	w.t.Helper()
	var endpoints []string
	for i := range 3 {
		endpoints = append(endpoints, fmt.Sprintf("%s://etcd-%d.etcd.%s.svc:2379", c.scheme, i, w.ns))
	}
	began := time.Now()
	var out, errs bytes.Buffer
	args := append([]string{"adopt", "main", "--namespace=" + w.ns, "--kubeconfig=" + *kubeconfig, "--endpoints=" + strings.Join(endpoints, ","), "--yes"}, more...)
	for {
		out.Reset()
		errs.Reset()
		code := plugin.Main(args, strings.NewReader(""), &out, &errs)
		if code == 0 {
			break
		}
		w.t.Logf("adopt %v ends with %d:\n%s%s", more, code, &out, &errs)
		if time.Since(began) > 5*time.Minute {
			w.t.Fatal("it does not end as it should within 5 minutes")
		}
		time.Sleep(5 * time.Second)
	}
	w.t.Logf("adopt %v: %.0f s\n%s%s", more, time.Since(began).Seconds(), &out, &errs)
}

// chart runs the etcd that is to be adopted, with an authority of its own, and says its cluster's ID.
func (w *world) chart(c chart) (id string) {
	w.t.Helper()
	dir, now := w.t.TempDir(), time.Now()
	authorities, err := pki.Create(dir, now)
	must(w.t, err)
	var names, urls []string
	for i := range 3 {
		name := fmt.Sprintf("etcd-%d", i)
		names, urls = append(names, fmt.Sprintf("%[1]s=%[2]s://%[1]s.etcd.%[3]s.svc:2380", name, c.scheme, w.ns)), append(urls, fmt.Sprintf("https://%s.etcd.%s.svc:2380", name, w.ns))
	}
	server, err := pki.ServerRequest("etcd", append(urls, "https://etcd."+w.ns+".svc:2379"), nil, pki.DefaultLifetime())
	must(w.t, err)
	peer, err := pki.PeerRequest("etcd", urls, nil, pki.DefaultLifetime())
	must(w.t, err)
	client, err := pki.ClientRequest("root", pki.DefaultLifetime())
	must(w.t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "etcd"}, Data: map[string][]byte{}}
	for name, request := range map[string]pki.Request{"server": server, "peer": peer, "client": client} {
		_, err := pki.Ensure(dir, pki.Names{CA: pki.ClientsCA + ".crt", Cert: name + ".crt", Key: name + ".key"}, authorities.Peers, request, now)
		must(w.t, err)
		for _, file := range []string{name + ".crt", name + ".key", pki.ClientsCA + ".crt"} {
			secret.Data[file], err = os.ReadFile(filepath.Join(dir, file))
			must(w.t, err)
		}
	}
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "old-ca"}}
	ca.Data, err = authorities.Peers.Files()
	must(w.t, err)
	ca.Data = map[string][]byte{"ca.crt": ca.Data[pki.PeersCA+".crt"], "ca.key": ca.Data[pki.PeersCA+".key"]}
	must(w.t, errors.Join(kube.c.Create(w.t.Context(), secret), kube.c.Create(w.t.Context(), ca)))
	w.apply(`{apiVersion: v1, kind: Service, metadata: {name: etcd}, spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: etcd}, ports: [{name: client, port: 2379}, {name: peer, port: 2380}]}}`)
	w.apply(fmt.Sprintf(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: etcd}, spec: {serviceName: etcd, replicas: 3, podManagementPolicy: Parallel, selector: {matchLabels: {app: etcd}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],
  template: {metadata: {labels: {app: etcd}}, spec: {automountServiceAccountToken: false,
    securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}},
    containers: [{name: etcd, image: %q, imagePullPolicy: IfNotPresent, command: [/opt/etcd-v%s/etcd], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}},
      env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}],
      args: ["--name=$(POD)", --data-dir=/data/etcd, --initial-cluster-token=a-chart, "--initial-cluster=%s",
        "--listen-peer-urls=%[5]s://0.0.0.0:2380", "--listen-client-urls=%[5]s://0.0.0.0:2379",
        "--initial-advertise-peer-urls=%[5]s://$(POD).etcd.%[4]s.svc:2380", "--advertise-client-urls=%[5]s://$(POD).etcd.%[4]s.svc:2379"%[6]s],
      readinessProbe: {tcpSocket: {port: 2379}, periodSeconds: 1},
      volumeMounts: [{name: data, mountPath: /data}, {name: tls, mountPath: /tls}]}],
    volumes: [{name: tls, secret: {secretName: etcd}}]}}}}`, *hostImage, *from, strings.Join(names, ","), w.ns, c.scheme, c.certified()))
	within(w.t, 2*time.Minute, "the etcd of the chart serves", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, "kubectl", "--kubeconfig="+*kubeconfig, "--namespace="+w.ns, "exec", "etcd-0", "--", "/opt/etcd-v"+*from+"/etcdctl",
			"--endpoints="+c.scheme+"://127.0.0.1:2379", "--cacert=/tls/"+pki.ClientsCA+".crt", "--cert=/tls/client.crt", "--key=/tls/client.key", "endpoint", "status", "--cluster", "--write-out=json").Output()
		if err != nil {
			return fmt.Errorf("etcdctl: %w", err)
		}
		var all []struct {
			Status struct {
				Header struct {
					ClusterID uint64 `json:"cluster_id"`
				} `json:"header"`
			}
		}
		if err := json.Unmarshal(out, &all); err != nil || len(all) < 3 {
			return fmt.Errorf("%d members answer: %w", len(all), err)
		}
		id = fmt.Sprintf("%x", all[0].Status.Header.ClusterID)
		return nil
	})
	return id
}

// certified are the arguments for TLS.
func (c chart) certified() (args string) {
	if c.scheme == "http" {
		return ""
	}
	ca := "trusted-ca-file=/tls/" + pki.ClientsCA + ".crt"
	return ", --client-cert-auth, --" + ca + ", --cert-file=/tls/server.crt, --key-file=/tls/server.key, --peer-client-cert-auth, --peer-" + ca + ", --peer-cert-file=/tls/peer.crt, --peer-key-file=/tls/peer.key"
}
