package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
	pod.Labels = map[string]string{}
	for key, value := range set.Labels { // as each object that comes has its own copies
		pod.Labels[strings.Clone(key)] = strings.Clone(value)
	}
	for i, word := range pod.Spec.Containers[0].Command {
		pod.Spec.Containers[0].Command[i] = strings.Clone(word)
	}
	store, labels, kept := shape.Store(&set.Spec.Template), maps.Clone(set.Labels), &words{}
	for _, o := range []any{set, pod} {
		before, _ := json.Marshal(o)
		if _, err := kept.lean(o); err != nil {
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
	if !maps.Equal(set.Labels, labels) || !maps.Equal(pod.Labels, labels) {
		t.Errorf("the labels are %v and %v, not %v", set.Labels, pod.Labels, labels)
	}
	one := func(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }
	if ours, its := set.Spec.Template.Spec.Containers[0].Command, pod.Spec.Containers[0].Command; !slices.EqualFunc(ours, its, one) || !one(set.Labels[shape.LabelCluster], pod.Labels[shape.LabelCluster]) {
		t.Errorf("two objects have words of their own: %v, %v", ours, its)
	}
	secret, bare := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	secret.Labels, secret.Annotations, secret.OwnerReferences = maps.Clone(labels), map[string]string{"k": "v"}, []metav1.OwnerReference{{Kind: "K", Name: "main", UID: "u"}}
	for _, o := range []*metav1.PartialObjectMetadata{secret, bare} {
		before := o.DeepCopy()
		if _, err := kept.lean(o); err != nil || !equality.Semantic.DeepEqual(before, o) || (before.Labels == nil) != (o.Labels == nil) {
			t.Errorf("%+v became %+v (%v)", before, o, err)
		}
	}
	for i := range mostWords {
		kept.one(strconv.Itoa(i))
	}
	kept.one(strings.Repeat("x", longestWord+1))
	if len(kept.once) > mostWords || slices.ContainsFunc(slices.Collect(maps.Keys(kept.once)), func(word string) bool { return len(word) > longestWord }) {
		t.Errorf("%d words are kept", len(kept.once))
	}
}

// A loop is woken by each change of what it reads, and by no other one of the record.
func TestNewsWakes(t *testing.T) {
	of := func(key, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{key: value}}
	}
	if !news.Update(event.UpdateEvent{ObjectOld: of("k", "1"), ObjectNew: of("k", "2")}) {
		t.Error("a changed record wakes no loop")
	}
	if news.Update(event.UpdateEvent{ObjectOld: of("k", "1"), ObjectNew: of("k", "1")}) {
		t.Error("a record that is as it was wakes a loop")
	}
	if !news.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: &corev1.Pod{}}) {
		t.Error("a pod wakes no loop")
	}
}

// nothing has no objects, and notes what is listed.
type nothing struct {
	client.Client
	listed []string
}

func (n *nothing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (n *nothing) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	n.listed = append(n.listed, fmt.Sprintf("%T", l))
	return nil
}

// Before a new host is made, the numbers are read past the cache, and nothing else; before something is taken away, all is.
func TestListedPastTheCache(t *testing.T) {
	for kind, want := range map[decide.Kind]int{decide.MakeHost: 3, decide.StopHost: 11} {
		live := &nothing{}
		r := &Reconciler{Live: live, Cached: &nothing{}}
		if err := r.carryOut(t.Context(), &sight{cluster: &v1alpha1.EtcdCluster{}}, &decide.Decision{Steps: []decide.Step{{Kind: kind, N: 1}}}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(live.listed); len(live.listed) != want {
			t.Errorf("%s: %v", kind, live.listed)
		}
	}
}
