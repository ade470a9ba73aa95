package reconcile

import (
	"context"
	"errors"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// CacheOptions have the cache hold the operator's own objects alone, without what nobody reads.
func CacheOptions() cache.Options {
	all := map[client.Object]cache.ByObject{}
	for _, o := range wishes() {
		all[o] = cache.ByObject{Label: labels.Everything()}
	}
	return cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set(ours())), DefaultTransform: (&words{}).lean, ByObject: all}
}

// Kinds are those that the loops watch: without one of them none can begin.
func Kinds() []client.Object { return append(wishes(), watched()...) }

// wishes are the kinds by which people say what they want.
func wishes() []client.Object {
	return []client.Object{&v1alpha1.EtcdCluster{}, &v1alpha1.EtcdBackup{}, &v1alpha1.EtcdBackupSchedule{}, &v1alpha1.EtcdRestore{}}
}

// near reads out of the cache, by its indexes.
type near struct{ client.Client }

// by has what is cached be found by an index: one namespace may have thousands of clusters. Past the cache it says nothing, so
// who asks looks at what comes.
type by struct{ index, value string }

// The indexes: of which EtcdCluster an object is, of which EtcdBackupSchedule, and the store of an EtcdCluster's backups.
const (
	byCluster = "cluster"
	byOwner   = "owner"
	byStore   = "store"
)

// ApplyToList implements client.ListOption.
func (by) ApplyToList(*client.ListOptions) {}

// List implements client.Reader.
func (n near) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	for _, o := range opts {
		if b, is := o.(by); is {
			opts = append(opts, client.MatchingFields{b.index: b.value})
		}
	}
	return n.Client.List(ctx, l, opts...)
}

// numbers reads past the cache what a new host hangs on: who has which number, and who votes and is heard by what is written. Its
// number is used by compare-and-swap on the ConfigMap that is read, so that nothing else has to be as new.
type numbers struct {
	client.Reader
	live client.Reader
}

// List implements client.Reader.
func (n numbers) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	switch l.(type) {
	case *corev1.ConfigMapList, *appsv1.StatefulSetList, *corev1.PersistentVolumeClaimList:
		return n.live.List(ctx, l, opts...)
	}
	return n.Reader.List(ctx, l, opts...)
}

// watched are the kinds of which a cluster is made. Of Secrets nothing but the metadata is cached.
func watched() []client.Object {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return []client.Object{
		secret, &corev1.ConfigMap{}, &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{}, &corev1.Pod{}, &corev1.Service{}, &corev1.ServiceAccount{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{},
		&batchv1.Job{},
	}
}

// news is what wakes a loop: of the record's ConfigMaps what it reads of them.
var news = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*corev1.ConfigMap)
	now, too := e.ObjectNew.(*corev1.ConfigMap)
	return !is || !too || record.News(was, now)
}}

// index has the cache keep the indexes.
func index(m ctrl.Manager) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	add := func(o client.Object, name string, value func(o client.Object) string) {
		err = errors.Join(err, m.GetFieldIndexer().IndexField(ctx, o, name, func(o client.Object) []string {
			if v := value(o); v != "" {
				return []string{v}
			}
			return nil
		}))
	}
	for _, o := range watched() {
		add(o, byCluster, func(o client.Object) string { return o.GetLabels()[shape.LabelCluster] })
	}
	add(&v1alpha1.EtcdBackup{}, byCluster, func(o client.Object) string { return o.(*v1alpha1.EtcdBackup).Spec.Cluster })
	add(&v1alpha1.EtcdRestore{}, byCluster, func(o client.Object) string { return o.(*v1alpha1.EtcdRestore).Spec.Cluster })
	add(&v1alpha1.EtcdBackup{}, byOwner, func(o client.Object) string {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return string(owner.UID)
		}
		return ""
	})
	add(&v1alpha1.EtcdCluster{}, byStore, func(o client.Object) string {
		if b := o.(*v1alpha1.EtcdCluster).Spec.Backup; b != nil {
			return b.Store
		}
		return ""
	})
	return err
}
