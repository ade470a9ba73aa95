package reconcile

import (
	"encoding/json"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is decided by is there in a cache of lean objects, and most of the rest is not.
func TestLean(t *testing.T) {
	c := shape.Cluster{Namespace: "n", Name: "main", UID: "12345678", Image: "i", Spec: v1alpha1.ClusterSpec{
		Storage: &v1alpha1.Storage{Size: resource.MustParse("1Gi")}, Backup: &v1alpha1.BackupPolicy{Store: "s3://b/x"}, Releases: []v1alpha1.Release{{Version: "3.4.45", Image: "x"}},
	}}
	set, err := c.Set(1)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}, Spec: *set.Spec.Template.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.Spec.NodeName = "node"
	store := shape.Store(&set.Spec.Template)
	for _, o := range []any{set, pod} {
		before, _ := json.Marshal(o)
		if _, err := lean(o); err != nil {
			t.Fatal(err)
		}
		if after, _ := json.Marshal(o); len(after) > len(before)/2 {
			t.Errorf("%d bytes are left of %d:\n%s", len(after), len(before), after)
		}
	}
	version, err := cluster.ParseVersion("3.4.45")
	if err != nil || store == "" || shape.Store(&set.Spec.Template) != store || *set.Spec.Replicas != 1 || set.Spec.Template.Annotations[shape.AnnotationTemplate] == "" {
		t.Errorf("%v, %+v", err, set)
	}
	if !shape.Mounts(&pod.Spec, version) || pod.Spec.NodeName != "node" || pod.Status.Phase != corev1.PodRunning || pod.ManagedFields != nil {
		t.Errorf("%+v", pod)
	}
}
