package reconcile

import (
	"context"
	"fmt"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/schedule"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Schedules is the loop for EtcdBackupSchedules.
type Schedules struct{ *Reconciler }

// Reconcile looks at one schedule.
func (r *Schedules) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, all := &v1alpha1.EtcdBackupSchedule{}, &v1alpha1.EtcdBackupList{}
	if err := r.Cached.Get(ctx, q.NamespacedName, o); err != nil || o.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Cached.List(ctx, all, client.InNamespace(o.Namespace), by{byOwner, string(o.UID)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("look for the backups of a schedule: %w", err)
	}
	seen := schedule.Seen{Now: r.now(), Schedule: o}
	for _, b := range all.Items {
		if metav1.IsControlledBy(&b, o) {
			seen.Backups = append(seen.Backups, b)
		}
	}
	out := schedule.Next(seen)
	if out.Make != nil {
		if err := r.makeBackup(ctx, o, out.Make); err != nil {
			return ctrl.Result{}, err
		}
	}
	if out.Drop != nil {
		if err := r.Writer.Delete(ctx, out.Drop); err != nil && !apierrors.IsConflict(err) {
			return ctrl.Result{}, err
		}
	}
	if !equality.Semantic.DeepEqual(o.Status, out.Status) {
		was := o.DeepCopy()
		o.Status = out.Status
		if err := r.Cached.Status().Patch(ctx, o, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), client.FieldOwner(shape.Manager)); err != nil {
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: time.Second}, nil // the cache will know soon
			}
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if out.Next.IsZero() {
		return ctrl.Result{}, nil // a change is an event
	}
	return ctrl.Result{RequeueAfter: min(lookAgain, max(time.Second, out.Next.Sub(seen.Now)))}, nil // clocks are set, too
}

// makeBackup makes an EtcdBackup. One of that name that is there was made before the status was written; where it is somebody
// else's the time is skipped.
func (r *Schedules) makeBackup(ctx context.Context, o *v1alpha1.EtcdBackupSchedule, b *v1alpha1.EtcdBackup) error {
	err := r.Writer.Client.Create(ctx, b, client.FieldOwner(shape.Manager))
	log.FromContext(ctx).Info("a backup is due", "backup", b.Name, "error", err)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &v1alpha1.EtcdBackup{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b), there); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(there, o) && r.Events != nil {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, "NameTaken", "make-backup", "EtcdBackup %s is there, and is not of this schedule: the time is skipped", b.Name)
	}
	return nil
}

// Setup has the manager run the loop.
func (r *Schedules) Setup(m ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(m).For(&v1alpha1.EtcdBackupSchedule{}).Owns(&v1alpha1.EtcdBackup{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r)
}
