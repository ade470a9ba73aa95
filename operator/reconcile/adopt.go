package reconcile

import (
	"context"
	"fmt"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// joining is how far an adoption is, and whether a person has given it up.
func (s *sight) joining(ctx context.Context, f *control.Folder) error {
	w := &s.world
	_, w.Record.Adopts = s.control.Annotations[shape.AnnotationAdopt]
	j, _, err := f.ReadJoining(ctx)
	if j != nil {
		w.Want.GivenUp = s.cluster.Annotations[decide.AnnotationGivenUp] == j.Cluster.String()
		w.Joining = &decide.Joining{Cluster: j.Cluster, Members: j.Members, Hosts: len(j.Ours), Votes: len(j.Promoted)}
	}
	return err
}

// adoptError says why authorities that are to be adopted are not.
type adoptError struct{ why string }

func (e *adoptError) Error() string { return e.why }

// firstAuthorities are those that the cluster begins with: of a running cluster that is to be adopted, but for the third one; else all
// are made. The control object is read past the cache, since nothing is made of authorities by compare-and-swap.
func (r *Reconciler) firstAuthorities(ctx context.Context, s *sight) (authority.Files, error) {
	control, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.ControlName()}, control); err != nil {
		return nil, err
	}
	name, is := control.Annotations[shape.AnnotationAdopt]
	if !is {
		return authority.Create(s.world.Now)
	}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, &adoptError{fmt.Sprintf("the Secret %s, which spec.bootstrap.adopt.secret names, is not there", name)}
	}
	if err != nil {
		return nil, err
	}
	given, err := authority.Given(secret.Data)
	if err != nil {
		return nil, &adoptError{fmt.Sprintf("the Secret %s, which spec.bootstrap.adopt.secret names, %v", name, err)}
	}
	files, err := authority.Complete(given, s.world.Now)
	if err != nil {
		return nil, &adoptError{fmt.Sprintf("the authorities in the Secret %s, which spec.bootstrap.adopt.secret names, cannot be used: %v", name, err)}
	}
	return files, nil
}
