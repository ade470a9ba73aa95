package reconcile

import (
	"context"
	"slices"

	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (r *Reconciler) endHost(ctx context.Context, h *hostObjects) error {
	if h.set != nil {
		if err := r.Writer.Delete(ctx, h.set); err != nil {
			return err
		}
	}
	if h.leaves != nil {
		return r.Writer.Delete(ctx, h.leaves)
	}
	return nil
}

func (r *Reconciler) endShared(ctx context.Context, s *sight) error {
	for _, o := range s.shared {
		if s.isShared(o) {
			if err := r.Writer.Delete(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// endRecord deletes what is left, the control object last: until then a second try knows whose all of it is.
func (r *Reconciler) endRecord(ctx context.Context, s *sight) error {
	for _, o := range append(s.secrets, s.records()...) {
		if err := r.Writer.Delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// keepData labels what a deleted cluster leaves behind, and lets a person delete it. The volumes come last: by them a second
// try knows what is done.
func (r *Reconciler) keepData(ctx context.Context, s *sight) error {
	yes := "true"
	kept := map[string]*string{shape.LabelKept: &yes}
	for _, o := range append(s.secrets, s.records()...) {
		if o.GetLabels()[shape.LabelKept] == yes {
			continue
		}
		if err := r.Writer.Mark(ctx, o, kept, nil); err != nil {
			return err
		}
	}
	for _, h := range s.hosts {
		if h.claim == nil || h.claim.Labels[shape.LabelKept] == yes && !slices.Contains(h.claim.Finalizers, shape.Finalizer) {
			continue
		}
		claim := h.claim.DeepCopy()
		claim.Labels[shape.LabelKept] = yes
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == shape.Finalizer })
		if err := r.Writer.Update(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// records are the control objects that are there.
func (s *sight) records() (all []client.Object) {
	for _, m := range []*corev1.ConfigMap{s.status, s.control} {
		if m != nil {
			all = append(all, m)
		}
	}
	return all
}
