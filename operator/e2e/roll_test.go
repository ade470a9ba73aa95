package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// made says why not each pod is of one image and has a label.
func (h *hand) made(image, label string) func() error {
	return func() error {
		pods := &corev1.PodList{}
		if err := h.c.List(h.t.Context(), pods, client.InNamespace(h.ns)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if is := p.Spec.Containers[0].Image; is != image || p.Labels["team"] != label {
				return fmt.Errorf("%s is of %s, and has the label %q", p.Name, is, p.Labels["team"])
			}
		}
		return nil
	}
}

func (h *hand) and(all ...func() error) func() error {
	return func() error {
		for _, holds := range all {
			if err := holds(); err != nil {
				return err
			}
		}
		return nil
	}
}

// unpaused says why the operator has a pause open still.
func (h *hand) unpaused() error {
	m := &corev1.ConfigMap{}
	if err := h.c.Get(h.t.Context(), h.key(h.name+"-control"), m); err != nil {
		return err
	}
	if id := m.Annotations[shape.AnnotationPause]; id != "" || len(h.granted) > 0 {
		return fmt.Errorf("pause %q is open, granted are %v", id, h.granted)
	}
	return nil
}

// mounts says why not each pod has a release of its own, or has.
func (h *hand) mounts(release string, wanted bool) func() error {
	return func() error {
		pods := &corev1.PodList{}
		if err := h.c.List(h.t.Context(), pods, client.InNamespace(h.ns)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			v, err := cluster.ParseVersion(release)
			if must(h.t, err); shape.Mounts(&p.Spec, v) != wanted {
				return fmt.Errorf("%s mounts %s, or does not", p.Name, release)
			}
		}
		return nil
	}
}

func rolling(t *testing.T) *hand {
	_, ns := server(t)
	return &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}, pace: 4 * time.Second}
}

// What a person lays over the template, another image and another store reach each host, one after the other, raft's leader
// last. An image that is nowhere takes one host down; nobody follows, that is told, and the image set back mends it.
func TestRoll(t *testing.T) {
	h := rolling(t)
	r, writes := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	whole := []string{"main-2", "main-3", "main-1"}
	for _, test := range []struct {
		name, patch, image, label string
	}{
		{"a label", `{"spec":{"pod":{"metadata":{"labels":{"team":"a"}}}}}`, "localhost/etcdadm:1", "a"},
		{"resources", `{"spec":{"pod":{"metadata":{"labels":{"team":"a"}},"spec":{"nodeSelector":{"x":"y"},"containers":[{"name":"etcdadm","resources":{"requests":{"cpu":"50m"}}}]}}}}`, "localhost/etcdadm:1", "a"},
		{"a store", `{"spec":{"backup":{"store":"s3://b/later"},"pod":null}}`, "localhost/etcdadm:1", ""},
		{"a release", `{"spec":{"backup":null,"releases":[{"version":"3.4.45","image":"example/etcd:3.4.45"}]}}`, "localhost/etcdadm:1", ""},
		{"an image", `{"spec":{"releases":null}}`, "localhost/etcdadm:2", ""},
	} {
		h.rolled = nil
		h.patch(test.patch)
		r.Image = test.image
		must(t, h.settle(r, test.name, h.and(h.made(test.image, test.label), h.unpaused, h.ready(3, 3))))
		if !slices.Equal(h.rolled, whole) {
			t.Errorf("%s: replaced were %v", test.name, h.rolled)
		}
	}

	// A release that leaves by the same change by which another version comes is there until nobody runs it.
	h.patch(`{"spec":{"releases":[{"version":"3.6.16","image":"example/etcd:3.6.16"}]}}`)
	must(t, h.settle(r, "the release that runs", h.and(h.mounts("3.6.16", true), h.unpaused, h.ready(3, 3))))
	h.rolled, h.runs16 = nil, true
	h.patch(`{"spec":{"releases":null,"version":"3.6.17"}}`)
	must(t, h.settle(r, "the release leaves", h.blocked("RollHeld")))
	if c := h.condition("Ready"); !strings.Contains(fmt.Sprint(h.see().Status.Blockers), "main-1 runs etcd 3.6.16, which is not in spec.releases any more") || len(h.rolled) > 0 {
		t.Errorf("%+v, replaced were %v", c, h.rolled)
	}
	h.runs16 = false
	must(t, h.settle(r, "the release has left", h.and(h.mounts("3.6.16", false), h.unpaused, h.ready(3, 3))))

	set := &appsv1.StatefulSet{}
	must(t, h.c.Get(t.Context(), h.key("main-1"), set))
	if len(set.Spec.Template.Spec.NodeSelector) > 0 {
		t.Errorf("what is not wanted any more is in the template: %v", set.Spec.Template.Spec.NodeSelector)
	}
	_, err := r.Reconcile(t.Context(), request(h))
	must(t, err)
	before := writes()
	for range 3 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
	}
	if n := writes() - before; n > 0 {
		t.Errorf("%d writes although nothing happens", n)
	}

	h.rolled, h.bad, r.Image = nil, "localhost/etcdadm:none", "localhost/etcdadm:none"
	must(t, h.settle(r, "held", h.blocked("RollHeld")))
	for range 10 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
		must(t, h.turn(t.Context()))
	}
	ec := h.see()
	if c := h.condition("Ready"); c.Reason != "RollHeld" || !strings.Contains(c.Message, "main-2 has its new pod, which does not run (ErrImagePull)") || !slices.Equal(h.rolled, []string{"main-2"}) {
		t.Errorf("%+v, replaced were %v", c, h.rolled)
	}
	if !slices.ContainsFunc(ec.Status.Blockers, func(b v1alpha1.Blocker) bool {
		return b.Command == "kubectl --namespace="+h.ns+" describe pod main-2-0"
	}) {
		t.Errorf("%+v", ec.Status.Blockers)
	}
	r.Image = "localhost/etcdadm:2"
	must(t, h.settle(r, "set back", h.and(h.made("localhost/etcdadm:2", ""), h.unpaused, h.ready(3, 3))))

	// One that runs and does not serve is taken back likewise.
	h.rolled, h.idle, r.Image = nil, "localhost/etcdadm:idle", "localhost/etcdadm:idle"
	must(t, h.settle(r, "held by one that idles", h.blocked("RollHeld")))
	if len(h.rolled) != 1 || !strings.Contains(fmt.Sprint(h.see().Status.Blockers), "which runs, and does not serve") {
		t.Errorf("%+v, replaced were %v", h.see().Status.Blockers, h.rolled)
	}
	r.Image = "localhost/etcdadm:2"
	must(t, h.settle(r, "set back", h.and(h.made("localhost/etcdadm:2", ""), h.unpaused, h.ready(3, 3))))

	// A template that the API server refuses asks nobody to go.
	h.patch(`{"spec":{"pod":{"spec":{"containers":[{"name":"etcdadm","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}}}`)
	for range 3 {
		if _, err := r.Reconcile(t.Context(), request(h)); err == nil {
			t.Error("the template was taken")
		}
	}
	must(t, h.blocked("StepFailed")())
	must(t, h.unpaused())
	h.patch(`{"spec":{"pod":null}}`)
	must(t, h.settle(r, "taken back", h.ready(3, 3)))
}

// Operators that are killed after each of their writes in turn: each pod is replaced all the same, by a pause, and none is open
// in the end.
func TestRollKilled(t *testing.T) {
	h := rolling(t)
	r, _ := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	h.patch(`{"spec":{"pod":{"metadata":{"labels":{"team":"a"}}}}}`)
	killed := 0
	for lives := 1; ; lives++ {
		r, _ := operator(h.c, lives, h.time)
		err := h.settle(r, "rolled", h.and(h.made("localhost/etcdadm:1", "a"), h.unpaused, h.ready(3, 3)))
		if err == nil {
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if killed++; killed > 100 {
			t.Fatal("there is no end")
		}
	}
	t.Logf("%d operators were killed, replaced were %v", killed, h.rolled)
	if killed < 5 {
		t.Errorf("only %d operators were killed", killed)
	}
}

// A Kubernetes without volumes from images is told from one that has them before a host is made or asked to go, and mended by
// leaving spec.releases out. What else keeps a set from being made is told as what it is, and all else goes on.
func TestNoImageVolumes(t *testing.T) {
	h := rolling(t)
	r, _ := operator(h.c, -1, h.time)
	by := r.Writer.Client
	invalid := apierrors.NewInvalid(schema.GroupKind{}, "x", field.ErrorList{field.Required(field.NewPath("spec", "template", "spec", "volumes").Index(3), "must specify a volume type")})
	full := apierrors.NewForbidden(schema.GroupResource{Resource: "statefulsets"}, "main-1", errors.New("exceeded quota"))
	var refuses error
	drops := func(o client.Object) { // as an API server does that does not know the field
		if set, is := o.(*appsv1.StatefulSet); is {
			for i := range set.Spec.Template.Spec.Volumes {
				set.Spec.Template.Spec.Volumes[i].Image = nil
			}
		}
	}
	intercepted := interceptor.NewClient(by.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*appsv1.StatefulSet); is && refuses != nil {
				return refuses
			}
			drops(o)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			err := c.Patch(ctx, o, p, opts...)
			drops(o)
			return err
		},
	})
	r.Writer.Client = intercepted
	made := func() (n int) {
		for _, l := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}} {
			must(t, h.c.List(t.Context(), l, client.InNamespace(h.ns)))
			n += meta.LenList(l)
		}
		return n
	}
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster("main", "size: 3, version: 3.6.16, storage: {size: 1Gi}, releases: [{version: 3.6.16, image: example/etcd:3.6.16}]"))))
	for _, refuses = range []error{nil, invalid} {
		must(t, h.settle(r, "told", h.blocked("NotSupported")))
		if n := made(); n > 0 {
			t.Errorf("%d objects of hosts were made", n)
		}
	}
	refuses = full
	for range 3 {
		if _, err := r.Reconcile(t.Context(), request(h)); err == nil {
			t.Error("the quota is not told")
		}
	}
	if must(t, h.blocked("StepFailed")()); h.blocked("NotSupported")() == nil {
		t.Error("a quota that is full is taken for a Kubernetes without images")
	}
	refuses = nil
	h.patch(`{"spec":{"releases":null}}`)
	must(t, h.settle(r, "made", h.ready(3, 3)))

	// A cluster that runs: nobody is asked to go, and what else the spec says is done.
	h.patch(`{"spec":{"releases":[{"version":"3.6.16","image":"example/etcd:3.6.16"}]}}`)
	must(t, h.settle(r, "held", h.blocked("NotSupported")))
	must(t, h.unpaused())
	h.patch(`{"spec":{"version":"3.6.17"}}`)
	must(t, h.settle(r, "the spec is written", func() error {
		if v := h.see().Status.Version; v != "3.6.17" {
			return errors.New(v)
		}
		return nil
	}))
	r.Writer.Client = by
	must(t, h.settle(r, "rolled", h.and(h.unpaused, h.ready(3, 3), func() error {
		if len(h.rolled) != 3 {
			return fmt.Errorf("replaced were %v", h.rolled)
		}
		return nil
	})))
}

// A deletion that fails is tried again, on the record as it is then: somebody who wrote it in between keeps the pod. And a
// deletion that comes after its pause was ended is of a pod that was changed since, and is refused.
func TestRollRetried(t *testing.T) {
	h := rolling(t)
	r, _ := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	type deletion struct{ pod, eviction client.Object }
	var tried []deletion
	var marks []string
	fail := errors.New("nobody answers")
	by := r.Writer.Client.(client.WithWatch)
	r.Writer.Client = interceptor.NewClient(by, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, made client.Object, opts ...client.SubResourceCreateOption) error {
			if e := made.(*policyv1.Eviction); len(e.DeleteOptions.DryRun) > 0 || fail == nil {
				return c.SubResource(sub).Create(ctx, o, made, opts...)
			}
			tried = append(tried, deletion{o.DeepCopyObject().(client.Object), made.DeepCopyObject().(client.Object)})
			return fail
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if mark := o.GetAnnotations()[shape.AnnotationUsed]; mark != "" && !slices.Contains(marks, mark) {
				if marks = append(marks, mark); len(marks) == 2 { // somebody is faster
					h.annotate(o.GetName(), "somebody", "wrote")
				}
			}
			return c.Update(ctx, o, opts...)
		},
	})
	h.patch(`{"spec":{"pod":{"metadata":{"labels":{"team":"a"}}}}}`)
	for range 60 {
		if _, err := r.Reconcile(t.Context(), request(h)); err != nil && !errors.Is(err, fail) {
			t.Fatal(err)
		}
		if must(t, h.turn(t.Context())); len(marks) == 2 {
			break
		}
	}
	if len(marks) != 2 || len(tried) != 1 {
		t.Fatalf("%d attempts were marked, %d deletions tried", len(marks), len(tried))
	}
	h.patch(`{"spec":{"paused":true}}`)
	must(t, h.settle(r, "paused", h.unpaused))
	if err := by.SubResource("eviction").Create(t.Context(), tried[0].pod, tried[0].eviction); !apierrors.IsConflict(err) {
		t.Errorf("a deletion that came late: %v", err)
	}
	if len(h.rolled) > 0 {
		t.Errorf("replaced were %v", h.rolled)
	}
	fail, h.drained = nil, 1 // somebody drains another host: the budget lets none go beside it
	h.patch(`{"spec":{"paused":false}}`)
	must(t, h.settle(r, "beside a drain", func() error { return cmp.Or(h.blocked("RollHeld")(), h.unpaused()) }))
	if h.drained = 0; len(h.rolled) > 0 {
		t.Errorf("replaced beside a drain were %v", h.rolled)
	}
	must(t, h.settle(r, "rolled", h.and(h.made("localhost/etcdadm:1", "a"), h.unpaused, h.ready(3, 3))))
}

func (h *hand) annotate(configMap, key, value string) {
	m := &corev1.ConfigMap{}
	must(h.t, h.c.Get(h.t.Context(), h.key(configMap), m))
	m.Annotations[key] = value
	must(h.t, h.c.Update(h.t.Context(), m))
}
