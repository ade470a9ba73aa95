package reconcile

import (
	"context"
	"slices"
	"sync/atomic"

	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// images knows whether this Kubernetes mounts images, once it was found to.
type images struct{ there atomic.Bool }

// missing finds out whether images cannot be mounted: an API server that does not know them drops them, and refuses the
// volumes without a source that are left, or makes them empty ones. Its version does not say it, since they can be switched
// on before 1.35.
func (i *images) missing(ctx context.Context, w *act.Writer, c shape.Cluster) (bool, error) {
	if i.there.Load() {
		return false, nil
	}
	c.Spec = v1alpha1.ClusterSpec{Releases: c.Spec.Releases}
	set, err := c.Set(0) // which is no host
	if err != nil {
		return false, err
	}
	err = w.Try(ctx, set)
	mounts := slices.ContainsFunc(set.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Image != nil })
	if apierrors.IsInvalid(err) || err == nil && !mounts {
		return true, nil
	}
	i.there.Store(err == nil)
	return false, err
}
