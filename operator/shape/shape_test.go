package shape

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func small() Cluster {
	return Cluster{Namespace: "team", Name: "main", UID: "6f9619ff-8b86-d011-b42d-00cf4fc964ff", Image: "registry.example/etcdadm:1.0.0",
		Spec: v1alpha1.ClusterSpec{Size: 3, Version: "3.7.3", Storage: &v1alpha1.Storage{Size: resource.MustParse("8Gi")}}}
}

func large() Cluster {
	c := small()
	no := false
	c.Spec.Storage = &v1alpha1.Storage{Size: resource.MustParse("80Gi"), Class: "fast", AccessMode: "ReadWriteOncePod"}
	c.Spec.Spread = v1alpha1.SpreadPreferred
	c.Spec.Releases = []v1alpha1.Release{{Version: "3.4.45", Image: "example/etcd:3.4.45"}}
	c.Spec.Network = &v1alpha1.Network{Policy: &no, Service: &v1alpha1.ClientService{Type: "LoadBalancer", Annotations: map[string]string{"lb": "internal"}}}
	c.Spec.Backup = &v1alpha1.BackupPolicy{Store: "s3://b/main", Credentials: &v1alpha1.SecretName{Name: "s3"}, Interval: "5m", DrillInterval: "1d", KeepLast: 10, Recipients: []v1alpha1.Recipient{"age1x"}}
	c.Spec.Pod = &runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"note":"x"},"labels":{"team":"a","etcdadm.io/cluster":"other"}},"spec":{"priorityClassName":"high","containers":[{"name":"etcdadm","resources":{"limits":{"memory":"1Gi"}}}]}}`)}
	return c
}

// The golden files are what is made of an EtcdCluster; go test ./shape -rewrite writes them.
func TestGolden(t *testing.T) {
	for name, c := range map[string]Cluster{"small": small(), "large": large()} {
		var all []client.Object
		for _, m := range c.Records() {
			all = append(all, m)
		}
		set, err := c.Set(1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, c.Shared()...), c.Budget(2), c.Bundle(map[string]string{"ca.crt": "x"}), c.Claim(1), c.Leaves(1, nil), set)
		var b strings.Builder
		for _, o := range all {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("---\n" + string(text))
		}
		file := filepath.Join("testdata", name+".yaml")
		if *rewrite {
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != b.String() {
			t.Errorf("%s differs (%v); -rewrite, and read the difference", file, err)
		}
	}
}

// What finds a pod, keeps it alive and locks it down is not a person's to change by spec.pod.
func TestPodOfAPerson(t *testing.T) {
	set, err := large().Set(2)
	if err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template
	if pod.Labels[LabelCluster] != "main" || pod.Labels["team"] != "a" || pod.Annotations["note"] != "x" {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
	if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" || pod.Spec.Containers[0].LivenessProbe == nil {
		t.Errorf("%+v", pod.Spec.Containers)
	}
	c := small()
	c.Spec.Pod = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":"none"}}`)}
	if _, err := c.Set(1); err == nil || !strings.Contains(err.Error(), "spec.pod") {
		t.Errorf("a template that is none: %v", err)
	}
}

// Each pod fits into a namespace that enforces the restricted standard, whose rules these are.
func TestRestricted(t *testing.T) {
	set, err := small().Set(1)
	if err != nil {
		t.Fatal(err)
	}
	spec := set.Spec.Template.Spec
	if s := spec.SecurityContext; !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *s.RunAsUser == 0 || spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Errorf("%+v", s)
	}
	for _, container := range spec.Containers {
		s := container.SecurityContext
		if *s.AllowPrivilegeEscalation || s.Privileged != nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: %+v", container.Name, s)
		}
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil || v.Secret != nil && v.Secret.SecretName == small().AuthoritiesName() {
			t.Errorf("volume %s", v.Name)
		}
	}
}

// The data of others that a Job reads stays theirs: no kubelet gives it to a group, and nothing is written there. Who reads it is
// in the group nonetheless. What Kubernetes itself lays into volumes is given to the group, which could not read it else.
func TestCopyOfClaims(t *testing.T) {
	job, err := large().CopyJob(Copy{Job: "copy-1", Backup: "x", Claims: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	if s := pod.SecurityContext; s.FSGroup != nil || s.FSGroupChangePolicy != nil || !slices.Contains(s.SupplementalGroups, user) || *s.RunAsUser != user {
		t.Errorf("%+v", s)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if strings.HasPrefix(m.MountPath, claimsDir) && !m.ReadOnly {
			t.Errorf("%+v", m)
		}
	}
	job, err = large().CopyJob(Copy{Job: "copy-1", Backup: "x", From: &v1alpha1.OtherStore{Store: "s3://b/other", Credentials: v1alpha1.SecretName{Name: "s3"}}})
	if err != nil || job.Spec.Template.Spec.SecurityContext.FSGroup == nil {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestNames(t *testing.T) {
	c := small()
	if got := c.ClusterName(); got != "team.main.6f9619ff" {
		t.Error(got)
	}
	for name, want := range map[string]int{"main-1": 1, "main-12": 12, "main-0": 0, "main-01": 0, "main--1": 0, "main-1x": 0, "other-1": 0, "main": 0} {
		if n, ok := c.Number(name); ok != (want > 0) || ok && n != want {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
	if c.Budget(0) != nil {
		t.Error("there is a budget of nothing")
	}
}

// Labels that a person takes away altogether are those of the host nonetheless.
func TestPodWithoutLabels(t *testing.T) {
	for _, over := range []string{`{"metadata":{"$patch":"replace"}}`, `{"metadata":{"labels":null}}`} {
		c := small()
		c.Spec.Pod = &runtime.RawExtension{Raw: []byte(over)}
		set, err := c.Set(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Spec.Template.Labels[LabelHost]; got != "main-1" {
			t.Errorf("%s: the host is %q", over, got)
		}
	}
}

// What would lose data is refused: no claim where the data lie, or no time for etcd to end.
func TestPodWithoutData(t *testing.T) {
	for over, refused := range map[string]bool{
		`{"spec":{"volumes":[{"$patch":"replace"},{"name":"data","emptyDir":{}}]}}`:                                 true,
		`{"spec":{"volumes":[{"name":"data","$patch":"delete"}]}}`:                                                  true,
		`{"spec":{"containers":[{"name":"etcdadm","volumeMounts":[{"mountPath":"/var/lib/etcdadm","name":"x"}]}]}}`: true,
		`{"spec":{"containers":[{"name":"other","$patch":"replace"}]}}`:                                             true,
		`{"spec":{"terminationGracePeriodSeconds":0}}`:                                                              true,
		`{"spec":{"terminationGracePeriodSeconds":600}}`:                                                            false,
		`{"spec":{"volumes":[{"name":"x","emptyDir":{}}]}}`:                                                         false,
	} {
		c := small()
		c.Spec.Pod = &runtime.RawExtension{Raw: []byte(over)}
		if _, err := c.Set(1); errors.Is(err, ErrTemplate) != refused {
			t.Errorf("%s: %v", over, err)
		}
	}
}

// The order of releases and of recipients replaces no pod.
func TestOrder(t *testing.T) {
	digest := func(swap bool) string {
		c := large()
		c.Spec.Releases = append(c.Spec.Releases, v1alpha1.Release{Version: "3.5.9", Image: "example/etcd:3.5.9"})
		c.Spec.Backup.Recipients = append(c.Spec.Backup.Recipients, "age1a")
		if swap {
			slices.Reverse(c.Spec.Releases)
			slices.Reverse(c.Spec.Backup.Recipients)
		}
		set, err := c.Set(1)
		if err != nil {
			t.Fatal(err)
		}
		return set.Spec.Template.Annotations[AnnotationTemplate]
	}
	if digest(false) != digest(true) {
		t.Error("another order is another template")
	}
}
