package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The plugin runs the command in the pod of one host after the other, with what the EtcdCluster says; it shows first what would
// happen, ends at the first refusal, and hands a password on by standard input.
func TestPluginAdopts(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	files, err := authority.Create(time.Now())
	must(t, err)
	must(t, h.c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old-ca"}, Data: map[string][]byte{"tls.crt": files["etcd-peers-ca.crt"], "tls.key": files["etcd-peers-ca.key"]}}))
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", plain+`, options: {quota-backend-bytes: "8589934592"}, backup: {store: "s3://b/`+ns+`"}, bootstrap: {adopt: {secret: {name: old-ca}, clusterID: abc}}`))))
	must(t, h.settle(r, "the hosts run", func() error {
		if n := len(h.runs()); n != 3 {
			return fmt.Errorf("%d hosts run", n)
		}
		return h.waits("Adopting", "no host has joined")()
	}))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\necho \"$@\"\nread -r in; echo \"in: $in\"\ncase \"$*\" in *\" main-2-0 \"*) [ ! -f "+dir+"/refuses ] || exit 12;; esac\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "password"), []byte("secret\n"), 0o600))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	run := func(in string, more ...string) (int, string, string) {
		return kubectlEtcdadm(t, ns, in, append([]string{"adopt", "main", "--endpoints=https://a:2379,https://b:2379"}, more...)...)
	}
	peers := ""
	for n := 1; n <= 3; n++ {
		peers += fmt.Sprintf("--host-url=https://%s:2380 ", shape.Cluster{Namespace: ns, Name: "main"}.HostDNS(n))
	}
	line := func(n int, rest string) string {
		return fmt.Sprintf(" exec -i main-%d-0 -c etcdadm -- /usr/bin/etcdadm adopt --join --data-dir=/var/lib/etcdadm --endpoints=https://a:2379,https://b:2379 --members=3 --etcd-version=3.7.3 --wait=5m0s --while-input --cluster-id=ab "+
			peers+
			"--option=peer-skip-client-san-verification=true --option=quota-backend-bytes=8589934592%s\n", n, rest)
	}
	calls := func(out string) int { return strings.Count(out, " exec -i ") }

	h.corrected(r, func() (int, string) {
		code, _, errs := run("", "--dry-run")
		return code, errs
	})
	code, out, errs := run("", "--dry-run")
	if code != 0 || calls(out) != 1 || !strings.Contains(out, line(1, " --dry-run")) {
		t.Errorf("a dry run: %d, %s%s", code, out, errs)
	}
	if code, out, errs = run("n\n"); code != 12 || calls(out) != 1 || !strings.Contains(errs, "not confirmed; nothing was changed") {
		t.Errorf("a no: %d, %s%s", code, out, errs)
	}
	if code, out, errs = run("y\n", "--keep"); code != 0 || calls(out) != 4 || !strings.Contains(out, line(3, " --keep --yes")) || !strings.Contains(out, "no member was removed") {
		t.Errorf("a yes: %d, %s%s", code, out, errs)
	}
	code, out, errs = run("", "--yes", "--user=root", "--password-file="+filepath.Join(dir, "password"))
	if code != 0 || calls(out) != 3 || strings.Count(out, "in: secret\n") != 3 || !strings.Contains(out, line(2, " --user=root --password-file=/dev/stdin --yes")) || !strings.Contains(out, "main-client") {
		t.Errorf("with a password: %d, %s%s", code, out, errs)
	}
	must(t, os.WriteFile(filepath.Join(dir, "refuses"), nil, 0o600))
	if code, out, errs = run("", "--yes"); code != 12 || calls(out) != 2 || !strings.Contains(errs, "stopped at pod main-2-0") {
		t.Errorf("a refusal: %d, %s%s", code, out, errs)
	}
	if code, _, errs = run("", "--user=root"); code != 2 || !strings.Contains(errs, "belong together") {
		t.Errorf("a user alone: %d, %s", code, errs)
	}
	pod := &corev1.Pod{}
	must(t, h.c.Get(t.Context(), h.key("main-3-0"), pod))
	must(t, h.c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	within(t, time.Minute, "a host is missing", func(context.Context) error {
		if code, out, errs := run("", "--yes"); code != 13 || calls(out) != 0 || !strings.Contains(errs, "2 of 3 hosts run") {
			return fmt.Errorf("%d, %s%s", code, out, errs)
		}
		return nil
	})
}

// corrected has a person correct the ID of the cluster that is meant. Nothing is run before that is written down, and volumes have it.
func (h *hand) corrected(r *reconcile.Reconciler, run func() (code int, errs string)) {
	h.patch(`{"spec":{"bootstrap":{"adopt":{"clusterID":"ab"}}}}`)
	if code, errs := run(); code != 13 || !strings.Contains(errs, "cluster abc is written down") {
		h.t.Errorf("before it is written down: %d, %s", code, errs)
	}
	must(h.t, h.settle(r, "the ID is corrected", func() error {
		claims := &corev1.PersistentVolumeClaimList{}
		must(h.t, h.c.List(h.t.Context(), claims, client.InNamespace(h.ns)))
		said := []string{h.control().Annotations[shape.AnnotationAdopt]}
		for _, c := range claims.Items {
			said = append(said, c.Annotations[shape.AnnotationAdopt])
		}
		if strings.Join(said, ", ") != "old-ca ab, old-ca ab, old-ca ab, old-ca ab" {
			return fmt.Errorf("it is %q", said)
		}
		return nil
	}))
}

// A cluster that is to adopt none is left alone.
func TestPluginAdoptsWhereItIsAsked(t *testing.T) {
	c, ns := server(t)
	must(t, c.Create(t.Context(), object(t, ns, etcdCluster("main", plain))))
	if code, _, errs := kubectlEtcdadm(t, ns, "", "adopt", "main", "--endpoints=https://a:2379"); code != 12 || !strings.Contains(errs, "no spec.bootstrap.adopt") {
		t.Errorf("%d, %s", code, errs)
	}
	if code, _, errs := kubectlEtcdadm(t, ns, "", "adopt", "main"); code != 2 || !strings.Contains(errs, "--endpoints names client URLs") {
		t.Errorf("%d, %s", code, errs)
	}
}

// An EtcdCluster that is deleted while its hosts may vote elsewhere stops none of them, until a person says that they do not.
func TestDeletedWhileItAdopts(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	files, err := authority.Create(time.Now())
	must(t, err)
	must(t, h.c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old-ca"}, Data: map[string][]byte{"ca.crt": files["etcd-peers-ca.crt"], "ca.key": files["etcd-peers-ca.key"]}}))
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", plain+`, backup: {store: "s3://b/`+ns+`"}, deletion: {volumes: Delete}, bootstrap: {adopt: {secret: {name: old-ca}}}`))))
	hosts := func(want int) func() error {
		return func() error {
			if n := len(h.runs()); n != want {
				return fmt.Errorf("%d hosts run", n)
			}
			return nil
		}
	}
	must(t, h.settle(r, "the hosts run", hosts(3)))
	view := record.Of(h.control(), nil)
	must(t, view.Folder("").PutJoining(t.Context(), "", &control.Joining{Cluster: 0xab, Members: 3, Ours: [][]string{{"https://main-1"}}}))
	must(t, h.c.Update(t.Context(), view.Control))
	must(t, h.c.Delete(t.Context(), h.see()))
	held := func() error {
		if c := h.condition(v1alpha1.Ready); c.Reason != "Deleting" || !strings.Contains(c.Message, "may vote in cluster ab") {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return hosts(3)()
	}
	must(t, h.settle(r, "its end waits", held))
	h.patch(`{"metadata":{"annotations":{"etcdadm.io/adoption-given-up":"cd"}}}`)
	must(t, h.settle(r, "another cluster is given up", held))
	h.patch(`{"metadata":{"annotations":{"etcdadm.io/let-go":"true"}}}`)
	gone := func() error {
		err := h.c.Get(t.Context(), h.key("main"), &v1alpha1.EtcdCluster{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	}
	must(t, h.settle(r, "it is let go", func() error { return errors.Join(gone(), hosts(3)()) }))
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", plain+`, backup: {store: "s3://b/`+ns+`"}, deletion: {volumes: Delete}`))))
	must(t, h.settle(r, "another one takes it up", func() error { return errors.Join(h.waits("Adopting", "of cluster ab is under way")(), hosts(3)()) }))
	must(t, h.c.Delete(t.Context(), h.control())) // the finalizer of nobody keeps it
	must(t, h.settle(r, "it is lost", func() error {
		return errors.Join(h.waits("Adopting", "control object was lost")(), hosts(3)(), h.opensPeers(true))
	}))
	must(t, h.c.Delete(t.Context(), h.see()))
	must(t, h.settle(r, "its end waits where it is lost", func() error {
		if c := h.condition(v1alpha1.Ready); c.Reason != "Deleting" || !strings.Contains(c.Message, "may vote in a cluster that runs elsewhere") {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return hosts(3)()
	}))
	h.patch(`{"metadata":{"annotations":{"etcdadm.io/adoption-given-up":"ab"}}}`)
	must(t, h.settle(r, "it is given up", gone))
	claims := &corev1.PersistentVolumeClaimList{}
	must(t, h.c.List(t.Context(), claims, client.InNamespace(ns)))
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp != nil {
			t.Errorf("volume %s goes", claims.Items[i].Name)
		}
	}
	if len(claims.Items) != 3 {
		t.Errorf("%d volumes are there", len(claims.Items))
	}
}

// opensPeers says whether the policy has the peers' port open to all.
func (h *hand) opensPeers(want bool) error {
	p := &networkingv1.NetworkPolicy{}
	if err := h.c.Get(h.t.Context(), h.key(h.name), p); err != nil {
		return err
	}
	if is := slices.ContainsFunc(p.Spec.Ingress[0].Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == shape.PortPeer }); is != want {
		return fmt.Errorf("the peers' port is open: %t", is)
	}
	return nil
}

// Operators that are killed after each of their writes, and spec.bootstrap taken away as soon as the adoption is written down: the
// cluster has the authorities of the one that it is to adopt, and no spec, so that nothing is founded.
func TestKilledWhileItAdopts(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	files, err := authority.Create(time.Now())
	must(t, err)
	must(t, h.c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old-ca"}, Data: map[string][]byte{"ca.crt": files["etcd-peers-ca.crt"], "ca.key": files["etcd-peers-ca.key"]}}))
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", plain+`, backup: {store: "s3://b/`+ns+`"}, bootstrap: {adopt: {secret: {name: old-ca}}}`))))
	killed, lives, taken := 0, 1, false // with one write each no host comes by more than its number
	for {
		r, _ := operator(h.c, lives, nil)
		err := h.settle(r, "the hosts run", func() error {
			if n := len(h.runs()); n != 3 {
				return fmt.Errorf("%d hosts run", n)
			}
			return h.waits("Adopting", "no host has joined")()
		})
		m := &corev1.ConfigMap{}
		must(t, client.IgnoreNotFound(h.c.Get(t.Context(), h.key("main-control"), m)))
		spec, readErr := record.Of(m, nil).Folder("").ReadSpec(t.Context())
		if readErr != nil || spec.Spec != nil {
			t.Fatalf("after %d operators there is a spec: %+v, %v", killed, spec.Spec, readErr)
		}
		_, written := m.Annotations[shape.AnnotationAdopt]
		if in, _, _, err := record.Of(m, nil).Folder("").ReadIntent(t.Context()); err != nil || in.Adopted() != written {
			t.Fatalf("after %d operators it is written down: %t, and the marker is %+v, %v", killed, written, in, err)
		}
		if written && !taken {
			taken, lives = true, 2
			h.patch(`{"spec":{"bootstrap":null}}`)
		}
		if err == nil {
			break
		}
		if killed++; !errors.Is(err, errKilled) || killed > 100 {
			t.Fatal(err)
		}
	}
	made := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-authorities"), made))
	for _, name := range []string{"etcd-peers-ca", "etcd-clients-ca"} {
		if string(made.Data[name+".crt"]) != string(files["etcd-peers-ca.crt"]) || string(made.Data[name+".key"]) != string(files["etcd-peers-ca.key"]) {
			t.Errorf("%s is not that of the cluster that is to be adopted", name)
		}
	}
	if string(made.Data["etcd-manager-ca.key"]) == string(files["etcd-peers-ca.key"]) || !taken || killed < 10 {
		t.Errorf("bootstrap was taken away: %t, %d operators were killed", taken, killed)
	}
}
