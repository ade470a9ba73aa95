package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/teststore"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copied makes the objects of a namespace once more in another one, as a tool for backups does: with all that is in them, under
// other UIDs.
func copied(t *testing.T, c client.Client, from, to string) {
	t.Helper()
	for _, l := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}, &appsv1.StatefulSetList{}, &v1alpha1.EtcdClusterList{},
	} {
		must(t, c.List(t.Context(), l, client.InNamespace(from)))
		must(t, meta.EachListItem(l, func(item runtime.Object) error {
			o := item.DeepCopyObject().(client.Object)
			if name := o.GetName(); name == "default" || name == "kube-root-ca.crt" { // which each namespace has
				return nil
			}
			o.SetNamespace(to)
			o.SetUID("")
			o.SetResourceVersion("")
			o.SetManagedFields(nil)
			o.SetCreationTimestamp(metav1.Time{})
			switch o := o.(type) {
			case *corev1.Service:
				if o.Spec.ClusterIP != corev1.ClusterIPNone {
					o.Spec.ClusterIP, o.Spec.ClusterIPs = "", nil
				}
			case *rbacv1.RoleBinding:
				for i := range o.Subjects {
					o.Subjects[i].Namespace = to
				}
			}
			return c.Create(t.Context(), o)
		}))
	}
}

// copies has a claim's volume be a copy of one that is in use: until nothing changed under it.
func (m *machines) copies(host string, from *machines) {
	t := m.h.t
	t.Helper()
	source, err := from.volume(t.Context(), host)
	must(t, err)
	within(t, time.Minute, "a copy of the volume of "+host, func(ctx context.Context) error {
		to, err := m.volume(ctx, host)
		if err != nil {
			return err
		}
		if said, err := exec.CommandContext(ctx, "cp", "-a", source+"/.", to).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
}

// log is what the daemon of a host said.
func (m *machines) log(host string) string {
	data, err := os.ReadFile(filepath.Join(m.dir, host+".log"))
	if !os.IsNotExist(err) { // it has not begun
		must(m.h.t, err)
	}
	return string(data)
}

// listens says whether anybody does at a port of a host.
func (m *machines) listens(host string, port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(m.address(host), fmt.Sprint(port)), time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// A namespace is copied while its cluster serves: objects and volumes, under other UIDs, where the names and the addresses of the
// original are in reach. The copy starts nothing and says why, and the original does not notice. A new cluster begins with the copied
// claims, and another one with a backup of the original.
func TestCopiedNamespace(t *testing.T) {
	_, ns := server(t)
	_, other := server(t)
	far, near := teststore.Start(t, teststore.Versitygw), teststore.Start(t, teststore.Versitygw)
	secret := func(ns, name string, of *teststore.Server) {
		must(t, kube.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, StringData: variables(of, teststore.SecretKey)}))
	}
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	const three = "size: 3, version: 3.7.3, storage: {size: 8Gi}"
	secret(ns, "far", far)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", three+", backup: {store: \"s3://"+teststore.Bucket+"/main\", credentials: {name: far}}"))))
	h.generation(1)
	m.put("k", "v")
	backup := h.backed("before")
	serves := h.and(h.ready(3, 3), func() error {
		if len(m.pods) < 3 {
			return fmt.Errorf("%d daemons run", len(m.pods))
		}
		return nil
	})

	m.put("k", "later")

	copied(t, h.c, ns, other)
	n := &hand{t: t, c: h.c, ns: other, name: "main", silent: map[string]bool{}}
	nm := withDaemons(n)
	nm.beside = m
	hosts := []string{"main-1", "main-2", "main-3"}
	for _, host := range hosts {
		nm.copies(host, m)
	}
	_, leads = manager(t, kube.config, other, "two")
	<-leads
	n.settled(time.Minute, "the copy says that it is one", func() error {
		for _, host := range hosts {
			if !strings.Contains(nm.log(host), "the daemon does not start in a copy of that namespace") {
				return fmt.Errorf("%s has not said so", host)
			}
		}
		c := n.condition(v1alpha1.Ready)
		if c.Reason != "RecordCopied" {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return nil
	})
	for until := time.Now().Add(15 * time.Second); time.Now().Before(until); time.Sleep(time.Second) { // nothing happens that could be waited for
		for _, host := range hosts {
			if nm.listens(host, shape.PortClient) || nm.listens(host, shape.PortPeer) {
				t.Fatalf("the copy of %s runs a member", host)
			}
			if strings.Contains(m.log(host), nm.prefix) {
				t.Fatalf("%s heard of the copy", host)
			}
		}
	}
	h.settled(time.Minute, "the original serves", serves)
	h.generation(1)
	m.has("k", "later")

	for _, host := range hosts {
		must(t, n.c.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: host}}))
	}
	n.settled(time.Minute, "no pod of the copy is left", func() error {
		if len(nm.pods) > 0 {
			return fmt.Errorf("%d run", len(nm.pods))
		}
		return nil
	})
	secret(other, "near", near)
	for name, begin := range map[string]string{
		"claims":  "claims: [main-1, main-2, main-3]",
		"restore": fmt.Sprintf("restore: {backup: %s, from: {store: \"s3://%s/main\", credentials: {name: far}}}", backup, teststore.Bucket),
	} {
		way := &hand{t: t, c: h.c, ns: other, name: name, silent: map[string]bool{}}
		wm := withDaemons(way)
		wm.dir = nm.dir
		must(t, way.c.Create(t.Context(), object(t, other, etcdCluster(name, fmt.Sprintf("%s, backup: {store: \"s3://%s/%s\", credentials: {name: near}}, bootstrap: {%s}", three, teststore.Bucket, name, begin)))))
		way.generation(1)
		wm.has("k", map[string]string{"claims": "later", "restore": "v"}[name])
		if is := way.see().Status; is.ClusterID == h.see().Status.ClusterID {
			t.Errorf("%s: it is the original's cluster, %s", name, is.ClusterID)
		}
		for host := range wm.pods {
			wm.kill(host)
		}
	}
	if said := n.condition(v1alpha1.Ready); said.Reason != "RecordCopied" || said.Status != metav1.ConditionFalse {
		t.Errorf("%+v", said)
	}
	h.settled(time.Minute, "the original serves", serves)
}
