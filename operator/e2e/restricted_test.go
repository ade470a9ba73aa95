package e2e

import (
	"bytes"
	"os"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// manifest reads one of the operator's own objects.
func manifest(t *testing.T, kind string, into any) {
	t.Helper()
	data, err := os.ReadFile("../config/operator/deployment.yaml")
	must(t, err)
	for _, doc := range bytes.Split(data, []byte("---\n")) {
		var of metav1.TypeMeta
		must(t, yaml.Unmarshal(doc, &of))
		if of.Kind == kind {
			must(t, yaml.UnmarshalStrict(doc, into))
			return
		}
	}
	t.Fatalf("there is no %s", kind)
}

// The API server admits the pods of operator and hosts under the Pod Security Standard that the operator's namespace asks for.
func TestRestricted(t *testing.T) {
	c, ns := server(t)
	namespace, deployment := &corev1.Namespace{}, &appsv1.Deployment{}
	manifest(t, "Namespace", namespace)
	manifest(t, "Deployment", deployment)
	const label = "pod-security.kubernetes.io/enforce"
	if namespace.Labels[label] != "restricted" {
		t.Fatalf("the operator's namespace asks for %q", namespace.Labels[label])
	}
	must(t, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+label+`":"restricted"}}}`))))
	ec := &v1alpha1.EtcdCluster{}
	must(t, yaml.UnmarshalStrict([]byte(etcdCluster("main", plain)), ec))
	ec.Spec.Backup = &v1alpha1.BackupPolicy{Store: "s3://b/x"}
	of := shape.Cluster{Namespace: ns, Name: "main", UID: "12345678", Spec: ec.Spec, Image: "localhost/etcdadm:1"}
	set, err := of.Set(1)
	must(t, err)
	job, err := of.CopyJob(shape.Copy{Job: "copy-1", Backup: "x", Claims: []string{"a", "b"}})
	must(t, err)
	must(t, c.Create(t.Context(), job))
	for name, spec := range map[string]corev1.PodSpec{"operator": deployment.Spec.Template.Spec, "host": set.Spec.Template.Spec, "copy": job.Spec.Template.Spec} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec}
		if err := c.Create(t.Context(), pod); err != nil {
			t.Errorf("the pod of the %s: %v", name, err)
		}
		worse := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-worse"}, Spec: *spec.DeepCopy()}
		worse.Spec.Containers[0].SecurityContext = nil
		if err := c.Create(t.Context(), worse); !apierrors.IsForbidden(err) {
			t.Errorf("a pod that is not restricted is not refused: %v", err)
		}
	}
}
