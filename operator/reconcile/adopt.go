package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// joining is how far an adoption is, and whether a person has given it up. A list that is there and cannot be read is given up by nobody.
func (s *sight) joining(ctx context.Context, f *control.Folder) error {
	w := &s.world
	said, adopts := s.control.Annotations[shape.AnnotationAdopt]
	w.Record.Adopts, w.Record.AdoptsID = adopts, adoptsID(said)
	j, _, err := f.ReadJoining(ctx)
	if err != nil {
		w.Want.GivenUp = false
	}
	if j != nil {
		w.Want.GivenUp = s.cluster.Annotations[decide.AnnotationGivenUp] == j.Cluster.String()
		w.Joining = &decide.Joining{Cluster: j.Cluster, Members: j.Members, Hosts: len(j.Ours), Votes: len(j.Promoted), Foreign: len(j.Foreign)}
	}
	return err
}

// adoptsID is the cluster that AnnotationAdopt names; zero: none.
func adoptsID(said string) cluster.ClusterID {
	_, id, _ := strings.Cut(said, " ")
	n, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return 0
	}
	return cluster.ClusterID(n)
}

// adopts is AnnotationAdopt as it is to be: the Secret that was written first, and the cluster that is meant. What only volumes have
// counts where the control object is lost.
func (s *sight) adopts() string {
	said := s.control.Annotations[shape.AnnotationAdopt]
	for _, n := range slices.Sorted(maps.Keys(s.hosts)) {
		if c := s.hosts[n].claim; c != nil {
			said = cmp.Or(said, c.Annotations[shape.AnnotationAdopt])
		}
	}
	secret, id, _ := strings.Cut(said, " ")
	if b := s.cluster.Spec.Bootstrap; b != nil && b.Adopt != nil {
		named := shape.NoSecret
		if b.Adopt.Secret != nil {
			named = b.Adopt.Secret.Name
		}
		secret = cmp.Or(secret, named)
	}
	if meant := s.world.Meant(); meant != 0 {
		id = meant.String()
	}
	return strings.TrimSuffix(secret+" "+id, " ")
}

// noteAdoption writes down that a running cluster is to be adopted, with the marker in the face of which nobody founds. The control
// object comes first: whoever saw an older one is refused before he says on volumes which cluster is meant. What these say is left as it
// is where the control object was lost: they are all that says which cluster hosts may have joined.
func (r *Reconciler) noteAdoption(ctx context.Context, s *sight) error {
	said, lost := s.adopts(), s.world.Adoption() == decide.Lost
	err := r.amend(ctx, s, func(f *control.Folder, annotations map[string]string) error {
		annotations[shape.AnnotationAdopt] = said
		return f.MarkToJoin(ctx, r.now())
	})
	if err != nil || lost {
		return err
	}
	return r.markVolumes(ctx, s, &said)
}

// adoptedNow takes from the volumes what says that they are made for an adoption. It comes before the control object says so.
func (r *Reconciler) adoptedNow(ctx context.Context, s *sight) error {
	return r.markVolumes(ctx, s, nil)
}

// markVolumes writes AnnotationAdopt on the volumes that have it, and say something else; nil takes it away.
func (r *Reconciler) markVolumes(ctx context.Context, s *sight, said *string) error {
	for _, n := range slices.Sorted(maps.Keys(s.hosts)) {
		c := s.hosts[n].claim
		if c == nil {
			continue
		}
		if was, is := c.Annotations[shape.AnnotationAdopt]; !is || said != nil && was == *said {
			continue
		}
		if err := r.Writer.Mark(ctx, c, nil, map[string]*string{shape.AnnotationAdopt: said}); err != nil {
			return err
		}
	}
	return nil
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
	said, is := control.Annotations[shape.AnnotationAdopt]
	if !is {
		return authority.Create(s.world.Now)
	}
	name, _, _ := strings.Cut(said, " ")
	switch name {
	case shape.NoSecret:
		return authority.Create(s.world.Now)
	case "":
		return nil, &adoptError{"the authorities are gone, and nothing says any more which Secret has those of the cluster that is to be adopted"}
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
