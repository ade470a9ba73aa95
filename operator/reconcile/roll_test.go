package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What a kubelet says of a container that does not run, and for how long it says so, is told as it is.
func TestTellPod(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	waits := func(reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: shape.ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
	runs := []corev1.ContainerStatus{{Name: shape.ContainerName, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Hour))}}}}
	for name, test := range map[string]struct {
		age   time.Duration
		of    []corev1.ContainerStatus
		stuck string
		runs  bool
	}{
		"it starts":                        {time.Minute, waits("ContainerCreating"), "", false},
		"nobody says anything yet":         {time.Minute, nil, "", false},
		"its volume does not come":         {3 * time.Minute, waits("ContainerCreating"), "NotStarted", false},
		"its node died before it said":     {3 * time.Minute, nil, "NotStarted", false},
		"there is no image":                {time.Second, waits("ErrImagePull"), "ErrImagePull", false},
		"it runs":                          {time.Hour, runs, "", true},
		"a container of a person's, alone": {3 * time.Minute, []corev1.ContainerStatus{{Name: "other", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}, "ErrImagePull", false},
	} {
		o, h := &hostObjects{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-test.age))}, Status: corev1.PodStatus{ContainerStatuses: test.of}}}, decide.Host{}
		if o.tellPod(&h, now); h.Stuck != test.stuck || h.Serves != test.runs || h.Runs.IsZero() == test.runs {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// A machine that is off says nothing of its containers any more, and Kubernetes says so of its pods: that is told, and what was said
// of the container stays.
func TestTellPodOfAMachineThatIsOff(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	since := now.Add(-time.Minute)
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: shape.ContainerName, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	for _, is := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(since)}}
		o, h := &hostObjects{pod: pod}, decide.Host{}
		if o.tellPod(&h, now); !h.Serves || h.Ready != (is == corev1.ConditionTrue) || !h.ReadySince.Equal(since) {
			t.Errorf("%s: %+v", is, h)
		}
	}
}

// Why a pod has no machine is said in the scheduler's words, and which volume its claim waits for.
func TestTellScheduling(t *testing.T) {
	now, fast := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), "fast"
	unscheduled := func(message string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}}}
	}
	claim := func(class *string, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "main-1"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class, VolumeName: volume}}
	}
	runs := unscheduled("x")
	runs.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: shape.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}}}
	noImage := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
	noImage.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: shape.ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
	for what, c := range map[string]struct {
		o    hostObjects
		want string
	}{
		"no machine":          {hostObjects{pod: unscheduled("0/3 nodes are available:\n1 Insufficient memory."), claim: claim(&fast, "pv")}, "Unschedulable: 0/3 nodes are available: 1 Insufficient memory"},
		"no volume":           {hostObjects{pod: unscheduled("unbound"), claim: claim(&fast, "")}, "Unschedulable: unbound; claim main-1 waits for a volume of StorageClass fast"},
		"no class":            {hostObjects{pod: unscheduled(""), claim: claim(nil, "")}, "Unschedulable: claim main-1 waits for a volume of the default StorageClass"},
		"no pod yet":          {hostObjects{claim: claim(&fast, "")}, "claim main-1 waits for a volume of StorageClass fast"},
		"no image":            {hostObjects{pod: noImage, claim: claim(&fast, "")}, "ErrImagePull"},
		"it runs":             {hostObjects{pod: runs, claim: claim(&fast, "")}, ""},
		"longer than is read": {hostObjects{pod: unscheduled(strings.Repeat("é", 400))}, "Unschedulable: " + strings.Repeat("é", 299) + "…"},
	} {
		h := decide.Host{}
		c.o.tellPod(&h, now)
		if c.o.tellClaim(&h); h.Why() != c.want {
			t.Errorf("%s: %s", what, h.Why())
		}
	}
}

// Only so many clusters are changed at once, and one that is goes on.
func TestMostRolls(t *testing.T) {
	key := func(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(n)} }
	r := rolls{}
	for n := range mostRolls {
		if r.note(key(n), false) || !r.may(key(n)) {
			t.Fatalf("cluster %d may not", n)
		}
	}
	last := key(mostRolls)
	if !r.note(last, false) || r.may(last) || r.note(key(0), true) || !r.may(key(0)) {
		t.Error("one more may, or one of the first may not any more")
	}
	if r.note(key(0), false); r.note(last, false) || !r.may(last) {
		t.Error("no other one follows")
	}
}

// A pod without its annotation, which a webhook took, is told by the word of the set's controller.
func TestPodWithoutAnnotation(t *testing.T) {
	c := shape.Cluster{Namespace: "team", Name: "main", UID: "u", Image: "i", Spec: v1alpha1.ClusterSpec{Size: 1, Version: "3.7.3", Storage: &v1alpha1.Storage{}}}
	set, err := c.Set(1)
	if err != nil {
		t.Fatal(err)
	}
	set.Generation = 2
	for name, test := range map[string]struct {
		status   appsv1.StatefulSetStatus
		revision string
		old      bool
	}{
		"nobody says":                        {appsv1.StatefulSetStatus{}, "", true},
		"made by the template that there is": {appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: "b"}, "b", false},
		"made by a former one":               {appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: "b"}, "a", true},
		"the word is of a former one":        {appsv1.StatefulSetStatus{ObservedGeneration: 1, UpdateRevision: "a"}, "a", true},
	} {
		set.Status = test.status
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appsv1.StatefulSetRevisionLabel: test.revision}}}
		s := &sight{cluster: &v1alpha1.EtcdCluster{}, shape: c, hosts: map[int]*hostObjects{1: {set: set, pod: pod}}}
		if s.describe(); s.world.Hosts[0].OldPod != test.old || s.world.Hosts[0].OldSet {
			t.Errorf("%s: %+v", name, s.world.Hosts[0])
		}
	}
}
