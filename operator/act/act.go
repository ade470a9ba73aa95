// Package act is the one writer: it carries out what was decided for one cluster.
//
// What must always hold:
//
//   - What takes something away names the UID and the resourceVersion of the object that the decision was made by.
//   - What carries out a step again finds it done, and writes nothing.
//   - An object of somebody else under a name of ours is never changed: [TakenError].
//   - A number of a host is written down as used before anything has it.
package act

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes the objects of clusters.
type Writer struct {
	Client client.Client // for writes
	Live   client.Reader // past the cache
}

// TakenError says that a name of the cluster belongs to an object of somebody else.
type TakenError struct{ Kind, Name string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s %s is somebody else's", e.Kind, e.Name)
}

// Ensure makes an object what its shape says, and writes nothing where it is. had is the object as the cache has it; nil: it
// has none.
//
// Errors: TakenError; the API server's.
func (w *Writer) Ensure(ctx context.Context, c shape.Cluster, want, had client.Object) error {
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return fmt.Errorf("shape %s: %w", want.GetName(), err)
	}
	delete(plain, "status")
	u := &unstructured.Unstructured{Object: plain}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	text, err := json.Marshal(plain)
	if err != nil {
		return fmt.Errorf("shape %s: %w", want.GetName(), err)
	}
	sum := sha256.Sum256(text)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[shape.AnnotationShape] = hex.EncodeToString(sum[:8])
	u.SetAnnotations(annotations)
	if had == nil {
		if err := w.free(ctx, c, u); err != nil {
			return err
		}
	} else if same(u.Object, had) {
		return nil
	}
	err = w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(shape.Manager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// free makes sure that nobody else has the name of an object that the cache does not know.
func (w *Writer) free(ctx context.Context, c shape.Cluster, o client.Object) error {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	err := w.Live.Get(ctx, client.ObjectKeyFromObject(o), there)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s %s: %w", there.Kind, o.GetName(), err)
	case there.Labels[shape.LabelUID] != c.UID:
		return &TakenError{there.Kind, o.GetName()}
	}
	return nil
}

// Create makes an object once. One that is there and ours is left as it is.
//
// Errors: TakenError; the API server's.
func (w *Writer) Create(ctx context.Context, c shape.Cluster, o client.Object) error {
	kind := o.GetObjectKind().GroupVersionKind()
	err := w.Client.Create(ctx, o, client.FieldOwner(shape.Manager))
	o.GetObjectKind().SetGroupVersionKind(kind)
	if apierrors.IsAlreadyExists(err) {
		return w.free(ctx, c, o)
	}
	if err != nil {
		return fmt.Errorf("make %s %s: %w", kind.Kind, o.GetName(), err)
	}
	return nil
}

// ErrNoImages says that the API server drops volumes that are images: this Kubernetes mounts none. Its version does not say
// it, since they can be switched on before 1.35.
var ErrNoImages = errors.New("this Kubernetes mounts no images")

// TrySet finds out whether a set could be made with the images that it mounts. What else the API server has against it, it says
// when the set is made.
//
// Errors: ErrNoImages.
func (w *Writer) TrySet(ctx context.Context, set *appsv1.StatefulSet) error {
	if !mountsImages(&set.Spec.Template) {
		return nil
	}
	set = set.DeepCopy()
	if err := withImages(&set.Spec.Template, func() error { return w.Client.Create(ctx, set, client.DryRunAll, client.FieldOwner(shape.Manager)) }); errors.Is(err, ErrNoImages) {
		return err
	}
	return nil
}

func isImage(v corev1.Volume) bool { return v.Image != nil }

func mountsImages(t *corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(t.Spec.Volumes, isImage)
}

// withImages writes a template, which becomes the API server's answer, and compares the images in it. One that does not know
// them drops them, and refuses the volumes without a source that are left, or makes them empty ones.
func withImages(t *corev1.PodTemplateSpec, write func() error) error {
	sent := slices.Clone(t.Spec.Volumes)
	err := write()
	var refused apierrors.APIStatus
	if errors.As(err, &refused) && refused.Status().Details != nil {
		for _, c := range refused.Status().Details.Causes {
			for i, v := range sent {
				if isImage(v) && c.Type == metav1.CauseTypeFieldValueRequired && c.Field == fmt.Sprintf("spec.template.spec.volumes[%d]", i) {
					return ErrNoImages
				}
			}
		}
	}
	if err == nil && slices.ContainsFunc(sent, isImage) && !mountsImages(t) {
		return ErrNoImages
	}
	return err
}

// Delete deletes the very object that was seen. One that is gone is no error.
func (w *Writer) Delete(ctx context.Context, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := w.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}

// Protect puts the finalizer on the very object that was seen.
func (w *Writer) Protect(ctx context.Context, o client.Object) error {
	o = o.DeepCopyObject().(client.Object)
	shape.Protect(o)
	return w.patch(ctx, o, object{"metadata": object{"finalizers": o.GetFinalizers()}})
}

// Unprotect takes the finalizer from the very object that was seen.
func (w *Writer) Unprotect(ctx context.Context, o client.Object) error {
	var left []string
	for _, f := range o.GetFinalizers() {
		if f != shape.Finalizer {
			left = append(left, f)
		}
	}
	if len(left) == len(o.GetFinalizers()) {
		return nil
	}
	return client.IgnoreNotFound(w.patch(ctx, o, object{"metadata": object{"finalizers": left}}))
}

// Mark sets labels and annotations of the very object that was seen; nil takes one away.
func (w *Writer) Mark(ctx context.Context, o client.Object, labels, annotations map[string]*string) error {
	meta := object{}
	if labels != nil { // a null would take all of them away
		meta["labels"] = labels
	}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	return w.patch(ctx, o, object{"metadata": meta})
}

// Scale has the pod of a host, or not. spent is when its daemon said that nothing but a removed member's data lies there;
// empty: it did not, whatever was said before.
func (w *Writer) Scale(ctx context.Context, set *appsv1.StatefulSet, replicas int32, spent string) error {
	said := &spent
	if spent == "" {
		said = nil
	}
	return w.patch(ctx, set, object{"spec": object{"replicas": replicas}, "metadata": object{"annotations": object{shape.AnnotationSpent: said}}})
}

// Roll gives the very set that was seen another template, and deletes the very pod that was made by a former one; nil:
// there is none. With evict its budget of disruptions has to let it go, which counts those that are drained in the same
// moment. Nothing is deleted after until: what was seen is too old then.
func (w *Writer) Roll(ctx context.Context, set *appsv1.StatefulSet, template corev1.PodTemplateSpec, pod *corev1.Pod, evict bool, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if mountsImages(&template) {
		if err := w.retemplate(ctx, set, template, client.DryRunAll); err != nil {
			return err
		}
	}
	if err := w.retemplate(ctx, set, template); err != nil {
		return err
	}
	if pod == nil {
		return nil
	}
	if now := time.Now().Round(0); now.After(until.Round(0)) {
		return fmt.Errorf("delete pod %s: %w", pod.Name, context.DeadlineExceeded)
	}
	if evict {
		return w.evict(ctx, pod)
	}
	return w.Delete(ctx, pod)
}

func (w *Writer) evict(ctx context.Context, pod *corev1.Pod, dry ...string) error {
	uid, version := pod.UID, pod.ResourceVersion
	e := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: dry, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}},
	}
	err := w.Client.SubResource("eviction").Create(ctx, pod, e, &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dry}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evict pod %s: %w", pod.Name, err)
	}
	return nil
}

// TryRoll says what the API server would say to Roll of a host that stands. Nothing is done.
func (w *Writer) TryRoll(ctx context.Context, set *appsv1.StatefulSet, template corev1.PodTemplateSpec, pod *corev1.Pod) error {
	if err := w.retemplate(ctx, set, template, client.DryRunAll); err != nil || pod == nil {
		return err
	}
	return w.evict(ctx, pod, metav1.DryRunAll)
}

// retemplate gives the very set that was seen another template.
func (w *Writer) retemplate(ctx context.Context, set *appsv1.StatefulSet, template corev1.PodTemplateSpec, opts ...client.PatchOption) error {
	data, err := json.Marshal([]object{
		{"op": "replace", "path": "/metadata/uid", "value": set.UID},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": set.ResourceVersion},
		{"op": "replace", "path": "/spec/template", "value": template},
	})
	if err != nil {
		return err
	}
	set = set.DeepCopy()
	set.Spec.Template = template
	err = withImages(&set.Spec.Template, func() error {
		return w.Client.Patch(ctx, set, client.RawPatch(types.JSONPatchType, data), append(opts, client.FieldOwner(shape.Manager))...)
	})
	if err != nil {
		return fmt.Errorf("change the template of %s: %w", set.Name, err)
	}
	return nil
}

type object = map[string]any

// patch changes the very object that was seen, as a merge.
func (w *Writer) patch(ctx context.Context, o client.Object, change object) error {
	meta, _ := change["metadata"].(object)
	if meta == nil {
		meta = object{}
		change["metadata"] = meta
	}
	meta["uid"], meta["resourceVersion"] = o.GetUID(), o.GetResourceVersion()
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if err := w.Client.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", data), client.FieldOwner(shape.Manager)); err != nil {
		return fmt.Errorf("change %s: %w", o.GetName(), err)
	}
	return nil
}

// Update writes an object back on the resourceVersion that it was read at.
func (w *Writer) Update(ctx context.Context, o client.Object) error {
	if err := w.Client.Update(ctx, o, client.FieldOwner(shape.Manager)); err != nil {
		return fmt.Errorf("write %s: %w", o.GetName(), err)
	}
	return nil
}

// Allot writes down that a host's number is used. It comes before anything has that number; two who do so at once have one
// that is refused.
func (w *Writer) Allot(ctx context.Context, control *corev1.ConfigMap, n int) error {
	if next, err := strconv.Atoi(control.Annotations[shape.AnnotationNext]); err == nil && next > n {
		return nil
	}
	control.Annotations[shape.AnnotationNext] = strconv.Itoa(n + 1)
	return w.Update(ctx, control)
}

// same says whether an object, as the cache has it, is what is wanted.
func same(want object, had client.Object) bool {
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(had)
	want = maps.Clone(want)
	delete(want, "kind") // the cache does not fill these two in
	delete(want, "apiVersion")
	return err == nil && holds(is, want)
}

// holds says whether all that is wanted is there, whatever else is: defaults of the API server, and what others add.
func holds(is, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return len(want) == 0 && is == nil
		}
		for key, value := range want {
			if there, ok := is[key]; !ok && !empty(value) || ok && !holds(there, value) {
				return false
			}
		}
		return true
	case []any:
		is, ok := is.([]any)
		if !ok || len(is) != len(want) {
			return len(want) == 0 && !ok
		}
		for i := range want {
			if !holds(is[i], want[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(is, want) || fmt.Sprint(is) == fmt.Sprint(want)
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
