package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

type applyConfiguration = runtime.ApplyConfiguration

// stage is a part of a cluster's life.
type stage struct {
	name string
	do   func(h *hand) // what a person does
	then func(h *hand) error
}

// life is that of a cluster: made, grown, shrunk, a host exchanged, deleted.
func life() []stage {
	ready := func(voters, hosts int) func(*hand) error {
		return func(h *hand) error { return h.ready(voters, hosts)() }
	}
	return []stage{
		{"create", func(h *hand) {
			must(h.t, h.c.Create(h.t.Context(), object(h.t, h.ns, etcdCluster(h.name, "size: 3, version: 3.6.16, storage: {size: 1Gi}"))))
		}, ready(3, 3)},
		{"grow", func(h *hand) { h.patch(`{"spec":{"size":5}}`) }, ready(5, 5)},
		{"shrink", func(h *hand) { h.patch(`{"spec":{"size":3}}`) }, ready(3, 3)},
		{"exchange", func(h *hand) {
			h.worn = h.runs()[0]
			set := &appsv1.StatefulSet{}
			must(h.t, h.c.Get(h.t.Context(), h.key(h.worn), set))
			must(h.t, h.c.Patch(h.t.Context(), set, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"etcdadm.io/replace":"worn"}}}`))))
		}, func(h *hand) error {
			if slices.Contains(h.runs(), h.worn) {
				return fmt.Errorf("%s runs still", h.worn)
			}
			return h.ready(3, 3)()
		}},
		{"delete", func(h *hand) { must(h.t, h.c.Delete(h.t.Context(), h.see())) }, func(h *hand) error {
			if ec := h.see(); ec != nil {
				return fmt.Errorf("it is still there: %v", ec.Finalizers)
			}
			return nil
		}},
	}
}

// remains are the objects of a namespace, as far as two lives have to end alike.
func remains(h *hand) string {
	var out []string
	for _, l := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.PodList{}, &appsv1.StatefulSetList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		must(h.t, h.c.List(h.t.Context(), l, client.InNamespace(h.ns)))
		must(h.t, meta.EachListItem(l, func(o runtime.Object) error {
			m := o.(client.Object)
			if m.GetName() == "kube-root-ca.crt" || m.GetName() == "default" {
				return nil
			}
			line := fmt.Sprintf("%T %s kept=%s %v next=%s", o, m.GetName(), m.GetLabels()[shape.LabelKept], m.GetFinalizers(), m.GetAnnotations()[shape.AnnotationNext])
			if s, ok := o.(*appsv1.StatefulSet); ok {
				line += fmt.Sprintf(" replicas=%d", *s.Spec.Replicas)
			}
			if b, ok := o.(*policyv1.PodDisruptionBudget); ok {
				line += " least=" + b.Spec.MinAvailable.String()
			}
			if c, ok := o.(*corev1.ConfigMap); ok {
				line += fmt.Sprint(" ", c.Data["control__etcd-cluster-spec"], c.Data["control__etcd-cluster-spec-etcdadm.json"])
			}
			out = append(out, line)
			return nil
		}))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// A whole life by one operator. After each stage the next look writes nothing.
func TestLife(t *testing.T) {
	c, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	for _, s := range life() {
		r, writes := operator(h.c, -1, nil)
		s.do(h)
		must(t, h.settle(r, s.name, func() error { return s.then(h) }))
		t.Logf("%s: %d writes\n%s", s.name, writes(), remains(h))
		if h.see() == nil {
			continue
		}
		_, err := r.Reconcile(t.Context(), request(h)) // what the daemons told last
		must(t, err)
		before := writes()
		for range 2 {
			_, err := r.Reconcile(t.Context(), request(h))
			must(t, err)
		}
		if n := writes() - before; n > 0 {
			t.Errorf("%s: %d writes although nothing happens", s.name, n)
		}
	}
	left := remains(h)
	for _, want := range []string{"main-1 kept=true", "main-control kept=true", "main-authorities kept=true"} {
		if !strings.Contains(left, want) {
			t.Errorf("%s is not among what is left:\n%s", want, left)
		}
	}
	if strings.Contains(left, "StatefulSet") || strings.Contains(left, "Pod ") || strings.Contains(left, "Service ") || strings.Contains(left, "[etcdadm.io/cluster") {
		t.Errorf("something is left that is to be gone:\n%s", left)
	}
	_ = c
}

// An operator that is killed after any of its writes leaves what another one goes on from: the cluster ends as one does whose
// operator lives, but for numbers of hosts that one took and died with. Each lives for two writes, which a host's number and its
// volume are; in a second life the first one for one, so that each write is the last one of some operator.
func TestKilledAfterWrites(t *testing.T) {
	_, ns := server(t)
	ends := map[string]string{}
	lived := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	for _, s := range life() {
		r, _ := operator(lived.c, -1, nil)
		s.do(lived)
		must(t, lived.settle(r, s.name, func() error { return s.then(lived) }))
		ends[s.name] = normal(remains(lived))
	}
	for _, first := range []int{1, 2} {
		_, ns := server(t)
		h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
		killed, lives := 0, first
		for _, s := range life() {
			s.do(h)
			for ; ; lives = 2 {
				r, _ := operator(h.c, lives, nil)
				err := h.settle(r, s.name, func() error { return s.then(h) })
				if err == nil {
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				if killed++; killed > 300 {
					t.Fatalf("%s: there is no end", s.name)
				}
			}
			if got, want := normal(remains(h)), ends[s.name]; got != want {
				t.Fatalf("%s: after %d operators were killed:\n%s\nwant:\n%s", s.name, killed, got, want)
			}
		}
		t.Logf("%d operators were killed", killed)
		if killed < 20 {
			t.Errorf("only %d operators were killed", killed)
		}
	}
}

var (
	numbers = regexp.MustCompile(`main-[0-9]+`)
	next    = regexp.MustCompile(`next=[0-9]+`)
)

// normal numbers the hosts anew, in their order.
func normal(remains string) string {
	all := numbers.FindAllString(remains, -1)
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	all = slices.Compact(all)
	lines := strings.Split(next.ReplaceAllString(numbers.ReplaceAllStringFunc(remains, func(name string) string {
		return fmt.Sprintf("host-%d", slices.Index(all, name)+1)
	}), ""), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A host that is silent for longer than replaceAfter gets a successor; back again it is not needed any more.
func TestHostLost(t *testing.T) {
	_, ns := server(t)
	now := time.Now()
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, func() time.Time { return now })
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	h.silent["main-2"] = true
	must(t, h.settle(r, "silent", func() error {
		ec := h.see()
		for _, s := range ec.Status.Hosts {
			if s.Name == "main-2" && s.SilentSince != nil {
				return nil
			}
		}
		return fmt.Errorf("it is not shown as silent: %+v", ec.Status.Hosts)
	}))
	if set := (&appsv1.StatefulSet{}); h.c.Get(t.Context(), h.key("main-4"), set) == nil {
		t.Fatal("another host was made at once")
	}
	now = now.Add(6 * time.Minute)
	must(t, h.settle(r, "replaced", func() error {
		if h.condition(v1alpha1.Ready).Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v", h.condition(v1alpha1.Ready))
		}
		set := &appsv1.StatefulSet{}
		if err := h.c.Get(t.Context(), h.key("main-4"), set); err != nil {
			return err
		}
		if err := h.c.Get(t.Context(), h.key("main-2"), set); err != nil || *set.Spec.Replicas != 0 {
			return fmt.Errorf("the lost host is to run still: %w", err)
		}
		return nil
	}))
	claim := &corev1.PersistentVolumeClaim{}
	must(t, h.c.Get(t.Context(), h.key("main-2"), claim)) // nobody has heard what lies there
	// A person gives the volume up.
	must(t, h.c.Delete(t.Context(), claim))
	must(t, h.settle(r, "given up", func() error {
		if err := h.c.Get(t.Context(), h.key("main-2"), claim); err == nil {
			return fmt.Errorf("the claim is there: %v", claim.Finalizers)
		}
		if err := h.c.Get(t.Context(), h.key("main-2"), &appsv1.StatefulSet{}); err == nil {
			return errors.New("its set is there")
		}
		return nil
	}))
}

// What is somebody else's stays, and is told.
func TestNameTaken(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "main-client"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	must(t, h.c.Create(t.Context(), theirs))
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "told", func() error {
		if c := h.condition(v1alpha1.Ready); c.Reason != "NameTaken" || !strings.Contains(c.Message, "Service main-client is somebody else's") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	}))
	is := &corev1.Service{}
	must(t, h.c.Get(t.Context(), h.key("main-client"), is))
	if is.ResourceVersion != theirs.ResourceVersion {
		t.Error("it was changed")
	}
	// Its owner takes it away, and the cluster is made.
	must(t, h.c.Delete(t.Context(), theirs))
	must(t, h.settle(r, "made", h.ready(3, 3)))
}

// A protected cluster is not deleted, by the admission policy of the installation.
func TestProtected(t *testing.T) {
	c, ns := server(t)
	data, err := os.ReadFile("../config/operator/protected.yaml")
	must(t, err)
	for _, part := range strings.Split(string(data), "\n---\n") {
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(part), &o.Object))
		must(t, c.Create(t.Context(), o))
	}
	must(t, c.Create(t.Context(), object(t, ns, etcdCluster("main", plain+", deletion: {protected: true}"))))
	must(t, c.Create(t.Context(), object(t, ns, etcdCluster("other", plain))))
	ec := object(t, ns, etcdCluster("main", plain))
	within(t, time.Minute, "the policy is in force", func(ctx context.Context) error {
		err := c.Delete(ctx, ec, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "set spec.deletion.protected to false first") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	must(t, c.Delete(t.Context(), object(t, ns, etcdCluster("other", plain))))
	must(t, c.Patch(t.Context(), ec, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletion":{"protected":false}}}`))))
	must(t, c.Delete(t.Context(), ec))
}

// What the daemons would refuse is refused before anything is made: an unknown version, a template that is none, the store
// of another cluster, a field that this operator does not act on.
func TestRefusedByTheOperator(t *testing.T) {
	_, ns := server(t)
	other := object(t, ns, etcdCluster("first", plain+", backup: {store: \"s3://b/shared\"}"))
	h := &hand{t: t, c: watching(t), ns: ns, silent: map[string]bool{}}
	must(t, h.c.Create(t.Context(), other))
	time.Sleep(1100 * time.Millisecond) // creation has whole seconds, and the older cluster keeps the store
	for name, test := range map[string]struct{ spec, reason, says string }{
		"version":  {"size: 3, version: 9.9.9, storage: {size: 1Gi}", "SpecRefused", "no release line that this release knows"},
		"template": {"size: 3, version: 3.7.3, storage: {size: 1Gi}, pod: {spec: {containers: none}}", "SpecRefused", "spec.pod"},
		"store":    {"size: 3, version: 3.7.3, storage: {size: 1Gi}, backup: {store: \"s3://b/shared\"}", "StoreTaken", "/first"},
		"hasty":    {"size: 3, version: 3.7.3, storage: {size: 1Gi}, replaceAfter: 0s", "SpecRefused", "spec.replaceAfter"},
		"later":    {"size: 3, version: 3.7.3, storage: {size: 1Gi}, tls: {clients: {issuerRef: {name: x}}}", "IssuerBarred", "Issuer/x added to the operator's --issuers"},
	} {
		h.name = name
		must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster(name, test.spec))))
		r, _ := operator(h.c, -1, nil)
		r.Issuers = nil
		must(t, h.settle(r, name, func() error {
			if c := h.condition(v1alpha1.Ready); c.Reason != test.reason || !strings.Contains(c.Message, test.says) {
				return fmt.Errorf("%+v", c)
			}
			return nil
		}))
		claims := &corev1.PersistentVolumeClaimList{}
		must(t, h.c.List(t.Context(), claims, client.InNamespace(ns)))
		if len(claims.Items) > 0 {
			t.Errorf("%s: volumes were made", name)
		}
	}
}

// A deleted cluster with a store is backed up first. Its volumes go once the backup is proven, where drills are wanted; else
// they are kept.
func TestDeletedWithBackup(t *testing.T) {
	for _, test := range []struct {
		name, backup string
		proves       bool
	}{{"drills", "{store: \"s3://b/one\", drillInterval: 1h}", true}, {"default", "{store: \"s3://b/two\"}", false}} {
		t.Run(test.name, func(t *testing.T) {
			_, ns := server(t)
			h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
			r, _ := operator(h.c, -1, nil)
			must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}, backup: "+test.backup))))
			must(t, h.settle(r, "create", func() error {
				if ec := h.see(); ec.Status.Voters != 1 {
					return fmt.Errorf("%+v", ec.Status)
				}
				return nil
			}))
			must(t, h.c.Delete(t.Context(), h.see()))
			if test.proves {
				must(t, h.settle(r, "waits", h.blocked("BackupMissing")))
				h.proven = true
			}
			must(t, h.settle(r, "ends", h.gone))
			left := remains(h)
			if test.proves && left != "" {
				t.Errorf("left:\n%s", left)
			}
			if !test.proves && !strings.Contains(left, "PersistentVolumeClaim main-1 kept=true") {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}

func (h *hand) gone() error {
	if ec := h.see(); ec != nil {
		return fmt.Errorf("it is still there: %+v", ec.Status.Blockers)
	}
	return nil
}

// blocked says why a code is not among the blockers that are shown.
func (h *hand) blocked(code string) func() error {
	return func() error {
		for _, b := range h.see().Status.Blockers {
			if b.Code == code {
				return nil
			}
		}
		return fmt.Errorf("no %s: %+v", code, h.see().Status.Blockers)
	}
}

// What a deleted cluster left behind is taken up again, and says no more that it was kept.
func TestTakenUpAgain(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	create := life()[0]
	create.do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	must(t, h.c.Delete(t.Context(), h.see()))
	must(t, h.settle(r, "ends", h.gone))
	if left := remains(h); !strings.Contains(left, "main-control kept=true") || !strings.Contains(left, "main-authorities kept=true") {
		t.Fatalf("left:\n%s", left)
	}
	time.Sleep(1100 * time.Millisecond) // creation has whole seconds
	create.do(h)
	must(t, h.settle(r, "again", h.ready(3, 3)))
	if left := remains(h); strings.Contains(left, "kept=true") {
		t.Errorf("a cluster that lives says that it was kept:\n%s", left)
	}
}

// A cache that lags has no host made twice: nothing has a new number before a look past the cache finds it missing, too.
func TestCacheLags(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}"))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	r.Cached = interceptor.NewClient(r.Cached.(client.WithWatch), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		switch l.(type) {
		case *appsv1.StatefulSetList, *corev1.PersistentVolumeClaimList, *corev1.PodList:
			return nil
		}
		return c.List(ctx, l, opts...)
	}})
	for range 3 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
	}
	if runs := h.runs(); !slices.Equal(runs, []string{"main-1"}) {
		t.Errorf("there run %v", runs)
	}
}

// Where another operator made the authorities a moment before, theirs are what clients are told to trust.
func TestAuthoritiesOfAnother(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}"))))
	record := &corev1.ConfigMap{}
	must(t, h.settle(r, "record", func() error { return h.c.Get(t.Context(), h.key("main-control"), record) }))
	files, err := authority.Create(time.Now())
	must(t, err)
	must(t, h.c.Create(t.Context(), shape.Cluster{Namespace: ns, Name: "main", UID: record.Labels[shape.LabelUID]}.Authorities(files)))
	late := false // once the look misses what is there
	r.Live = interceptor.NewClient(r.Live.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, is := o.(*corev1.Secret); is && !late {
			late = true
			return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
		}
		return c.Get(ctx, key, o, opts...)
	}})
	must(t, h.settle(r, "bundle", func() error { return h.c.Get(t.Context(), h.key("main-ca"), record) }))
	if !late || !maps.Equal(record.Data, authority.Bundle(files)) {
		t.Errorf("clients are told to trust others (%v)", late)
	}
}

// The number of a host of which nothing is left is not used again, also where the control object is lost.
func TestNumbersAreUsedOnce(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 3, version: 3.6.16, storage: {size: 1Gi}"))))
	must(t, h.settle(r, "create", h.ready(3, 3)))
	h.patch(`{"spec":{"size":1}}`)
	must(t, h.settle(r, "shrink", h.ready(1, 1)))
	for _, name := range []string{"main-2", "main-3"} {
		must(t, h.c.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}))
	}
	must(t, h.settle(r, "cleared", func() error {
		if left := remains(h); strings.Contains(left, "main-2") || strings.Contains(left, "main-3 ") || strings.Contains(left, "main-3-") {
			return fmt.Errorf("left:\n%s", left)
		}
		return nil
	}))
	must(t, h.c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "main-control"}}))
	h.patch(`{"spec":{"size":3}}`)
	must(t, h.settle(r, "grow", h.ready(3, 3)))
	if runs := h.runs(); !slices.Equal(runs, []string{"main-1", "main-4", "main-5"}) {
		t.Errorf("there run %v", runs)
	}
}

// A NetworkPolicy goes that is not wanted any more; what was said
// of a host's data when it stopped is not said of it any more once it starts; and what the API server refuses is told.
func TestChangedLater(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}"))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	policy := &networkingv1.NetworkPolicy{}
	must(t, h.c.Get(t.Context(), h.key("main"), policy))
	h.patch(`{"spec":{"network":{"policy":false}}}`)
	must(t, h.settle(r, "open", func() error {
		if err := h.c.Get(t.Context(), h.key("main"), policy); err == nil {
			return errors.New("the policy is there")
		}
		return nil
	}))

	set := &appsv1.StatefulSet{}
	for _, spent := range []string{"2026-01-01T00:00:00Z", ""} {
		must(t, h.c.Get(t.Context(), h.key("main-1"), set))
		must(t, r.Writer.Scale(t.Context(), set, 1, spent))
		must(t, h.c.Get(t.Context(), h.key("main-1"), set))
		if is := set.Annotations[shape.AnnotationSpent]; is != spent {
			t.Errorf("it was said at %q, and is kept as %q", spent, is)
		}
	}

	h.patch(`{"spec":{"network":{"service":{"annotations":{"no key!":"x"}}}}}`)
	_, err := r.Reconcile(t.Context(), request(h))
	if err == nil {
		t.Error("an annotation was taken that is none")
	}
	must(t, h.blocked("StepFailed")())
}
