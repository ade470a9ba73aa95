// Package reconcile has the operator's loops, for a cluster and for what is asked of one: look at what is cached, decide, carry
// it out, show it.
//
// A step that takes something away is decided twice: a second look, past the cache, has to come to the same step.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	"etcdadm.io/operator/show"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// patience bounds one reconcile: another cluster waits for the worker.
	patience = 20 * time.Second
	// lookAgain is for what no event tells: time that passes.
	lookAgain, lookSoon = 5 * time.Minute, 10 * time.Second
	// lookRolling is while a host's pod is being replaced: by a word of the last 15 s.
	lookRolling = 3 * time.Second

	crdName = "etcdclusters.etcdadm.io"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Reconciler is the loop.
type Reconciler struct {
	Cached client.Client
	Live   client.Reader // past the cache
	Writer *act.Writer
	Events events.EventRecorder // nil: none are told
	Image  string               // of hosts
	// RotationGrace is how long clients have at each step in which the authorities are rotated.
	RotationGrace time.Duration
	Issuers       Issuers          // that may be asked to sign
	Now           func() time.Time // nil: the clock
	rolls         rolls
	beats         beats
	stores        record.Stores
}

var steps = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "etcdadm_operator_steps_total", Help: "Steps that were carried out, by what they do and how they ended.",
}, []string{"step", "result"})

func init() { metrics.Registry.MustRegister(steps) }

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// Reconcile looks at one cluster, and takes what steps are to be taken.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ec := &v1alpha1.EtcdCluster{}
	if err := r.Cached.Get(ctx, request.NamespacedName, ec); err != nil {
		r.rolls.note(request.NamespacedName, false)
		r.beats.forget(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ec.Spec.Hosts != nil {
		return ctrl.Result{}, nil // which is Outside's
	}
	if ec.DeletionTimestamp == nil {
		if !protects(ec) {
			return ctrl.Result{}, r.Writer.Protect(ctx, ec) // which is an event
		}
	} else if !protects(ec) {
		return ctrl.Result{}, nil
	}
	s, err := r.look(ctx, r.Cached, ec)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := decide.Next(s.world)
	err = r.carryOut(ctx, s, &d)
	if gone := r.show(ctx, s, d); err == nil {
		err = gone
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil // the cache will know soon
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: nextLook(&s.world, d)}, nil
}

// nextLook is how long an event is waited for before the next look: time alone may change what is decided.
func nextLook(w *decide.World, d decide.Decision) time.Duration {
	next := lookAgain
	silent := func(h decide.Host) bool { return !h.SilentSince.IsZero() }
	switch {
	case slices.ContainsFunc(d.Waits, func(w decide.Wait) bool { return w.Code == decide.Rolling }):
		next = lookRolling
	case len(d.Waits) > 0 || len(d.Steps) > 1 || slices.ContainsFunc(w.Hosts, silent):
		next = lookSoon
	case d.Rotation != nil:
		next = max(lookSoon, min(lookAgain, d.Rotation.Until.Sub(w.Now)))
	}
	if lost := w.NextLost(); !lost.IsZero() {
		next = min(next, lost.Sub(w.Now))
	}
	return max(next, time.Second)
}

func (r *Reconciler) look(ctx context.Context, from client.Reader, ec *v1alpha1.EtcdCluster) (*sight, error) {
	s, err := r.gather(ctx, from, ec)
	if err == nil && ec.DeletionTimestamp != nil {
		err = r.ending(ctx, s)
	}
	if err == nil && ec.Spec.Backup != nil {
		err = r.rivals(ctx, from, s)
	}
	if err == nil {
		if c := s.bootCopy(); c != nil {
			s.world.Copy, err = r.copyOf(ctx, from, s, *c)
		}
	}
	return s, err
}

// carryOut takes the steps of a decision, in their order, up to the first that fails.
func (r *Reconciler) carryOut(ctx context.Context, s *sight, d *decide.Decision) error {
	var sure []decide.Step // by a look past the cache, of which a new host needs no other
	for _, step := range d.Steps {
		if step.Kind == decide.MakeHost {
			step.Host = s.shape.Host(step.N)
		}
		if step.Kind.Takes() || step.Kind == decide.MakeHost && s.hosts[step.N] == nil && !slices.ContainsFunc(sure, step.Is) {
			at, steps, err := r.again(ctx, s, step)
			if err != nil || !slices.ContainsFunc(steps, step.Is) {
				return err
			}
			s, sure = at, steps
		}
		err := r.take(ctx, s, step)
		result := "done"
		if err != nil {
			result = "failed"
		}
		steps.WithLabelValues(string(step.Kind), result).Inc()
		if step.Kind != decide.MakeShared {
			log.FromContext(ctx).Info("step", "step", step.Kind, "host", step.Host, "n", step.N, "why", step.Why, "result", result)
			r.tell(s.cluster, step, err)
		}
		if unsent(&s.world, d, err) {
			continue
		}
		if wait, goesOn := hindered(&s.world, err); wait != nil {
			if !slices.Contains(d.Waits, *wait) {
				d.Waits = append(d.Waits, *wait)
			}
			if goesOn {
				continue
			}
			return nil
		}
		if err != nil {
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				d.Waits = append(d.Waits, decide.Wait{Code: decide.StepFailed, Host: step.Host, Sentence: fmt.Sprintf("%s: %v", step.What(), err)})
			}
			return fmt.Errorf("%s: %w", step.Kind, err)
		}
	}
	return nil
}

// hindered is what is waited for where a step cannot be taken by what others did, or do not have; nil: it is none of that.
// goesOn: the steps after it are taken nonetheless.
func hindered(w *decide.World, err error) (wait *decide.Wait, goesOn bool) {
	taken, is := errors.AsType[*act.TakenError](err)
	switch {
	case is:
		return &decide.Wait{Code: decide.NameTaken, Sentence: taken.Error() + ": delete it, or choose another name for the EtcdCluster"}, false
	case errors.As(err, new(*adoptError)):
		return &decide.Wait{Code: decide.BootstrapWaits, Sentence: err.Error(), Stands: true}, false
	case lostKeys(w, err) != nil:
		return lostKeys(w, err), true
	case errors.Is(err, act.ErrNoImages):
		return &decide.Wait{Code: decide.NotSupported, Sentence: "spec.releases needs volumes from images, which this Kubernetes does not have: 1.35 has them. Put the releases into the image of the hosts, and leave spec.releases out"}, true
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return &decide.Wait{Code: decide.RollHeld, Sentence: "the budget of disruptions lets no pod go now: another one is away, or drained", Command: w.Kubectl("get poddisruptionbudgets,pods")}, false
	}
	return nil, false
}

// again looks past the cache which steps are to be taken: one that takes something away, or a new number, is to be one of them.
func (r *Reconciler) again(ctx context.Context, s *sight, step decide.Step) (*sight, []decide.Step, error) {
	ec, from := &v1alpha1.EtcdCluster{}, r.Live
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.cluster), ec); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if step.Kind == decide.MakeHost {
		from = numbers{r.Cached, r.Live}
	}
	fresh, err := r.look(ctx, from, ec)
	if err != nil {
		return nil, nil, err
	}
	return fresh, decide.Next(fresh.world).Steps, nil
}

func (r *Reconciler) tell(ec *v1alpha1.EtcdCluster, step decide.Step, err error) {
	if r.Events == nil {
		return
	}
	if err != nil {
		r.Events.Eventf(ec, nil, corev1.EventTypeWarning, "StepFailed", string(step.Kind), "%s: %v", step.What(), err)
		return
	}
	r.Events.Eventf(ec, nil, corev1.EventTypeNormal, "Step", string(step.Kind), "%s: %s", step.What(), step.Why)
}

// show writes the status where it changed.
func (r *Reconciler) show(ctx context.Context, s *sight, d decide.Decision) error {
	nodes := map[string]string{}
	for n, h := range s.hosts {
		if h.pod != nil {
			nodes[s.shape.Host(n)] = h.pod.Spec.NodeName
		}
	}
	now := s.cluster.DeepCopy()
	now.Status = show.Status(show.Seen{Cluster: s.cluster, World: &s.world, Decision: d, Told: s.told, Nodes: nodes, Selector: labels.SelectorFromSet(s.shape.Selector()).String()})
	if equality.Semantic.DeepEqual(now.Status, s.cluster.Status) {
		return nil
	}
	if err := r.Cached.Status().Patch(ctx, now, client.MergeFromWithOptions(s.cluster, client.MergeFromWithOptimisticLock{}), client.FieldOwner(shape.Manager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("show the status: %w", err)
	}
	return nil
}

func protects(ec *v1alpha1.EtcdCluster) bool {
	return slices.Contains(ec.Finalizers, shape.Finalizer)
}

// Setup has the manager run the loops.
func (r *Reconciler) Setup(m ctrl.Manager, workers int) error {
	of := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrlreconcile.Request {
		name := o.GetLabels()[shape.LabelCluster]
		if name == "" {
			return nil
		}
		return []ctrlreconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
	if err := index(m); err != nil {
		return err
	}
	r.Cached = near{r.Cached}
	b := ctrl.NewControllerManagedBy(m).For(&v1alpha1.EtcdCluster{}).WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	for _, o := range watched() {
		b = b.Watches(o, of, builder.WithPredicates(news))
	}
	if err := b.Complete(r); err != nil {
		return err
	}
	return errors.Join(r.Backups().Setup(m, workers), r.Restores().Setup(m, workers), (&Outside{r}).Setup(m, workers), (&Schedules{r}).Setup(m, workers))
}
