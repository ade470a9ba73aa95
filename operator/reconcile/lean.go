package reconcile

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the cache keeps of an object, which is most of the operator's memory where clusters are thousands.

// words are the strings that many objects have: each object comes with copies of its own, and the cache keeps one of each.
type words struct {
	mu   sync.Mutex // guards what follows
	once map[string]string
}

const (
	// mostWords bounds them, since those of clusters that are gone stay. Then they begin anew.
	mostWords = 1 << 17
	// longestWord is the most bytes of a string that others are likely to have, too.
	longestWord = 256
)

// lean drops of an object what is read past the cache or not at all, and has it share its strings with others: pods and their
// templates are most of what thousands of clusters have.
func (w *words) lean(o any) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m, is := o.(client.Object); is {
		m.SetManagedFields(nil)
		m.SetNamespace(w.one(m.GetNamespace()))
		m.SetLabels(w.keys(m.GetLabels(), w.one))
		m.SetAnnotations(w.keys(m.GetAnnotations(), func(value string) string { return value }))
		owners := m.GetOwnerReferences()
		for i, r := range owners {
			owners[i].APIVersion, owners[i].Kind, owners[i].Name, owners[i].UID = w.one(r.APIVersion), w.one(r.Kind), w.one(r.Name), types.UID(w.one(string(r.UID)))
		}
		m.SetOwnerReferences(owners)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		s := &o.Status
		o.Spec = corev1.PodSpec{NodeName: w.one(o.Spec.NodeName), Containers: w.containers(o.Spec.Containers)}
		o.Status = corev1.PodStatus{Phase: s.Phase, Conditions: s.Conditions, InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses}
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec = corev1.PodSpec{Containers: w.containers(o.Spec.Template.Spec.Containers)}
	}
	return o, nil
}

func (w *words) containers(all []corev1.Container) (kept []corev1.Container) {
	for _, c := range all {
		kept = append(kept, corev1.Container{Name: w.one(c.Name), Command: w.all(c.Command), Args: w.all(c.Args), VolumeMounts: c.VolumeMounts})
		for i, m := range c.VolumeMounts {
			c.VolumeMounts[i].Name, c.VolumeMounts[i].MountPath = w.one(m.Name), w.one(m.MountPath)
		}
	}
	return kept
}

// one is the copy of a word that is kept.
func (w *words) one(word string) string {
	if len(word) > longestWord {
		return word
	}
	if kept, is := w.once[word]; is {
		return kept
	}
	if w.once == nil || len(w.once) >= mostWords {
		w.once = map[string]string{}
	}
	w.once[word] = word
	return word
}

func (w *words) all(some []string) []string {
	for i, word := range some {
		some[i] = w.one(word)
	}
	return some
}

// keys is a map whose keys are those that are kept.
func (w *words) keys(of map[string]string, value func(string) string) map[string]string {
	if of == nil {
		return nil
	}
	out := make(map[string]string, len(of))
	for key, was := range of {
		out[w.one(key)] = value(was)
	}
	return out
}
