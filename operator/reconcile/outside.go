package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	"etcdadm.io/operator/show"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	// lookOutside is how often a store of bare hosts is read: each of its requests is paid for. It is read sooner while
	// something is under way or in the way.
	lookOutside, lookOutsideSoon = time.Minute, 15 * time.Second
	// outsidePatience bounds one look into such a store, and one write.
	outsidePatience = 8 * time.Second
)

// Outside is the loop for clusters on bare hosts: it has workers of its own, which a store that hangs may keep waiting.
type Outside struct{ *Reconciler }

// Reconcile looks at one cluster, and takes one step.
func (r *Outside) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ec := &v1alpha1.EtcdCluster{}
	if err := r.Cached.Get(ctx, q.NamespacedName, ec); err != nil || ec.Spec.Hosts == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ec.Annotations[shape.AnnotationTakeOver] != "" { // a word counts once, and the cache may have one that was used up
		ec = &v1alpha1.EtcdCluster{}
		if err := r.Live.Get(ctx, q.NamespacedName, ec); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	switch {
	case ec.DeletionTimestamp == nil && !protects(ec):
		return ctrl.Result{RequeueAfter: time.Second}, client.IgnoreNotFound(r.Writer.Protect(ctx, ec))
	case !protects(ec):
		return ctrl.Result{}, nil
	}
	s, err := r.outside(ctx, ec)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := decide.NextOutside(*s.outside)
	again := len(d.Steps) > 0
	for _, step := range d.Steps {
		err = r.takeOutside(ctx, s, step)
		result := "done"
		if err != nil {
			result = "failed"
		}
		steps.WithLabelValues(string(step.Kind), result).Inc()
		log.FromContext(ctx).Info("step", "step", step.Kind, "why", step.Why, "result", result, "error", err)
		r.tell(ec, step, err)
		if err != nil {
			again = false
			d.Waits = append(d.Waits, decide.Wait{Code: decide.StepFailed, Sentence: fmt.Sprintf("%s: %s", step.Kind, record.Words(err))})
		}
		if step.Kind == decide.LetGo {
			r.stores.Forget(ec.UID)
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	now, err := r.showOutside(ctx, s, d)
	switch {
	case apierrors.IsConflict(err), err == nil && again:
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return ctrl.Result{}, err
	case s.outside.Unreached == "" && !meta.IsStatusConditionTrue(now.Conditions, v1alpha1.Ready):
		return ctrl.Result{RequeueAfter: lookOutsideSoon}, nil
	}
	return ctrl.Result{RequeueAfter: lookOutside}, nil
}

// outside is what is seen of a cluster on bare hosts. That its store does not answer is a part of that.
func (r *Reconciler) outside(ctx context.Context, ec *v1alpha1.EtcdCluster) (*sight, error) {
	w := &decide.Outside{World: decide.World{Now: r.now()}, Me: control.Owner{Namespace: ec.Namespace, Name: ec.Name, UID: string(ec.UID), Generation: ec.Generation}, TakeOver: ec.Annotations[shape.AnnotationTakeOver]}
	s := &sight{cluster: ec, outside: w}
	w.Want = decide.Want{Spec: cluster.Spec{MemberCount: int(ec.Spec.Size), Options: ec.Spec.Options}, Paused: ec.Spec.Paused, Store: true, ReplaceAfter: defaultReplaceAfter}
	version, err := cluster.ParseVersion(ec.Spec.Version)
	if err != nil {
		w.Want.Refused = err.Error()
	}
	w.Want.Spec.EtcdVersion = version
	if at := ec.DeletionTimestamp; at != nil {
		w.Want.Deleted = at.Time
	}
	system := &corev1.Namespace{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: "kube-system"}, system); err != nil {
		return nil, fmt.Errorf("look which Kubernetes this is: %w", err)
	}
	w.Me.Kubernetes = string(system.UID)
	given, err := r.credentials(ctx, ec)
	if err == nil {
		err = r.readOutside(ctx, s, given)
	}
	if err != nil {
		w.Unreached = record.Words(err)
	}
	w.Record.There = w.Unreached == "" && w.Mine()
	if d := decide.NextOutside(*w); !w.Record.There && len(d.Waits) > 0 {
		w.Bars = d.Waits[0].Sentence
	}
	s.world = w.World
	return s, nil
}

// credentials are those of the Secret that an EtcdCluster names.
func (r *Reconciler) credentials(ctx context.Context, ec *v1alpha1.EtcdCluster) (map[string]string, error) {
	given := map[string]string{}
	if ec.Spec.Hosts.Credentials == nil {
		return given, nil
	}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: ec.Spec.Hosts.Credentials.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Secret %s, which spec.hosts.credentials names, is not there: make it", ec.Spec.Hosts.Credentials.Name)
	}
	for name, value := range secret.Data {
		given[name] = strings.TrimSuffix(string(value), "\n") // as a file that it was made of ends
	}
	return given, err
}

// readOutside reads the record in the store.
func (r *Reconciler) readOutside(ctx context.Context, s *sight, given map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, outsidePatience)
	defer cancel()
	w, hosts := s.outside, s.cluster.Spec.Hosts
	f, err := r.stores.Open(ctx, s.cluster.UID, hosts.Store, given)
	if err != nil {
		return err
	}
	s.folder = f
	if w.Owner, err = f.ReadOwner(ctx); err != nil {
		return err
	}
	spec, err := f.ReadSpec(ctx)
	w.Spec, s.spec = spec.Spec, spec
	if left := spec.Standing; left != nil { // what is refused is written anew, over what is left
		w.Spec, err = &cluster.Spec{Hosts: left.Hosts, Hold: left.Hold, DeadAfter: left.DeadAfter, Options: left.Options}, nil
	}
	in, _, _, ierr := f.ReadIntent(ctx)
	w.Intent = in
	told, is, serr := f.ReadStatus(ctx)
	for _, err := range []error{err, ierr, serr} {
		switch {
		case errors.Is(err, control.ErrMalformed):
			w.Unread = cmp.Or(w.Unread, record.Words(err))
		case err != nil:
			return err
		}
	}
	if is && serr == nil {
		s.told, w.Told = &told, toldOf(&told, in)
	}
	r.date(s, &w.World)
	if w.Spec != nil {
		w.Want.Spec.AutoRecoverAfter, w.Want.ReplaceAfter = w.Spec.AutoRecoverAfter, cmp.Or(w.Spec.DeadAfter, defaultReplaceAfter)
	}
	s.hostsOutside()
	return nil
}

// hostsOutside are the hosts that anything names: their data is there for all that is known here.
func (s *sight) hostsOutside() {
	w := s.outside
	names := s.named(&w.World)
	slices.Sort(names)
	silent := s.silentSince()
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		// Since when it runs is not known, and whoever tells of the cluster does.
		h := decide.Host{Name: string(name), Set: true, Running: true, Runs: time.Unix(0, 0), Claim: decide.ClaimThere}
		h.SilentSince = w.SilentSince(h, silent[h.Name])
		w.Hosts = append(w.Hosts, h)
	}
}

// takeOutside carries out one step.
func (r *Outside) takeOutside(ctx context.Context, s *sight, step decide.Step) error {
	ctx, cancel := context.WithTimeout(ctx, outsidePatience)
	defer cancel()
	w := s.outside
	switch step.Kind {
	case decide.MarkStore:
		me := w.Me
		me.Options = step.Options
		return s.folder.WriteOwner(ctx, w.Owner, &me)
	case decide.EndWord:
		return r.Writer.Mark(ctx, s.cluster, nil, map[string]*string{shape.AnnotationTakeOver: nil})
	case decide.UnmarkStore:
		return s.folder.WriteOwner(ctx, w.Owner, nil)
	case decide.AmendSpec:
		if _, err := s.folder.Settings().AmendOptions(ctx, func(was map[string]string) (map[string]string, error) { return w.Amend(was), nil }); err != nil {
			return err
		}
		amend := control.Amend{EtcdVersion: step.Spec.EtcdVersion, Shown: &s.spec}
		if w.Spec == nil || !w.Spec.Hold {
			amend.MemberCount = step.Spec.MemberCount
		}
		_, _, err := s.folder.AmendSpec(ctx, amend)
		return err
	case decide.LetGo:
		return r.Writer.Unprotect(ctx, s.cluster)
	}
	return fmt.Errorf("no such step of a cluster on bare hosts: %s", step.Kind)
}

// showOutside writes the status where it changed.
func (r *Outside) showOutside(ctx context.Context, s *sight, d decide.Decision) (v1alpha1.ClusterStatus, error) {
	now := s.cluster.DeepCopy()
	seen := show.Seen{Cluster: s.cluster, World: &s.world, Decision: d, Told: s.told}
	if s.outside.Unreached != "" {
		now.Status = show.Unreached(seen, s.outside.Unreached)
	} else {
		now.Status = show.Status(seen)
	}
	if equality.Semantic.DeepEqual(now.Status, s.cluster.Status) {
		return now.Status, nil
	}
	err := r.Cached.Status().Patch(ctx, now, client.MergeFromWithOptions(s.cluster, client.MergeFromWithOptimisticLock{}), client.FieldOwner(shape.Manager))
	return now.Status, client.IgnoreNotFound(err)
}

// outsideAgain is what a request sees of a cluster on bare hosts. Where its store did not answer the last look of the cluster's
// own loop, it is not asked: workers of requests are shared.
func (r *Reconciler) outsideAgain(ctx context.Context, ec *v1alpha1.EtcdCluster) (*sight, error) {
	if c := meta.FindStatusCondition(ec.Status.Conditions, v1alpha1.Reporting); c != nil && c.Reason == string(decide.StoreUnreached) {
		return &sight{cluster: ec, outside: &decide.Outside{}, world: decide.World{Now: r.now(), Bars: c.Message}}, nil
	}
	return r.outside(ctx, ec)
}

// Setup has the manager run the loop.
func (r *Outside) Setup(m ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(m).Named("etcdcluster-outside").
		For(&v1alpha1.EtcdCluster{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			ec, is := o.(*v1alpha1.EtcdCluster)
			return is && ec.Spec.Hosts != nil
		}), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r)
}
