package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// take carries out one step.
func (r *Reconciler) take(ctx context.Context, s *sight, step decide.Step) error {
	h := s.hosts[step.N]
	if h == nil {
		h = &hostObjects{}
	}
	switch step.Kind {
	case decide.MakeRecord:
		return r.makeRecord(ctx, s, step.N)
	case decide.NoteAdoption:
		return r.noteAdoption(ctx, s)
	case decide.MakeShared:
		return r.makeShared(ctx, s)
	case decide.MakeHost:
		return r.makeHost(ctx, s, step.N, h)
	case decide.RenewLeaves:
		return r.renewLeaves(ctx, s, step.N)
	case decide.SetBudget, decide.LowerBudget:
		return r.setBudget(ctx, s, step.AtLeast)
	case decide.WriteSpec:
		return r.writeSpec(ctx, s, step)
	case decide.StartHost:
		return r.Writer.Scale(ctx, h.set, 1, "")
	case decide.StopHost:
		spent := ""
		if step.Spent {
			spent = s.world.Now.UTC().Format(time.RFC3339)
		}
		return r.Writer.Scale(ctx, h.set, 0, spent)
	case decide.AskPause:
		return r.askPause(ctx, s, step, h)
	case decide.EndPause:
		return r.amend(ctx, s, func(f *control.Folder, annotations map[string]string) error {
			return s.writePauses(ctx, f, annotations, nil)
		})
	case decide.KeepPod:
		return r.keepPod(ctx, s, h)
	case decide.EndPod:
		return r.Writer.Delete(ctx, h.pod)
	case decide.Rotate:
		return r.rotate(ctx, s, step)
	case decide.AskIssuer:
		return r.askIssuer(ctx, s, step)
	case decide.SendRequest:
		return r.sendRequest(ctx, s)
	case decide.FoundAuthorities:
		return r.foundAuthorities(ctx, s, step)
	case decide.RollHost:
		return r.rollHost(ctx, s, step, h)
	case decide.AskBackup:
		return r.askBackup(ctx, s, step)
	case decide.CopyBackup:
		return r.startCopy(ctx, s, *s.bootCopy())
	case decide.DropVolume:
		if h.claim.DeletionTimestamp == nil {
			return r.Writer.Delete(ctx, h.claim) // the next look sees it leaving, and takes the finalizer away
		}
		return r.Writer.Unprotect(ctx, h.claim)
	case decide.ClearHost, decide.EndHost:
		return r.endHost(ctx, h)
	case decide.EndShared:
		return r.endShared(ctx, s)
	case decide.EndRecord:
		return r.endRecord(ctx, s)
	case decide.KeepData:
		return r.keepData(ctx, s)
	case decide.LetGo:
		return r.Writer.Unprotect(ctx, s.cluster)
	}
	return fmt.Errorf("no such step: %s", step.Kind)
}

// makeRecord makes the control objects. The first one has its own UID written on it, by which a copy shows.
func (r *Reconciler) makeRecord(ctx context.Context, s *sight, next int) error {
	for _, m := range s.shape.Records() {
		if m.Name == s.shape.ControlName() {
			m.Annotations = map[string]string{shape.AnnotationNext: strconv.Itoa(next)}
			if len(s.hosts) > 0 {
				m.Annotations[shape.AnnotationRemade] = "true"
			}
		}
		if err := r.Writer.Create(ctx, s.shape, m); err != nil {
			return err
		}
	}
	control := &corev1.ConfigMap{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.ControlName()}, control); err != nil {
		return err
	}
	if control.Annotations[shape.AnnotationSelf] != "" {
		return nil
	}
	self := string(control.UID)
	return r.Writer.Mark(ctx, control, nil, map[string]*string{shape.AnnotationSelf: &self})
}

func (r *Reconciler) makeShared(ctx context.Context, s *sight) error {
	if err := r.keepNoMore(ctx, s); err != nil {
		return err
	}
	files, err := r.authorities(ctx, s)
	if err != nil {
		return err
	}
	all := s.shape.Shared()
	if files != nil {
		bundle := s.shape.Bundle(authority.Bundle(files))
		bundle.Annotations = map[string]string{shape.AnnotationStep: s.kept.stamp()}
		all = append(all, bundle)
	}
	for _, want := range all {
		if err := r.Writer.Ensure(ctx, s.shape, want, s.find(want)); err != nil {
			return err
		}
	}
	for _, o := range s.shared { // the policy, where it is not wanted any more
		if _, is := o.(*networkingv1.NetworkPolicy); is && !slices.ContainsFunc(all, func(w client.Object) bool { return sameName(w, o) }) {
			if err := r.Writer.Delete(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepNoMore takes the label from record and authorities of a cluster that is taken up again. Each volume loses it as its
// host is made.
func (r *Reconciler) keepNoMore(ctx context.Context, s *sight) error {
	for _, o := range append(s.secrets, s.records()...) {
		if _, kept := o.GetLabels()[shape.LabelKept]; !kept {
			continue
		}
		if err := r.Writer.Mark(ctx, o, map[string]*string{shape.LabelKept: nil}, nil); err != nil {
			return err
		}
	}
	return nil
}

func sameName(a, b client.Object) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && a.GetName() == b.GetName()
}

// find is an object as it was seen; nil: it was not.
func (s *sight) find(like client.Object) client.Object {
	for _, o := range s.shared {
		if sameName(o, like) {
			return o
		}
	}
	return nil
}

// makeHost makes what is missing of a host: its number is used, then the volume, the leaves, and last the set.
func (r *Reconciler) makeHost(ctx context.Context, s *sight, n int, h *hostObjects) error {
	c := s.shape
	set, err := c.Set(n)
	if err == nil && h.set == nil {
		err = r.Writer.TrySet(ctx, set)
	}
	if err != nil {
		return err
	}
	if h.claim == nil {
		if err := r.Writer.Allot(ctx, s.control, n); err != nil {
			return err
		}
		if err := r.Writer.Create(ctx, c, c.Claim(n)); err != nil {
			return err
		}
	} else if _, kept := h.claim.Labels[shape.LabelKept]; kept {
		claim := h.claim.DeepCopy()
		delete(claim.Labels, shape.LabelKept)
		shape.Protect(claim)
		if err := r.Writer.Update(ctx, claim); err != nil {
			return err
		}
	}
	if h.leaves == nil {
		files, at, err := r.issue(ctx, s, n, nil)
		if err != nil {
			return err
		}
		leaves := c.Leaves(n, files)
		s.date(leaves, at)
		if err := r.Writer.Create(ctx, c, leaves); err != nil {
			return err
		}
	}
	if h.set != nil {
		return nil
	}
	return r.Writer.Create(ctx, c, set)
}

func (r *Reconciler) issue(ctx context.Context, s *sight, n int, had authority.Files) (authority.Files, time.Time, error) {
	s.needsKeys = true
	files, err := r.authorities(ctx, s)
	if err != nil {
		return nil, time.Time{}, err
	}
	c := s.shape
	return authority.Issue(files, had, authority.Host{Cluster: c.ClusterName(), Name: c.Host(n), DNS: []string{c.HostDNS(n)}, Served: c.ServedDNS()}, s.world.Now)
}

// date writes on leaves when they are renewed, and the step of the authorities that they are of.
func (s *sight) date(leaves *corev1.Secret, due time.Time) {
	if leaves.Annotations == nil {
		leaves.Annotations = map[string]string{}
	}
	leaves.Annotations[shape.AnnotationRenew], leaves.Annotations[shape.AnnotationStep] = due.UTC().Format(time.RFC3339), s.kept.stamp()
}

// renewLeaves reads the leaves before the authorities: these were there before what was issued by them, so that nothing is
// written by a step before.
func (r *Reconciler) renewLeaves(ctx context.Context, s *sight, n int) error {
	leaves := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.LeavesName(n)}, leaves); err != nil {
		return client.IgnoreNotFound(err)
	}
	files, at, err := r.issue(ctx, s, n, leaves.Data)
	if errors.Is(err, authority.ErrForeign) && s.outdated(n, leaves) {
		files, at, err = r.issue(ctx, s, n, authority.Keys(leaves.Data))
	}
	if err != nil {
		return err
	}
	leaves.Data = files
	s.date(leaves, at)
	return r.Writer.Client.Update(ctx, leaves, client.FieldOwner(shape.Manager))
}

func (r *Reconciler) setBudget(ctx context.Context, s *sight, atLeast int) error {
	had := s.find(s.shape.Budget(1))
	want := s.shape.Budget(atLeast)
	if want == nil {
		if had == nil {
			return nil
		}
		return r.Writer.Delete(ctx, had)
	}
	return r.Writer.Ensure(ctx, s.shape, want, had)
}

// writeSpec writes what the daemons go by over what was seen.
func (r *Reconciler) writeSpec(ctx context.Context, s *sight, step decide.Step) error {
	if step.Adopted {
		if err := r.adoptedNow(ctx, s); err != nil {
			return err
		}
	}
	return r.amend(ctx, s, func(f *control.Folder, annotations map[string]string) error {
		delete(annotations, shape.AnnotationHeld)
		if step.Held {
			annotations[shape.AnnotationHeld] = "true"
		}
		if step.Adopted {
			delete(annotations, shape.AnnotationAdopt)
		}
		if step.Begin != "" {
			if err := r.beginWith(ctx, s, f, step.Begin); err != nil {
				return err
			}
		}
		return f.WriteSpec(ctx, *step.Spec)
	})
}

// beginWith writes down what a new cluster begins with, which keeps it from beginning empty, and asks for the restore, as
// etcdadm init --from-backup does.
func (r *Reconciler) beginWith(ctx context.Context, s *sight, f *control.Folder, backup string) error {
	was, err := f.ReadOrigin(ctx)
	if err != nil {
		return err
	}
	if err := f.WriteOrigin(ctx, was, &cluster.Origin{Backup: backup}); err != nil {
		return err
	}
	return f.AddRestoreOnce(ctx, s.beginning(backup), r.now(), control.RestoreBackup{Backup: backup, By: "EtcdCluster " + s.cluster.Name})
}

// askBackup puts the wish for a backup into the daemons' queue. That of a deleted cluster is written down as the last one; any
// other one is not doubled.
func (r *Reconciler) askBackup(ctx context.Context, s *sight, step decide.Step) error {
	last := s.cluster.DeletionTimestamp != nil
	return r.amend(ctx, s, func(f *control.Folder, annotations map[string]string) error {
		queued, err := f.Commands(ctx)
		if err != nil {
			return err
		}
		for _, c := range queued {
			if !last && c.Wish != nil && c.Wish.Kind == cluster.CommandBackup {
				return nil
			}
		}
		name, err := f.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup, By: "the operator: " + step.Why})
		if last {
			annotations[shape.AnnotationLast] = string(s.cluster.UID) + " " + name
		}
		return err
	})
}

// amend changes the control object as it was seen, in one write. In the store of bare hosts each object is a write of its own.
func (r *Reconciler) amend(ctx context.Context, s *sight, change func(f *control.Folder, annotations map[string]string) error) error {
	if s.outside != nil {
		return change(s.folder, nil)
	}
	view := record.Of(s.control, s.status)
	if err := change(view.Folder(s.shape.ClusterName()), view.Control.Annotations); err != nil {
		return err
	}
	if reflect.DeepEqual(view.Control, s.control) {
		return nil
	}
	if err := r.Writer.Update(ctx, view.Control); err != nil {
		return err
	}
	s.control = view.Control
	return nil
}
