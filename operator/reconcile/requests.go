package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/request"
	"etcdadm.io/operator/shape"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests is the loop for one kind of request: each of its objects becomes one command of its cluster's queue.
type Requests struct {
	*Reconciler
	kind requestKind
	turn turns
}

// turns have each cluster take one worker of a loop at a time, however much is asked of it: one whose store or API calls hang has
// the others wait for nothing.
type turns struct {
	mu    sync.Mutex
	taken map[types.NamespacedName]bool
}

// take takes a cluster's turn, until done is called; nil: it is taken.
func (t *turns) take(cluster types.NamespacedName) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[cluster] {
		return nil
	}
	if t.taken == nil {
		t.taken = map[types.NamespacedName]bool{}
	}
	t.taken[cluster] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.taken, cluster)
	}
}

// requestKind is what differs between kinds of requests.
type requestKind struct {
	object func() client.Object
	list   func() client.ObjectList
	read   func(client.Object) asked
}

// asked is what an object asks for.
type asked struct {
	cluster string
	status  *v1alpha1.RequestStatus
	lasts   time.Duration // how long the word counts before the command is asked for; 0: for ever
	hinders func(s *sight, h record.Heard) *request.Hindrance
	add     func(ctx context.Context, s *sight, f *control.Folder, command string) error
	copies  *copying // what has to be in the cluster's store before; nil: nothing
}

// Backups is the loop for EtcdBackups.
func (r *Reconciler) Backups() *Requests {
	return &Requests{Reconciler: r, kind: requestKind{
		object: func() client.Object { return &v1alpha1.EtcdBackup{} },
		list:   func() client.ObjectList { return &v1alpha1.EtcdBackupList{} },
		read: func(o client.Object) asked {
			b := o.(*v1alpha1.EtcdBackup)
			return asked{cluster: b.Spec.Cluster, status: &b.Status, hinders: func(s *sight, _ record.Heard) *request.Hindrance { return request.Backup(&s.world) },
				add: func(ctx context.Context, _ *sight, f *control.Folder, command string) error {
					return f.AddWishOnce(ctx, command, b.CreationTimestamp.Time, control.Wish{Kind: cluster.CommandBackup, KeepFor: b.Spec.KeepFor.Or(0), By: "EtcdBackup " + b.Name})
				}}
		},
	}}
}

// requestPatience bounds one look at a request: three ways to a store of bare hosts, each of outsidePatience, and what is shown
// of them.
const requestPatience = 3*outsidePatience + 6*time.Second

// Reconcile looks at one request: it asks for the command once, and shows what becomes of it.
func (r *Requests) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	o := r.kind.object()
	if err := r.Cached.Get(ctx, q.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	done := r.turn.take(client.ObjectKey{Namespace: q.Namespace, Name: r.kind.read(o).cluster})
	if done == nil {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	defer done()
	s, o, out, err := r.see(ctx, r.Cached, r.Cached, q.NamespacedName)
	old := s == nil || s.outside == nil             // what was seen may be
	if err == nil && (out.Ask || out.Copy) && old { // the record is written on the version that was seen
		s, o, out, err = r.see(ctx, r.Live, r.Cached, q.NamespacedName)
	}
	if err == nil && out.Status.Ended() && old { // which stays so
		s, o, out, err = r.see(ctx, r.Live, r.Live, q.NamespacedName)
	}
	if err != nil || o == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	a := r.kind.read(o)
	if out.Ask {
		if err = r.ask(ctx, s, a, out.Status.Command); err != nil {
			out.Status.Command, out.Status.Reason = "", "it is not known that the command is in the queue: "+record.Words(err)
		}
	}
	if out.Copy {
		err = r.startCopy(ctx, s, s.copying)
		log.FromContext(ctx).Info("a backup is copied", "cluster", a.cluster, "job", s.copying.Job, "error", err)
		if err != nil {
			out.Status.Reason = "the Job that copies the backup could not be made: " + err.Error()
		}
	}
	if !apierrors.IsConflict(err) && !equality.Semantic.DeepEqual(*a.status, out.Status) {
		was := o.DeepCopyObject().(client.Object)
		*a.status = out.Status
		err = cmp.Or(err, r.Cached.Status().Patch(ctx, o, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), client.FieldOwner(shape.Manager)))
	}
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil // the cache will know soon
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case out.Status.Ended():
		return ctrl.Result{}, nil
	case s != nil && s.outside != nil:
		return ctrl.Result{RequeueAfter: lookOutsideSoon}, nil // no event tells
	case a.copies != nil:
		return ctrl.Result{RequeueAfter: lookSoon}, nil // nor what its pod waits for
	}
	return ctrl.Result{RequeueAfter: lookAgain}, nil
}

// ask puts the command into the queue.
func (r *Requests) ask(ctx context.Context, s *sight, a asked, command string) error {
	ctx, cancel := context.WithTimeout(ctx, outsidePatience)
	defer cancel()
	err := r.amend(ctx, s, func(f *control.Folder, _ map[string]string) error { return a.add(ctx, s, f, command) })
	log.FromContext(ctx).Info("asked of the daemons", "cluster", a.cluster, "command", command, "error", err)
	return err
}

// see is a request with its cluster, and what becomes of it; no object: there is nothing to do. No sight: there is no cluster.
// Whether another cluster has the same store is not looked for: a cluster that has a record goes on beside such a rival.
func (r *Requests) see(ctx context.Context, of, from client.Reader, key client.ObjectKey) (*sight, client.Object, request.Outcome, error) {
	o := r.kind.object()
	if err := of.Get(ctx, key, o); err != nil {
		return nil, nil, request.Outcome{}, err
	}
	a := r.kind.read(o)
	if o.GetDeletionTimestamp() != nil || a.status.Ended() {
		return nil, nil, request.Outcome{}, nil
	}
	ec := &v1alpha1.EtcdCluster{}
	err := from.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: a.cluster}, ec)
	if err == nil && ec.Spec.Hosts != nil { // whose record is read past any cache, and once: so is the request
		o = r.kind.object()
		if err := r.Live.Get(ctx, key, o); err != nil {
			return nil, nil, request.Outcome{}, err
		}
		if a = r.kind.read(o); o.GetDeletionTimestamp() != nil || a.status.Ended() {
			return nil, nil, request.Outcome{}, nil
		}
	}
	seen := request.Seen{Cluster: a.cluster, Command: control.CommandName(o.GetCreationTimestamp().Time, string(o.GetUID())), Shown: *a.status}
	seen.Late = a.lasts > 0 && r.now().Sub(o.GetCreationTimestamp().Time) > a.lasts
	if apierrors.IsNotFound(err) {
		return nil, o, request.Next(seen), nil
	}
	if err != nil {
		return nil, nil, request.Outcome{}, err
	}
	var s *sight
	if ec.Spec.Hosts != nil {
		s, err = r.outsideAgain(ctx, ec)
	} else {
		s, err = r.gather(ctx, from, ec)
	}
	if err == nil {
		err = s.hearOf(ctx, &seen)
	}
	if err != nil {
		return nil, nil, request.Outcome{}, err
	}
	if a.copies != nil && s.outside == nil {
		s.copying = a.copies.of(s, o.GetUID())
		if s.world.Copy, err = r.copyOf(ctx, from, s, s.copying); err != nil {
			return nil, nil, request.Outcome{}, err
		}
	}
	seen.World, seen.Hindrance = &s.world, a.hinders(s, seen.Heard)
	return s, o, request.Next(seen), nil
}

// hearOf reads what the record says of a command. That the store of bare hosts does not answer is a part of what is seen.
func (s *sight) hearOf(ctx context.Context, seen *request.Seen) (err error) {
	ctx, cancel := context.WithTimeout(ctx, outsidePatience)
	defer cancel()
	f, told := s.readable(), s.told
	if f == nil {
		return nil
	}
	if !s.world.Reports() {
		told = nil
	}
	switch seen.Heard, err = record.Hear(ctx, f, seen.Command, told); {
	case err == nil:
		seen.Opening = request.Opening(s.world.Intent, seen.Command, told)
	case s.outside != nil:
		s.world.Bars = record.Words(err)
	default:
		return fmt.Errorf("look for command %s: %w", seen.Command, err)
	}
	return nil
}

// Setup has the manager run the loop.
func (r *Requests) Setup(m ctrl.Manager, workers int) error {
	unended := func(ctx context.Context, o client.Object, cluster string) (all []ctrlreconcile.Request) {
		l := r.kind.list()
		if err := r.Cached.List(ctx, l, client.InNamespace(o.GetNamespace()), by{byCluster, cluster}); err != nil {
			log.FromContext(ctx).Error(err, "look for requests", "cluster", cluster) // each is looked at again by itself
		}
		for _, o := range objectsOf(l) {
			if a := r.kind.read(o); a.cluster == cluster && !a.status.Ended() {
				all = append(all, ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
		}
		return all
	}
	labelled := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []ctrlreconcile.Request {
		return unended(ctx, o, o.GetLabels()[shape.LabelCluster])
	})
	return ctrl.NewControllerManagedBy(m).For(r.kind.object()).WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(&corev1.ConfigMap{}, labelled, builder.WithPredicates(news)).Watches(&batchv1.Job{}, labelled).
		Watches(&v1alpha1.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []ctrlreconcile.Request {
			return unended(ctx, o, o.GetName())
		})).Complete(r)
}
